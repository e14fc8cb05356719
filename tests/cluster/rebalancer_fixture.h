// SPDX-License-Identifier: Apache-2.0
// A fake API server with pods, a Lease and NodeReports, and rebalancers that use it.
#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/boottime_clock.h"
#include "cluster/rebalancer.h"
#include "cluster/status_answer.h"
#include "support/child.h"
#include "support/fake_api_server.h"
#include "text/json_value.h"

namespace forestall::cluster {

using test::ApiAnswer;
using test::ApiRequest;
using test::json_answer;

inline constexpr const char* kOldPods = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
gracePeriodSeconds: 3
maxNoOfPodsToEvictPerNode: 3
profiles:
- name: p
  pluginConfig:
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60}}
  - {name: DefaultEvictor, args: {}}
  plugins: {deschedule: {enabled: [PodLifeTime]}}
)";
// As kOldPods, with metrics.k8s.io.
inline constexpr const char* kOldPodsWithMetrics = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: [{source: KubernetesMetrics}]
profiles:
- name: p
  pluginConfig:
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60}}
  - {name: DefaultEvictor, args: {}}
  plugins: {deschedule: {enabled: [PodLifeTime]}}
)";
inline constexpr const char* kShortPressure = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {name: DefaultEvictor, args: {}}
  - {name: NodePressure, args: {consecutiveReports: 1, evictionLimits: {node: 1}}}
  plugins: {balance: {enabled: [NodePressure]}}
)";
inline constexpr const char* kLongPressure = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {name: DefaultEvictor, args: {}}
  - {name: NodePressure, args: {consecutiveReports: 8, evictionLimits: {node: 1}}}
  plugins: {balance: {enabled: [NodePressure]}}
)";
inline constexpr const char* kPressure = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {name: NodePressure, args: {}}
  plugins: {balance: {enabled: [NodePressure]}}
)";

// What the API server answers to a request for a pod that does not exist.
inline ApiAnswer without_pod(const std::string& name) {
  return json_answer(404, fmt::format(R"({{"kind":"Status","reason":"NotFound","code":404,)"
                                      R"("details":{{"name":"{}","kind":"pods"}}}})",
                                      name));
}

// Pods a, b, c, ... on two nodes.
class ClusterWithPods {
 public:
  explicit ClusterWithPods(const std::string& names)
      : server_([this](const ApiRequest& request) {
          const std::lock_guard lock(mutex_);
          return answer(request);
        }) {
    for (const char each : names) pods_.insert(std::string(1, each));
  }

