// SPDX-License-Identifier: Apache-2.0
// The rebalancer between a policy and a fake API server that keeps pods and a Lease.
#include "cluster/rebalancer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/boottime_clock.h"
#include "cluster/rebalance_command.h"
#include "support/child.h"
#include "support/fake_api_server.h"
#include "support/temp_tree.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::ApiAnswer;
using test::ApiRequest;
using test::json_answer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr const char* kOldPods = R"(
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
constexpr const char* kPressure = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - {name: NodePressure, args: {}}
  plugins: {balance: {enabled: [NodePressure]}}
)";

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
  // Of lists of pods; 200: they are answered.
  void set_list_code(int code) {
    const std::lock_guard lock(mutex_);
    list_code_ = code;
  }
  void refuse_events() { event_code_ = 403; }
  void take_lease(const std::string& holder) {
    holder_ = holder;
    ++version_;
  }
  void answer_evictions() { server_.send_held(json_answer(201, "{}").bytes); }
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
    if (is("/eviction")) {
      const std::string name(1, request.target[request.target.find("/pods/") + 6]);
      ApiAnswer answer = evict_(name);
      if (answer.bytes.starts_with("HTTP/1.1 201")) pods_.erase(name);
      return answer;
    }
    if (request.method == "GET" && is("/namespaces/shop/pods/")) {
      const std::string name(1, request.target.back());
      if (!pods_.contains(name)) return json_answer(404, "{}");
      return json_answer(200, R"({"metadata":{"uid":"uid-)" + name + "\"}}");
    }
    if (is("/events")) return json_answer(event_code_, "{}");
    if (request.method != "GET") return json_answer(201, "{}");
    if (is("/api/v1/nodes")) return json_answer(200, nodes());
    if (is("/api/v1/pods")) return json_answer(list_code_, pods(request));
    if (is("/policy/v1/")) return json_answer(404, "{}");
    if (is("nodereports")) return json_answer(404, "{}");
    return json_answer(200, R"({"kind":"List","metadata":{},"items":[]})");
  }
  static std::string nodes() {
    std::string items;
    for (const char* name : {"n1", "n2"}) {
      items += fmt::format(R"({}{{"metadata":{{"name":"{}"}},"status":{{"allocatable":)"
                           R"({{"pods":"110"}}}}}})",
                           items.empty() ? "" : ",", name);
    }
    return R"({"kind":"NodeList","metadata":{},"items":[)" + items + "]}";
  }
  // Two pages, if there are pods.
  [[nodiscard]] std::string pods(const ApiRequest& request) const {
    const bool second = request.target.find("continue=more") != std::string::npos;
    std::string items;
    for (const std::string& name : pods_) {
      if (second == (name == *pods_.begin())) continue;
      items += fmt::format(
          R"({}{{"metadata":{{"name":"{}","namespace":"shop","uid":"uid-{}","creationTimestamp":)"
          R"("2020-01-01T00:00:00Z","ownerReferences":[{{"kind":"ReplicaSet","name":"r","uid":)"
          R"("r"}}]}},"spec":{{"nodeName":"n1","containers":[{{"name":"c","image":"i"}}]}},)"
          R"("status":{{"phase":"Running","startTime":"2020-01-01T00:00:00Z"}}}})",
          items.empty() ? "" : ",", name, name);
    }
    return fmt::format(R"({{"kind":"PodList","metadata":{{{}}},"items":[{}]}})",
                       second || pods_.empty() ? "" : R"("continue":"more")", items);
  }
  ApiAnswer lease(const ApiRequest& request) {
    if (lease_code_ != 200 && request.method != "GET") return json_answer(lease_code_, "{}");
    if (request.method == "GET") {
      if (version_ == 0) return json_answer(404, "{}");
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
    return json_answer(200, "{}");
  }

  std::mutex mutex_;
  std::set<std::string> pods_;
  Evict evict_ = [](const std::string&) { return json_answer(201, "{}"); };
  int list_code_ = 200;
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
  static RebalancerOptions leading(const std::string& identity, Duration lease = seconds(20),
                                   Duration renew = seconds(10)) {
    RebalancerOptions options;
    options.identity = identity;
    options.interval = milliseconds(300);
    options.lease.emplace();
    options.lease->identity = identity;
    options.lease->lease = lease;
    options.lease->renew = renew;
    options.lease->retry = milliseconds(50);
    return options;
  }
  bool run_until(const std::vector<Rebalancer*>& all, const std::function<bool()>& done) {
    const MonotonicTime deadline = clock_.now() + test::kPatience;
    while (!done()) {
      if (clock_.now() > deadline) return false;
      for (Rebalancer* each : all) EXPECT_TRUE(each->step(-1, milliseconds(5)));
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

TEST_F(RebalancerTest, EvictsWhatThePolicyPlans) {
  ClusterWithPods cluster("abcde");
  const auto rebalancer = make(cluster);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c")) << "maxNoOfPodsToEvictPerNode";
  const ApiRequest eviction = cluster.requests("POST", "/eviction").front();
  EXPECT_THAT(eviction.body,
              HasSubstr(R"("gracePeriodSeconds":3,"preconditions":{"uid":"uid-a"})"));
  EXPECT_TRUE(rebalancer->withdraw(test::kPatience)) << "and its Events are sent";
  const auto events = cluster.requests("POST", "/namespaces/shop/events");
  ASSERT_EQ(events.size(), 3U);
  EXPECT_THAT(events[0].body, HasSubstr(R"("reason":"PodLifeTime")"));
  EXPECT_THAT(events[0].body, HasSubstr(R"("type":"Normal")"));
  EXPECT_EQ(rebalancer->counts().made, 1U);
  const std::string metrics = rebalancer->metrics().text();
  EXPECT_THAT(metrics, HasSubstr(R"(descheduler_pods_evicted_total{namespace="shop",node="n1",)"
                                 R"(profile="p",result="success",strategy="PodLifeTime"} 3)"));
  EXPECT_THAT(metrics, HasSubstr("descheduler_loop_duration_seconds_count 1"));
  EXPECT_THAT(metrics, HasSubstr(R"(forestall_rebalance_plans_total{result="made"} 1)"));
}

TEST_F(RebalancerTest, EndsRightAfterItsOnlyPlan) {
  ClusterWithPods cluster("ab");
  const auto rebalancer = make(cluster);
  const MonotonicTime begin = clock_.now();
  while (!rebalancer->finished() && clock_.now() - begin < test::kPatience) {
    EXPECT_TRUE(rebalancer->step(-1, test::kPatience));
  }
  EXPECT_LT(clock_.now() - begin, test::kPatience) << "it does not wait for more work";
}

TEST_F(RebalancerTest, DryRunPlansWhatThenHappens) {
  ClusterWithPods cluster("abcde");
  RebalancerOptions options;
  options.dry_run = true;
  {
    const auto rebalancer = make(cluster, options);
    ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
    EXPECT_THAT(rebalancer->planned(), ElementsAre("shop/a", "shop/b", "shop/c"));
    EXPECT_TRUE(rebalancer->withdraw(test::kPatience));
  }
  EXPECT_TRUE(cluster.requests("POST", "").empty()) << "neither evictions nor Events";
  const auto rebalancer = make(cluster);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c"));
}

TEST_F(RebalancerTest, LogsEventsThatAreLost) {
  ClusterWithPods cluster("ab");
  cluster.refuse_events();
  ::testing::internal::CaptureStderr();
  {
    exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::warning);
    RebalancerOptions options;
    options.access.server = cluster.url();
    options.policy = kOldPods;
    options.identity = "me";
    const auto rebalancer = Rebalancer::create(options, clock_, log).value();
    EXPECT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
    EXPECT_TRUE(rebalancer->withdraw(test::kPatience));
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("event=events problem=\"403"));
  EXPECT_THAT(text, HasSubstr("event=events dropped=2"));
}

TEST_F(RebalancerTest, GoesOnAfterRefusals) {
  ClusterWithPods cluster("abc");
  cluster.set_evict([](const std::string& pod) {
    if (pod == "a") {
      return json_answer(429, R"({"kind":"Status","reason":"TooManyRequests","message":"m",)"
                              R"("details":{"causes":[{"reason":"DisruptionBudget"}]}})");
    }
    if (pod == "b") return json_answer(500, "failed calling webhook");
    return json_answer(201, "{}");
  });
  const auto rebalancer = make(cluster);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(count(*rebalancer, PlannedEnd::evicted), 1U);
  EXPECT_EQ(count(*rebalancer, PlannedEnd::failed), 1U);
  EXPECT_EQ(count(*rebalancer, PlannedEnd::refused_by_budget), 1U);
}

// maxNoOfPodsToEvictPerNode counts evictions, not attempts.
TEST_F(RebalancerTest, TriesOtherPodsInPlaceOfThoseThatTheServerRefuses) {
  ClusterWithPods cluster("abcdefg");
  cluster.set_evict([](const std::string& pod) {
    return json_answer(pod == "a" || pod == "b" ? 403 : 201, "{}");
  });
  RebalancerOptions options;
  options.interval = std::chrono::hours(1);
  const auto rebalancer = make(cluster, options);
  ASSERT_TRUE(
      run_until({rebalancer.get()}, [&] { return count(*rebalancer, PlannedEnd::evicted) == 3; }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_EQ(rebalancer->counts().made, 1U) << "not an interval later";
  EXPECT_EQ(count(*rebalancer, PlannedEnd::refused), 2U);
}

TEST_F(RebalancerTest, CountsWhatMayHaveBeenEvicted) {
  ClusterWithPods cluster("abcdefg");
  cluster.set_evict([](const std::string& pod) {
    if (pod == "a") return json_answer(504, "{}");
    return json_answer(pod == "b" ? 403 : 201, "{}");
  });
  const auto rebalancer = make(cluster);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "a", "b", "c", "d"))
      << "a may still be evicted: with it there are three";
  EXPECT_EQ(count(*rebalancer, PlannedEnd::unknown), 1U);
}

// A budget may allow it meanwhile.
TEST_F(RebalancerTest, TriesAgainInTheNextCycleWhatABudgetRefused) {
  ClusterWithPods cluster("a");
  int requests = 0;
  cluster.set_evict([&requests](const std::string&) {
    if (++requests > 1) return json_answer(201, "{}");
    return json_answer(429,
                       R"({"kind":"Status","details":{"causes":[{"reason":"DisruptionBudget"}]}})");
  });
  RebalancerOptions options;
  options.interval = milliseconds(50);
  const auto rebalancer = make(cluster, options);
  ASSERT_TRUE(
      run_until({rebalancer.get()}, [&] { return count(*rebalancer, PlannedEnd::evicted) == 1; }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "a"));
}

TEST_F(RebalancerTest, RequestsNothingThatTheServerRefusedLately) {
  ClusterWithPods cluster("abcdefg");
  cluster.set_evict([](const std::string& pod) {
    return json_answer(pod == "a" || pod == "b" ? 404 : 201, "{}");
  });
  RebalancerOptions options;
  options.interval = milliseconds(50);
  const auto rebalancer = make(cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->counts().made == 5; }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c", "d", "e", "f", "g"));
}

TEST_F(RebalancerTest, MakesNoPlanOfAnIncompleteState) {
  ClusterWithPods cluster("abc");
  cluster.set_list_code(403);
  const auto rebalancer = make(cluster);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_TRUE(cluster.evicted().empty());
  EXPECT_EQ(rebalancer->counts().made, 0U);
  EXPECT_EQ(rebalancer->counts().failed, 1U);
}

TEST_F(RebalancerTest, OneOfTwoProcessesEvicts) {
  ClusterWithPods cluster("abcdefgh");
  const auto first = make(cluster, leading("first"));
  ASSERT_TRUE(run_until({first.get()}, [&] { return cluster.holder() == "first"; }));
  const auto second = make(cluster, leading("second"));
  ASSERT_TRUE(
      run_until({first.get(), second.get()}, [&] { return cluster.evicted().size() == 8; }));
  EXPECT_EQ(second->counts().made, 0U);
  EXPECT_TRUE(first->withdraw(test::kPatience));
  EXPECT_EQ(cluster.holder(), "");
  ASSERT_TRUE(run_until({second.get()}, [&] { return second->counts().made > 0; }))
      << "it does not wait for the end of a Lease that was released";
  EXPECT_EQ(cluster.holder(), "second");
}

TEST_F(RebalancerTest, KeepsTheLeaseWhileAnEvictionIsUnderWay) {
  ClusterWithPods cluster("abc");
  cluster.set_evict([](const std::string&) { return ApiAnswer{"", ApiAnswer::Then::hold}; });
  const auto rebalancer = make(cluster, leading("me"));
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return !cluster.evicted().empty(); }));
  EXPECT_FALSE(rebalancer->withdraw(milliseconds(200)));
  EXPECT_EQ(cluster.holder(), "me") << "it expires";
  cluster.answer_evictions();
  EXPECT_TRUE(rebalancer->withdraw(test::kPatience));
  EXPECT_EQ(cluster.holder(), "");
  EXPECT_EQ(count(*rebalancer, PlannedEnd::evicted), 1U);
  EXPECT_THAT(cluster.evicted(), ElementsAre("a"));
}

