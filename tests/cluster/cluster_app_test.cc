// SPDX-License-Identifier: Apache-2.0
// From a fake API server to the pods that an agent has in force.
#include "cluster/app.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/written_pods.h"
#include "service/unary_call.h"
#include "support/child.h"
#include "support/fake_api_server.h"
#include "support/manual_clock.h"
#include "support/temp_tree.h"
#include "wire/grpc_server.h"

namespace forestall::cluster {
namespace {

using test::ApiAnswer;
using test::ApiRequest;
using test::chunk;
using test::FakeApiServer;
using test::json_answer;
using test::watch_answer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::GrpcStep;

std::string pod(const std::string& uid, int priority = 0) {
  return fmt::format(
      R"({{"metadata":{{"uid":"{0}","name":"{0}","namespace":"s","resourceVersion":"11"}},)"
      R"("spec":{{"nodeName":"here","priority":{1},"containers":[{{"name":"c"}}]}}}})",
      uid, priority);
}

std::string event(const std::string& type, const std::string& object) {
  return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object);
}

std::string list(const std::vector<std::string>& pods) {
  return fmt::format(R"({{"kind":"PodList","metadata":{{"resourceVersion":"10"}},"items":[{}]}})",
                     fmt::join(pods, ","));
}

// The agent's socket with the agent's own store of pods.
class ToyAgent final : public wire::GrpcService {
 public:
  explicit ToyAgent(const std::string& socket) {
    pods_ = daemon::WrittenPods::create(clock_, log_).value();
    server_ = wire::GrpcServer::start(socket, {}, *this, counts_).value();
  }
  std::unique_ptr<wire::GrpcCall> begin(std::string_view method, const wire::GrpcPeer&) override {
    if (method == "/forestall.v1.Agent/WatchRecords") return std::make_unique<Records>(*this);
    if (method != "/forestall.v1.Agent/UpdatePods") return nullptr;
    return std::make_unique<service::UnaryCall<v1::UpdatePodsRequest, v1::UpdatePodsResponse>>(
        [this](const v1::UpdatePodsRequest& request, v1::UpdatePodsResponse&) {
          ++calls;
          const auto updated = pods_->update(request);
          return updated ? GrpcStep()
                         : GrpcStep::end(wire::GrpcStatus::failed_precondition,
                                         updated.error().message);
        });
  }
  [[nodiscard]] int news_fd() const override { return news_.get(); }
  void take_news() override {
    eventfd_t count = 0;
    (void)eventfd_read(news_.get(), &count);
  }
  // A record to all that watch.
  void report(const v1::Record& record) {
    v1::WatchRecordsResponse response;
    *response.mutable_record() = record;
    const std::lock_guard lock(mutex_);
    records_.push_back(response.SerializeAsString());
    (void)eventfd_write(news_.get(), 1);
  }

  // "UID=PRIORITY" of the pods in force.
  std::vector<std::string> in_force() {
    (void)pods_->take();
    std::vector<std::string> all;
    if (!pods_->in_force()) return {"none"};
    for (const auto& each : *pods_->in_force()) {
      all.push_back(fmt::format("{}={}", each->uid, each->priority.value_or(-1)));
    }
    return all;
  }
  [[nodiscard]] std::string problem() const {
    const auto state = pods_->state();
    return state ? state->problem : "none";
  }

  std::atomic<int> calls{0};
  std::atomic<int> watchers{0};

 private:
  class Records final : public wire::GrpcCall {
   public:
    explicit Records(ToyAgent& agent) : agent_(agent) { ++agent_.watchers; }
    ~Records() override { --agent_.watchers; }
    void take(std::string_view) override {}
    void requests_end() override {}
    GrpcStep next() override {
      const std::lock_guard lock(agent_.mutex_);
      if (sent_ == agent_.records_.size()) return GrpcStep::wait();
      return GrpcStep::message(wire::make_frame(agent_.records_[sent_++]));
    }

   private:
    ToyAgent& agent_;
    std::size_t sent_ = 0;
  };