  using Evict = std::function<ApiAnswer(const std::string& pod)>;
  // What an eviction gets; the pod is gone if the code is 201.
  void set_evict(Evict evict) {
    const std::lock_guard lock(mutex_);
    evict_ = std::move(evict);
  }
  // The pods have the annotation request-evict-only.
  void allow_background() {
    const std::lock_guard lock(mutex_);
    annotations_ = R"("annotations":{"descheduler.alpha.kubernetes.io/request-evict-only":""},)";
  }
  // Of lists of pods; 200: they are answered.
  void set_list_code(int code) {
    const std::lock_guard lock(mutex_);
    list_code_ = code;
  }
  // What metrics.k8s.io has of the nodes.
  void set_node_metrics(const std::string& list) {
    const std::lock_guard lock(mutex_);
    node_metrics_ = list;
  }
  // What a GET of a Secret gets.
  void set_secret(int code, const std::string& body) {
    const std::lock_guard lock(mutex_);
    secret_ = {code, body};
  }
  // The nodes report at this time: n1 is about to be short, n2 is not.
  void report(std::chrono::sys_seconds time) {
    const std::lock_guard lock(mutex_);
    reported_ = time;
  }
  void refuse_events() { event_code_ = 403; }
  void take_lease(const std::string& holder) {
    holder_ = holder;
    ++version_;
  }
  // Lists of pods stay without an answer, which an informer or a lister waits for.
  void hold_lists() {
    const std::lock_guard lock(mutex_);
    holds_lists_ = true;
  }
  // Answers them.
  void answer_lists() {
    const std::lock_guard lock(mutex_);
    holds_lists_ = false;
    server_.send_held(json_answer(200, pods({})).bytes, "/api/v1/pods");
  }
  // Answers them with a page without pods, which another one follows.
  void answer_empty_page(const std::string& next) {
    const std::lock_guard lock(mutex_);
    const std::string page = fmt::format(
        R"({{"kind":"PodList","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[]}})",
        changed_, next);
    server_.send_held(json_answer(200, page).bytes, "/api/v1/pods");
  }
  // From another thread than take_lease().
  void pass_lease(const std::string& holder) {
    const std::lock_guard lock(mutex_);
    take_lease(holder);
  }
  void answer_evictions() { server_.send_held(json_answer(201, kStatusAnswer).bytes, "/eviction"); }
  // A pod that the watches report.
  void add_pod(const std::string& name) {
    const std::lock_guard lock(mutex_);
    pods_.insert(name);
    server_.send_held(test::chunk(log_change("ADDED", name)), kPodWatch);
  }
  // A pod that no open watch reports.
  void add_pod_silently(const std::string& name) {
    const std::lock_guard lock(mutex_);
    pods_.insert(name);
    log_change("ADDED", name);
  }
  // A pod whose end no watch reports.
  void remove_pod_silently(const std::string& name) {
    const std::lock_guard lock(mutex_);
    pods_.erase(name);
  }
  // As add_pod(), but the connection is lost in the middle of the object.
  void add_pod_and_cut(const std::string& name) {
    const std::lock_guard lock(mutex_);
    pods_.insert(name);
    const std::string line = log_change("ADDED", name);
    server_.send_held(test::chunk(line.substr(0, line.size() / 2)), kPodWatch);
    server_.cut_held(kPodWatch);
  }
  // The version of the watches of pods expired, and no other can be resumed from.
  void expire_pods() {
    const std::lock_guard lock(mutex_);
    changes_.clear();
    server_.send_held(test::chunk(R"({"type":"ERROR","object":{"kind":"Status","status":"Failure",)"
                                  R"("reason":"Expired","message":"too old","code":410}})"
                                  "\n"),
                      kPodWatch);
  }
  // The server confirms what the watches of pods reported.
  void send_bookmark() {
    const std::lock_guard lock(mutex_);
    server_.send_held(test::chunk(bookmark()), kPodWatch);
  }
  // The watches of pods report no evictions.
  void delay_deletions() {
    const std::lock_guard lock(mutex_);
    delays_deletions_ = true;
  }
  // They report them now, and later ones at once.
  void report_deletions() {
    const std::lock_guard lock(mutex_);
    delays_deletions_ = false;
    for (const auto& [version, line] : changes_) server_.send_held(test::chunk(line), kPodWatch);
  }
  // Evictions are accepted, and the pods stay as they are.
  void keep_pods() {
    const std::lock_guard lock(mutex_);
    keeps_pods_ = true;
  }
  // Of targets that contain `part`; 200: they are answered.
  void set_code(const std::string& part, int code, const std::string& message = "") {
    const std::lock_guard lock(mutex_);
    codes_[part] = {code, fmt::format(R"({{"kind":"Status","message":"{}"}})", message)};
  }
  void cut_watches() { server_.cut_held("watch=1"); }
  // Lists of pods that began.
  [[nodiscard]] std::size_t lists_of_pods() {
    std::vector<ApiRequest> all = requests("GET", "/api/v1/pods");
    std::erase_if(all, [](const ApiRequest& each) {
      return each.target.find("watch=1") != std::string::npos ||
             each.target.find("continue=") != std::string::npos;
    });
    return all.size();
  }
  void lose_lease() { lease_code_ = 500; }
  [[nodiscard]] const std::string& url() const { return server_.url(); }
  [[nodiscard]] std::vector<ApiRequest> requests(std::string_view method, std::string_view part) {
    std::vector<ApiRequest> all = server_.requests();
    std::erase_if(all, [&](const ApiRequest& each) {
      return each.method != method || each.target.find(part) == std::string::npos;
    });
    return all;
  }
  // Names of the pods of these requests, in order.
  [[nodiscard]] std::vector<std::string> evicted() {
    std::vector<std::string> names;
    for (const ApiRequest& each : requests("POST", "/eviction")) {
      names.emplace_back(1, each.target[each.target.find("/pods/") + 6]);
    }
    return names;
  }
  [[nodiscard]] std::string holder() {
    const std::lock_guard lock(mutex_);
    return holder_;
  }

 private:
  ApiAnswer answer(const ApiRequest& request) {
    const auto is = [&request](std::string_view part) {
      return request.target.find(part) != std::string::npos;
    };
    if (is("/leases")) return lease(request);
    for (const auto& [part, answer] : codes_) {
      if (answer.first != 200 && is(part)) return json_answer(answer.first, answer.second);
    }
    if (is("/eviction")) {
      const std::string name(1, request.target[request.target.find("/pods/") + 6]);
      ApiAnswer answer = evict_(name);
      if (answer.bytes.starts_with("HTTP/1.1 201") && !keeps_pods_) evicted(name);
      return answer;
    }
    if (request.method == "GET" && is("/namespaces/shop/pods/")) {
      const std::string name(1, request.target.back());
      if (!pods_.contains(name)) return without_pod(name);
      return json_answer(200, R"({"metadata":{"uid":"uid-)" + name + "\"}}");
    }
    if (is("/events")) return json_answer(event_code_, kStatusAnswer);
    if (request.method != "GET") return json_answer(201, kStatusAnswer);
    if (is("/policy/v1/")) return json_answer(404, "{}");
    if (is("watch=1")) return watch(request);
    if (is("/metrics.k8s.io/v1beta1/nodes")) return json_answer(200, node_metrics_);
    if (is("/secrets/")) return json_answer(secret_.first, secret_.second);
    if (is("/api/v1/nodes")) return json_answer(200, nodes());
    if (is("/api/v1/pods") && holds_lists_) return {"", ApiAnswer::Then::hold};
    if (is("/api/v1/pods")) return json_answer(list_code_, pods(request));
    if (is("nodereports")) return reported_ ? json_answer(200, reports()) : json_answer(404, "{}");
    return json_answer(200, R"({"kind":"List","metadata":{"resourceVersion":"1"},"items":[]})");
  }
  void evicted(const std::string& name) {
    const std::string line = log_change("DELETED", name);
    pods_.erase(name);
    if (!delays_deletions_) server_.send_held(test::chunk(line), kPodWatch);
  }
  // A line of the watches of pods.
  std::string log_change(const std::string& type, const std::string& name) {
    ++changed_;
    std::string line =
        fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, pod(name, changed_));
    changes_[changed_] = line;
    return line;
  }
  // What changed since the version of the request, and a bookmark.
  [[nodiscard]] ApiAnswer watch(const ApiRequest& request) const {
    const std::string_view key = "resourceVersion=";
    const int since = std::stoi(request.target.substr(request.target.find(key) + key.size()));
    std::string lines;
    if (request.target.find(kPodWatch) != std::string::npos && !delays_deletions_) {
      for (auto each = changes_.upper_bound(since); each != changes_.end(); ++each) {
        lines += each->second;
      }
    }
    return test::watch_answer(lines + bookmark());
  }
  [[nodiscard]] std::string bookmark() const {
    return fmt::format(R"({{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{}"}}}}}})"
                       "\n",
                       changed_);
  }
  static std::string nodes() {
    std::string items;
    for (const char* name : {"n1", "n2"}) {
      items += fmt::format(R"({}{{"metadata":{{"name":"{}"}},"status":{{"allocatable":)"
                           R"({{"pods":"110"}}}}}})",
                           items.empty() ? "" : ",", name);
    }
    return R"({"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[)" + items + "]}";
  }
  [[nodiscard]] std::string reports() const {
    std::string pods;
    for (const std::string& name : pods_) {
      pods += fmt::format(R"({}{{"namespace":"shop","name":"{}","uid":"uid-{}","workingSet":"1Mi",)"
                          R"("growthPerSecond":"1"}})",
                          pods.empty() ? "" : ",", name, name);
    }
    const auto report = [&](const char* node, const char* headroom, const std::string& its_pods) {
      return fmt::format(
          R"({{"apiVersion":"forestall.dev/v1alpha1","kind":"NodeReport","metadata":{{"name":)"
          R"("{}"}},)"
          R"("status":{{"time":"{:%FT%TZ}","memory":{{"capacity":"4Gi"}},"thresholds":)"
          R"([{{"signal":"memory.available","headroom":"{}","growthPerSecond":"0"}}],)"
          R"("pods":[{}]}}}})",
          node, *reported_, headroom, its_pods);
    };
    return R"({"kind":"NodeReportList","metadata":{},"items":[)" + report("n1", "0", pods) + ',' +
           report("n2", "3Gi", "") + "]}";
  }
  [[nodiscard]] std::string pod(const std::string& name, int version) const {
    return fmt::format(
        R"({{"metadata":{{{}"name":"{}","namespace":"shop","uid":"uid-{}","resourceVersion":"{}",)"
        R"("creationTimestamp":"2020-01-01T00:00:00Z","ownerReferences":[{{"kind":"ReplicaSet",)"
        R"("name":"r","uid":"r"}}]}},"spec":{{"nodeName":"n1","containers":)"
        R"([{{"name":"c","image":"i"}}]}},)"
        R"("status":{{"phase":"Running","startTime":"2020-01-01T00:00:00Z"}}}})",
        annotations_, name, name, version);
  }
  // Two pages, if there are pods and the request has a limit.
  [[nodiscard]] std::string pods(const ApiRequest& request) const {
    const bool paged = request.target.find("limit=") != std::string::npos;
    const bool second = request.target.find("continue=more") != std::string::npos;
    std::string items;
    for (const std::string& name : pods_) {
      if (paged && second == (name == *pods_.begin())) continue;
      items += (items.empty() ? "" : ",") + pod(name, changed_);
    }
    return fmt::format(
        R"({{"kind":"PodList","metadata":{{"resourceVersion":"{}"{}}},"items":[{}]}})", changed_,
        second || !paged || pods_.empty() ? "" : R"(,"continue":"more")", items);
  }
  ApiAnswer lease(const ApiRequest& request) {
    if (lease_code_ != 200 && request.method != "GET") return json_answer(lease_code_, "{}");
    if (request.method == "GET") {
      if (version_ == 0) return json_answer(404, kNoLease);
      return json_answer(200, fmt::format(R"({{"metadata":{{"resourceVersion":"{}"}},"spec":)"
                                          R"({{"holderIdentity":"{}","leaseDurationSeconds":1,)"
                                          R"("renewTime":"{}"}}}})",
                                          version_, holder_, version_));
    }
    const auto body = text::JsonDocument::parse(request.body).value();
    const auto metadata = body.root().at("metadata").value();
    const std::string version = metadata.text("resourceVersion").value();
    if (version != (version_ == 0 ? "" : std::to_string(version_))) return json_answer(409, "{}");
    take_lease(body.root().at("spec").value().text("holderIdentity").value());
    return json_answer(200, kStatusAnswer);
  }

  static constexpr const char* kPodWatch = "/api/v1/pods?watch=1";

  std::mutex mutex_;
  std::set<std::string> pods_;
  int changed_ = 1;                     // version of the last change of a pod
  std::map<int, std::string> changes_;  // lines of the watches, by version
  bool delays_deletions_ = false;
  bool keeps_pods_ = false;
  std::map<std::string, std::pair<int, std::string>> codes_;
  std::optional<std::chrono::sys_seconds> reported_;
  Evict evict_ = [](const std::string&) { return json_answer(201, kStatusAnswer); };
  int list_code_ = 200;
  bool holds_lists_ = false;
  std::string node_metrics_ = R"({"kind":"NodeMetricsList","metadata":{},"items":[]})";
  std::pair<int, std::string> secret_{404, "{}"};
  std::string annotations_;
  std::atomic<int> event_code_ = 201;
  int lease_code_ = 200;
  int version_ = 0;
  std::string holder_;
  test::FakeApiServer server_;  // last: its thread uses the above
};