TEST_F(RebalancerTest, DropsThePlanWhenAnotherProcessTakesTheLease) {
  ClusterWithPods cluster("abc");
  int evictions = 0;
  cluster.set_evict([&](const std::string&) {
    if (++evictions < 2) return json_answer(201, "{}");
    cluster.take_lease("other");
    return json_answer(429, "overloaded", "Retry-After: 1\r\n");
  });
  const auto rebalancer = make(cluster, leading("me"));
  ASSERT_TRUE(run_until({rebalancer.get()},
                        [&] { return count(*rebalancer, PlannedEnd::abandoned) == 1; }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b"));
  EXPECT_EQ(cluster.holder(), "other");
}

TEST_F(RebalancerTest, DropsThePlanWhenTheLeaseCannotBeRenewed) {
  ClusterWithPods cluster("abc");
  int evictions = 0;
  cluster.set_evict([&](const std::string&) {
    if (++evictions < 2) return json_answer(201, "{}");
    cluster.lose_lease();
    return json_answer(429, "overloaded", "Retry-After: 3\r\n");
  });
  const auto rebalancer = make(cluster, leading("me", seconds(2), seconds(1)));
  ASSERT_TRUE(run_until({rebalancer.get()},
                        [&] { return count(*rebalancer, PlannedEnd::abandoned) == 1; }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b"));
}

TEST_F(RebalancerTest, EndsRightAfterAPlanThatIsDropped) {
  ClusterWithPods cluster("abc");
  JumpingClock clock;
  cluster.set_evict([&clock](const std::string&) {
    clock.jump(PlanEvictions::kPlanAgeMax);
    return json_answer(201, "{}");
  });
  const auto rebalancer = make_with(clock, cluster, {});
  const MonotonicTime begin = clock_.now();
  while (!rebalancer->finished() && clock_.now() - begin < test::kPatience) {
    EXPECT_TRUE(rebalancer->step(-1, test::kPatience));
  }
  EXPECT_LT(clock_.now() - begin, test::kPatience) << "the dropped plan wakes it";
  EXPECT_EQ(count(*rebalancer, PlannedEnd::evicted), 1U);
  EXPECT_EQ(count(*rebalancer, PlannedEnd::abandoned), 2U);
}

TEST_F(RebalancerTest, RepeatsThePlanAtTheInterval) {
  ClusterWithPods cluster("abcdefg");
  RebalancerOptions options;
  options.interval = milliseconds(50);
  const auto rebalancer = make(cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.evicted().size() == 7; }));
  EXPECT_THAT(cluster.evicted(), UnorderedElementsAre("a", "b", "c", "d", "e", "f", "g"));
  EXPECT_GE(rebalancer->counts().made, 3U);
  EXPECT_FALSE(rebalancer->finished());
}

TEST_F(RebalancerTest, ReadsNodeReportsForNodePressure) {
  ClusterWithPods cluster("abc");
  RebalancerOptions options;
  options.policy = kPressure;
  options.interval = std::chrono::hours(1);
  const auto rebalancer = make(cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->counts().made == 1; }));
  EXPECT_FALSE(cluster.requests("GET", "/nodereports?limit=500").empty());
  EXPECT_EQ(rebalancer->counts().made, 1U) << "a cluster without the kind has no reports";
  EXPECT_TRUE(cluster.evicted().empty());
}