  const UniqueFd news_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::vector<std::string> records_;
  SystemClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  wire::GrpcCounts counts_;
  std::unique_ptr<daemon::WrittenPods> pods_;
  std::unique_ptr<wire::GrpcServer> server_;  // last: its thread uses the above
};

class ClusterAppTest : public ::testing::Test {
 protected:
  ClusterAppTest()
      : server_([this](const ApiRequest& request) {
          const std::lock_guard lock(mutex_);
          return answer_(request);
        }) {
    agent_ = std::make_unique<ToyAgent>(directory_ / "s");
    AppOptions options;
    options.node = "here";
    options.socket = directory_ / "s";
    options.access.server = server_.url();
    app_ = App::create(options, clock_, log_).value();
  }
  // The list, then an open watch.
  static std::function<ApiAnswer(const ApiRequest&)> serving(const std::string& pods) {
    return [pods](const ApiRequest& request) {
      return request.target.find("watch=1") == std::string::npos ? json_answer(200, pods)
                                                                 : watch_answer();
    };
  }
  void answer(std::function<ApiAnswer(const ApiRequest&)> with) {
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
  bool has(const std::vector<std::string>& pods) {
    return run_until([&] { return agent_->in_force() == pods; });
  }

  const SystemClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  test::TempTree directory_;
  std::mutex mutex_;
  std::function<ApiAnswer(const ApiRequest&)> answer_ = serving(list({pod("a", 5)}));
  FakeApiServer server_;
  std::unique_ptr<ToyAgent> agent_;
  std::unique_ptr<App> app_;
};

TEST_F(ClusterAppTest, GivesTheAgentTheListAndEachChange) {
  ASSERT_TRUE(has({"a=5"}));
  EXPECT_THAT(server_.requests().front().target, HasSubstr("fieldSelector=spec.nodeName%3Dhere"));
  ASSERT_TRUE(run_until([&] { return server_.requests().size() == 2; }));
  server_.send_held(chunk(event("ADDED", pod("b", 1)) + event("MODIFIED", pod("a", 6))));
  ASSERT_TRUE(has({"a=6", "b=1"}));
  server_.send_held(chunk(event("DELETED", pod("a", 6))));
  ASSERT_TRUE(has({"b=1"}));
}

// The same name, another UID: two pods for a moment, and then only the new one.
TEST_F(ClusterAppTest, DistinguishesAPodFromItsSuccessorOfTheSameName) {
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return server_.requests().size() == 2; }));
  std::string next = pod("z", 2);
  next.replace(next.find("\"name\":\"z\""), 10, "\"name\":\"a\"");
  server_.send_held(chunk(event("ADDED", next) + event("DELETED", pod("a", 5))));
  ASSERT_TRUE(has({"z=2"}));
}

TEST_F(ClusterAppTest, LeavesTheLastPodsInForceWhileTheApiIsAway) {
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return server_.requests().size() == 2; }));
  answer([](const ApiRequest&) {
    return json_answer(500, R"({"kind":"Status","message":"etcdserver: request timed out"})");
  });
  server_.cut_held();
  ASSERT_TRUE(run_until([&] { return agent_->problem() == "500: etcdserver: request timed out"; }));
  EXPECT_THAT(agent_->in_force(), ElementsAre("a=5"));
  // The watch cannot resume; only a list has `c`.
  answer([](const ApiRequest& request) {
    if (request.target.find("watch=1") == std::string::npos) {
      return json_answer(200, list({pod("c", 3)}));
    }
    return json_answer(410, R"({"kind":"Status","reason":"Expired","code":410})");
  });
  ASSERT_TRUE(has({"c=3"}));
}

TEST_F(ClusterAppTest, GivesTheAgentNothingBeforeAListIsComplete) {
  answer([](const ApiRequest&) { return json_answer(200, "{\"kind\":\"PodList\",\"items\":["); });
  ASSERT_TRUE(run_until([&] { return server_.requests().size() == 2; }));
  EXPECT_EQ(agent_->calls, 0);
  EXPECT_THAT(agent_->in_force(), ElementsAre("none"));
}

TEST_F(ClusterAppTest, ListsAtOnceForAnAgentThatStartedAgain) {
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return agent_->watchers == 1; }));
  agent_.reset();
  agent_ = std::make_unique<ToyAgent>(directory_ / "s");
  const MonotonicTime started = clock_.now();
  ASSERT_TRUE(has({"a=5"})) << "although nothing changed";
  EXPECT_LT(clock_.now() - started, PodWriter::kHeartbeat / 2);
  ASSERT_TRUE(run_until([&] { return server_.requests().size() == 2; }));
  server_.send_held(chunk(event("ADDED", pod("b", 1))));
  ASSERT_TRUE(has({"a=5", "b=1"}));
}

