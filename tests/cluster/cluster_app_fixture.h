// SPDX-License-Identifier: Apache-2.0
// The process between a fake API server and a toy agent.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/app.h"
#include "cluster/toy_agent.h"
#include "support/child.h"
#include "support/fake_api_server.h"
#include "support/temp_tree.h"

namespace forestall::cluster {

// An object of the API server, with the name of its UID.
inline std::string pod(const std::string& uid, int priority = 0) {
  return fmt::format(
      R"({{"metadata":{{"uid":"{0}","name":"{0}","namespace":"s","resourceVersion":"11"}},)"
      R"("spec":{{"nodeName":"here","priority":{1},"containers":[{{"name":"c"}}]}}}})",
      uid, priority);
}

inline std::string event(const std::string& type, const std::string& object) {
  return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object);
}

inline std::string list(const std::vector<std::string>& pods) {
  return fmt::format(R"({{"kind":"PodList","metadata":{{"resourceVersion":"10"}},"items":[{}]}})",
                     fmt::join(pods, ","));
}

class ClusterAppTest : public ::testing::Test {
 protected:
  ClusterAppTest()
      : server_([this](const test::ApiRequest& request) {
          const std::lock_guard lock(mutex_);
          return answer_(request);
        }) {
    agent_ = std::make_unique<ToyAgent>(directory_ / "s");
    start();
  }
  void start() {
    AppOptions options;
    options.node = "here";
    options.socket = directory_ / "s";
    options.access.server = server_.url();
    options.taint = true;
    options.daemon_set = daemon_set_;
    app_ = App::create(options, clock_, log_).value();
  }
  // The list, then an open watch.
  static std::function<test::ApiAnswer(const test::ApiRequest&)> serving(const std::string& pods) {
    return [pods](const test::ApiRequest& request) {
      return request.target.find("watch=1") == std::string::npos ? test::json_answer(200, pods)
                                                                 : test::watch_answer();
    };
  }
  void answer(std::function<test::ApiAnswer(const test::ApiRequest&)> with) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(with);
  }
  // Whether `done` came true while the process ran.
  bool run_until(const std::function<bool()>& done) {
    const MonotonicTime deadline = clock_.now() + test::kPatience;
    while (!done()) {
      if (clock_.now() > deadline) return false;
      EXPECT_TRUE(app_->step(-1, std::chrono::milliseconds(10)));
    }
    return true;
  }
  // Requests so far whose method is `method`, and whose target contains `part`.
  std::vector<test::ApiRequest> requests(std::string_view method, std::string_view part = "") {
    std::vector<test::ApiRequest> all = server_.requests();
    std::erase_if(all, [&](const test::ApiRequest& each) {
      return each.method != method || each.target.find(part) == std::string::npos;
    });
    return all;
  }
  bool is_watching() {
    return run_until([&] { return !requests("GET", "watch=1").empty(); });
  }
  bool has(const std::vector<std::string>& pods) {
    return run_until([&] { return agent_->in_force() == pods; });
  }

  const SystemClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  test::TempTree directory_;
  std::mutex mutex_;
  std::function<test::ApiAnswer(const test::ApiRequest&)> answer_ = serving(list({pod("a", 5)}));
  test::FakeApiServer server_;
  std::unique_ptr<ToyAgent> agent_;
  std::string daemon_set_;
  std::unique_ptr<App> app_;
};

}  // namespace forestall::cluster