// Jumps, as CLOCK_BOOTTIME after a suspend of the host.
class JumpingClock final : public Clock {
 public:
  [[nodiscard]] MonotonicTime now() const override {
    return SystemClock().now() + Duration(jumped_.load());
  }
  void jump(Duration by) { jumped_ += by.count(); }

 private:
  std::atomic<Duration::rep> jumped_{0};
};

class RebalancerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Rebalancer> make(ClusterWithPods& cluster, RebalancerOptions options = {}) {
    options.access.server = cluster.url();
    if (options.policy.empty()) options.policy = kOldPods;
    options.policy_file = "policy.yaml";
    if (options.identity.empty()) options.identity = "me";
    return Rebalancer::create(options, clock_, log_).value();
  }
  // As make(), by another clock.
  std::unique_ptr<Rebalancer> make_with(const Clock& clock, ClusterWithPods& cluster,
                                        RebalancerOptions options) {
    options.access.server = cluster.url();
    if (options.policy.empty()) options.policy = kOldPods;
    options.policy_file = "policy.yaml";
    options.identity = "me";
    return Rebalancer::create(options, clock, log_).value();
  }
  static RebalancerOptions leading(const std::string& identity,
                                   Duration lease = std::chrono::seconds(20),
                                   Duration renew = std::chrono::seconds(10)) {
    RebalancerOptions options;
    options.identity = identity;
    options.interval = std::chrono::milliseconds(300);
    options.lease.emplace();
    options.lease->identity = identity;
    options.lease->lease = lease;
    options.lease->renew = renew;
    options.lease->retry = std::chrono::milliseconds(50);
    return options;
  }
  bool run_until(const std::vector<Rebalancer*>& all, const std::function<bool()>& done) {
    const MonotonicTime deadline = clock_.now() + test::kPatience;
    while (!done()) {
      if (clock_.now() > deadline) return false;
      for (Rebalancer* each : all) EXPECT_TRUE(each->step(-1, std::chrono::milliseconds(5)));
    }
    return true;
  }
  static std::uint64_t count(const Rebalancer& rebalancer, PlannedEnd end) {
    const auto& all = rebalancer.counts().evictions;
    const auto found = all.find(end);
    return found == all.end() ? 0 : found->second;
  }

  const BoottimeClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
};

}  // namespace forestall::cluster