// The record of a kill of `uid` by the agent.
v1::Record kill_of(const std::string& uid) {
  v1::Record record;
  v1::Outcome& outcome = *record.mutable_outcome();
  outcome.set_signalled_ns(1);
  v1::Pod& pod = *outcome.mutable_victim()->mutable_pod();
  pod.set_uid(uid);
  pod.set_name("web-0");
  pod.set_namespace_("shop");
  pod.set_origin(v1::Pod::API);
  return record;
}

// The first record of a kill of `uid`: its outcome is not known yet.
v1::Record begun_kill_of(const std::string& uid) {
  v1::Record record = kill_of(uid);
  v1::Decision& decision = *record.mutable_decision();
  decision.add_considered();  // the victim need not be the first candidate
  *decision.add_considered()->mutable_sample()->mutable_workload() = record.outcome().victim();
  decision.add_evictions()->set_candidate(1);
  record.clear_outcome();
  record.mutable_begun()->set_state(v1::KillProgress::IN_FLIGHT);
  return record;
}

TEST(KilledPod, IsKnownWhenTheKillBegins) {
  const v1::Record begun = begun_kill_of("u");
  ASSERT_TRUE(killed_pod(begun));
  EXPECT_EQ(killed_pod(begun)->uid, "u");
  EXPECT_EQ(killed_pod(begun)->kill, killed_pod(kill_of("u"))->kill);
  v1::Record soft = begun;
  soft.mutable_begun()->set_state(v1::KillProgress::TERMINATING);
  EXPECT_TRUE(killed_pod(soft));
  v1::Record dry_run = begun;
  dry_run.mutable_begun()->set_dry_run(true);
  EXPECT_FALSE(killed_pod(dry_run));
  v1::Record failed = begun;
  failed.mutable_begun()->set_state(v1::KillProgress::FAILED);
  EXPECT_FALSE(killed_pod(failed));
  v1::Record of_an_older_agent = begun;
  of_an_older_agent.clear_begun();
  EXPECT_FALSE(killed_pod(of_an_older_agent)) << "it may be a dry run";
  v1::Record damaged = begun;
  damaged.mutable_decision()->mutable_evictions(0)->set_candidate(2);
  EXPECT_FALSE(killed_pod(damaged));
  damaged.mutable_decision()->clear_evictions();
  EXPECT_FALSE(killed_pod(damaged));
}

TEST(KilledPod, IsThatOfACompleteKillOfAPodOfTheApiServer) {
  EXPECT_EQ(killed_pod(kill_of("u")).value_or(KilledPod{}).uid, "u");
  v1::Record dry_run = kill_of("u");
  dry_run.mutable_outcome()->set_dry_run(true);
  EXPECT_FALSE(killed_pod(dry_run));
  v1::Record failed = kill_of("u");
  failed.mutable_outcome()->clear_signalled_ns();
  EXPECT_FALSE(killed_pod(failed));
  v1::Record unknown = kill_of("u");
  unknown.mutable_outcome()->mutable_victim()->clear_pod();
  EXPECT_FALSE(killed_pod(unknown));
  v1::Record is_static = kill_of("u");
  is_static.mutable_outcome()->mutable_victim()->mutable_pod()->set_origin(v1::Pod::STATIC_FILE);
  EXPECT_FALSE(killed_pod(is_static));
}

TEST_F(ClusterAppTest, EvictsThePodThatTheAgentKilled) {
  const auto serve = serving(list({pod("a", 5)}));
  answer([serve](const ApiRequest& request) {
    return request.method == "POST" ? json_answer(201, "{}") : serve(request);
  });
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return agent_->watchers == 1; }));
  agent_->report(begun_kill_of("a"));
  const auto sent = [&] {
    std::vector<ApiRequest> all = server_.requests();
    std::erase_if(all, [](const ApiRequest& each) { return each.method != "POST"; });
    return all;
  };
  ASSERT_TRUE(run_until([&] { return sent().size() == 1; }));
  EXPECT_EQ(sent().front().target, "/api/v1/namespaces/shop/pods/web-0/eviction");
  EXPECT_THAT(sent().front().body, HasSubstr(R"("preconditions":{"uid":"a"})"));
  // The outcome is of the same kill, and of the same pod.
  agent_->report(kill_of("a"));
  agent_->report(begun_kill_of("b"));
  ASSERT_TRUE(run_until([&] { return sent().size() == 2; }));
  EXPECT_THAT(sent().back().body, HasSubstr(R"("preconditions":{"uid":"b"})"));
}