TEST_F(RebalancerTest, RefusesAPolicyBeforeItStarts) {
  RebalancerOptions options;
  options.policy_file = "policy.yaml";
  options.policy = "profiles: 3\n";
  EXPECT_THAT(Rebalancer::create(options, clock_, log_).error().text(), HasSubstr("policy.yaml:1"));
}

TEST_F(RebalancerTest, RefusesNodePressureForOnePlanOnly) {
  RebalancerOptions options;
  options.policy_file = "policy.yaml";
  options.policy = kPressure;
  EXPECT_THAT(Rebalancer::create(options, clock_, log_).error().text(),
              HasSubstr("--descheduling-interval"));
}

TEST(RebalancerOptions, AreThoseOfTheDescheduler) {
  test::TempTree directory;
  directory.write("policy.yaml", kOldPods);
  cli::RebalanceOptions given;
  given.policy = directory / "policy.yaml";
  EXPECT_EQ(rebalancer_options(given, "me")->interval, Duration::zero());
  EXPECT_FALSE(rebalancer_options(given, "me")->lease);
  given.run.leader_elect = true;
  EXPECT_EQ(rebalancer_options(given, "me").error().text(),
            "leaderElection must be used with deschedulingInterval");
  given.run.interval = "5m";
  const auto options = rebalancer_options(given, "me");
  ASSERT_TRUE(options && options->lease);
  EXPECT_EQ(options->interval, Duration(std::chrono::minutes(5)));
  EXPECT_EQ(options->lease->lease, Duration(seconds(137)));
  EXPECT_EQ(options->lease->renew, Duration(seconds(107)));
  EXPECT_EQ(options->lease->retry, Duration(seconds(26)));
  EXPECT_EQ(options->lease->name, "descheduler");
  EXPECT_EQ(options->lease->lease_namespace, "kube-system");
  given.run.renew_deadline = "138s";
  EXPECT_THAT(rebalancer_options(given, "me").error().text(), HasSubstr("must be longer"));
  given.run.renew_deadline = "x";
  EXPECT_THAT(rebalancer_options(given, "me").error().text(),
              HasSubstr("--leader-elect-renew-deadline"));
  given.run.port = "0";
  given.dry_run = true;
  EXPECT_EQ(rebalancer_options(given, "me")->listen, "");
  given.run.port = "10258";
  EXPECT_EQ(rebalancer_options(given, "me")->listen, "0.0.0.0:10258");
  given.run.bind_address = "::";
  EXPECT_EQ(rebalancer_options(given, "me")->listen, "[::]:10258");
  EXPECT_FALSE(rebalancer_options(given, "me")->lease) << "a dry run needs no election";
}

TEST(ProcessIdentity, DiffersBetweenProcessesOfAHost) {
  EXPECT_NE(process_identity(), process_identity());
}

}  // namespace
}  // namespace forestall::cluster