// A node name with a mistake: the list of its pods is empty, and would make all pods unknown.
TEST_F(ClusterAppTest, DoesNotUseAnEmptyListBeforeTheNodeExists) {
  std::atomic<bool> exists = false;
  const auto serve = serving(list({}));
  answer([serve, &exists](const ApiRequest& request) {
    if (request.target != "/api/v1/nodes/here") return serve(request);
    return exists ? json_answer(200, R"({"kind":"Node"})")
                  : json_answer(404, R"({"kind":"Status","reason":"NotFound","code":404})");
  });
  const auto asked = [&] {
    const auto all = server_.requests();
    return std::ranges::count(all, "/api/v1/nodes/here", &ApiRequest::target);
  };
  ASSERT_TRUE(run_until([&] { return asked() >= 2; }));
  EXPECT_THAT(agent_->in_force(), ElementsAre("none"));
  exists = true;
  ASSERT_TRUE(has({}));
}

// The list of a node that has pods is of this node.
TEST_F(ClusterAppTest, NeedsNoNodeForAListWithPods) {
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return server_.requests().size() == 2; }));
  server_.send_held(chunk(event("DELETED", pod("a", 5))));
  ASSERT_TRUE(has({}));
  EXPECT_EQ(server_.requests().size(), 2U);
}

// Finished pods of Jobs may be many, and have no process.
TEST_F(ClusterAppTest, RequestsNoFinishedPods) {
  ASSERT_TRUE(has({"a=5"}));
  EXPECT_THAT(server_.requests().front().target,
              HasSubstr("%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"));
}

// The pod is deleted while the server refuses: the next pod of that name is left alone.
TEST_F(ClusterAppTest, EndsTheEvictionWhenThePodIsGone) {
  const auto serve = serving(list({pod("a", 5)}));
  answer([serve](const ApiRequest& request) {
    return request.method == "POST" ? json_answer(500, "{}") : serve(request);
  });
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return agent_->watchers == 1; }));
  agent_->report(kill_of("a"));
  const auto posts = [&] {
    const auto all = server_.requests();
    return std::ranges::count(all, "POST", &ApiRequest::method);
  };
  ASSERT_TRUE(run_until([&] { return posts() >= 1; }));
  server_.send_held(chunk(event("DELETED", pod("a", 5))));
  ASSERT_TRUE(has({}));
  const auto before = posts();
  const MonotonicTime end = clock_.now() + std::chrono::seconds(2);  // longer than two back-offs
  while (clock_.now() < end) EXPECT_TRUE(app_->step(-1, std::chrono::milliseconds(50)));
  EXPECT_EQ(posts(), before);
}

// An agent that is restarted now and then, without a kill meanwhile.
TEST(KillWatch, AConnectionThatLastedEndsTheBackOff) {
  const test::TempTree tree;
  const std::string socket = tree / "agent.sock";
  test::ManualClock clock;
  KillWatch watch(
      socket, clock, [] { return 0.0; }, [](const KilledPod&) {}, [] {});
  std::vector<Duration> waits;
  for (int restart = 0; restart < 4; ++restart) {
    {
      ToyAgent agent(socket);
      if (restart > 0) clock.advance(waits.back());
      watch.advance();
      ASSERT_FALSE(watch.due()) << "it is connected";
      clock.advance(KillWatch::kLasted);
    }
    while (!watch.due()) {
      pollfd ended = watch.poll();
      ASSERT_EQ(::poll(&ended, 1, 10'000), 1);
      watch.advance();
    }
    waits.push_back(*watch.due() - clock.now());
  }
  EXPECT_THAT(waits, ::testing::Each(waits.front()));
}

TEST_F(ClusterAppTest, WaitsForAnAgentThatIsAway) {
  agent_.reset();
  ASSERT_TRUE(run_until([&] { return server_.requests().size() == 2; }));
  server_.send_held(chunk(event("ADDED", pod("b", 1))));
  agent_ = std::make_unique<ToyAgent>(directory_ / "s");
  ASSERT_TRUE(has({"a=5", "b=1"}));
}

}  // namespace
}  // namespace forestall::cluster
