// SPDX-License-Identifier: Apache-2.0
// The rebalancer between a policy and a fake API server that keeps pods and a Lease.
#include "cluster/rebalancer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "cluster/rebalance_command.h"
#include "cluster/status_answer.h"
#include "rebalancer_fixture.h"
#include "support/temp_tree.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

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

TEST_F(RebalancerTest, CountsAndReportsWhatWasNotEvicted) {
  ClusterWithPods cluster("abcde");
  cluster.set_evict([](const std::string& pod) {
    return json_answer(pod == "b" ? 403 : 201, R"({"kind":"Status","message":"no"})");
  });
  RebalancerOptions options;
  options.policy = std::string(kOldPods) + "evictionFailureEventNotification: true\n";
  const auto rebalancer = make(cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_TRUE(rebalancer->withdraw(test::kPatience));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c", "d"));
  std::vector<std::string> failures;
  for (const ApiRequest& each : cluster.requests("POST", "/namespaces/shop/events")) {
    const auto event = text::JsonDocument::parse(each.body).value();
    if (event.root().text("reason").value() != "EvictionFailed") continue;
    EXPECT_EQ(event.root().text("type").value(), "Warning");
    failures.push_back(event.root().at("involvedObject").value().text("name").value() + ": " +
                       event.root().text("message").value());
  }
  const std::string note = "pod eviction from node n1 by forestall failed: ";
  EXPECT_THAT(failures, UnorderedElementsAre(
                            "b: " + note + "403: no",
                            "e: " + note + "maximum number of evicted pods per node reached"));
  EXPECT_THAT(rebalancer->metrics().text(),
              HasSubstr(R"(descheduler_pods_evicted_total{namespace="shop",node="n1",profile="p",)"
                        R"(result="maximum number of evicted pods per node reached",)"
                        R"(strategy="PodLifeTime"} 1)"));
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
  EXPECT_THAT(text, HasSubstr("event=events problem=403"));
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
    return json_answer(201, kStatusAnswer);
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
    return json_answer(pod == "a" || pod == "b" ? 403 : 201, kStatusAnswer);
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
    return json_answer(pod == "b" ? 403 : 201, kStatusAnswer);
  });
  const auto rebalancer = make(cluster);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "a", "b", "c", "d"))
      << "a may still be evicted: with it there are three";
  EXPECT_EQ(count(*rebalancer, PlannedEnd::unknown), 1U);
}

// The limit is three.
TEST_F(RebalancerTest, RequestsWhatAWebhookMovesOnlyOnce) {
  ClusterWithPods cluster("abcde");
  cluster.allow_background();
  cluster.set_evict([](const std::string& pod) {
    if (pod > "b") return json_answer(201, kStatusAnswer);
    return json_answer(429,
                       R"({"kind":"Status","code":429,"message":"admission webhook \"w\" denied )"
                       R"(the request: Eviction triggered evacuation of VMI \"shop/vm\""})");
  });
  RebalancerOptions options;
  options.interval = milliseconds(50);
  options.background = true;
  const auto rebalancer = make(cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->counts().made == 5; }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c", "d", "e"))
      << "both count in the limit of each plan";
  EXPECT_EQ(count(*rebalancer, PlannedEnd::background), 2U);
}

// A budget may allow it meanwhile.
TEST_F(RebalancerTest, TriesAgainInTheNextCycleWhatABudgetRefused) {
  ClusterWithPods cluster("a");
  int requests = 0;
  cluster.set_evict([&requests](const std::string&) {
    if (++requests > 1) return json_answer(201, kStatusAnswer);
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

TEST_F(RebalancerTest, AMoveThatABudgetRefusesInEachCycleWaitsSinceTheFirstOne) {
  ClusterWithPods cluster("a");
  cluster.set_evict([](const std::string&) {
    return json_answer(429,
                       R"({"kind":"Status","details":{"causes":[{"reason":"DisruptionBudget"}]}})");
  });
  RebalancerOptions options;
  options.interval = milliseconds(50);
  options.compat = "fixed";
  const auto rebalancer = make(cluster, options);
  const auto waits = [&] { return !rebalancer->history().waiting.empty(); };
  ASSERT_TRUE(run_until({rebalancer.get()}, waits));
  const std::vector<rebalance::WaitingMove> first = rebalancer->history().waiting;
  ASSERT_TRUE(run_until({rebalancer.get()},
                        [&] { return count(*rebalancer, PlannedEnd::refused_by_budget) == 3; }));
  ASSERT_TRUE(run_until({rebalancer.get()}, waits));
  ASSERT_THAT(first, testing::SizeIs(1));
  EXPECT_EQ(first[0].pod, "a");
  EXPECT_EQ(first[0].limit, rebalance::EvictionLimit::budget);
  EXPECT_EQ(rebalancer->history().waiting, first);
}

TEST_F(RebalancerTest, RequestsNothingThatTheServerRefusedLately) {
  ClusterWithPods cluster("abcdefg");
  cluster.set_evict([](const std::string& pod) {
    return pod == "a" || pod == "b" ? without_pod(pod) : json_answer(201, kStatusAnswer);
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
  EXPECT_THAT(rebalancer->outcome().error().text(),
              HasSubstr("no plan was made: GET /api/v1/pods: 403"));
}

// Three at the head of the plan, and those that replace them in it.
TEST_F(RebalancerTest, GoesOnAfterErrorsForSeveralPods) {
  ClusterWithPods cluster("abcdefg");
  cluster.set_evict([](const std::string& pod) {
    return json_answer(pod < "d" ? 500 : 201, "failed calling webhook");
  });
  const auto rebalancer = make(cluster);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c", "d", "e", "f"));
  EXPECT_EQ(count(*rebalancer, PlannedEnd::failed), 3U);
  EXPECT_TRUE(rebalancer->outcome());
}

TEST_F(RebalancerTest, KeepsTheIntervalThoughTheLeadershipIsLost) {
  ClusterWithPods cluster("abcdefg");
  RebalancerOptions options = leading("me");
  options.interval = std::chrono::hours(1);
  const auto rebalancer = make(cluster, options);
  const auto leads = [&](const char* value) {
    return rebalancer->metrics().text().find(std::string("\nforestall_rebalance_leader ") +
                                             value) != std::string::npos;
  };
  ASSERT_TRUE(
      run_until({rebalancer.get()}, [&] { return count(*rebalancer, PlannedEnd::evicted) == 3; }));
  cluster.pass_lease("other");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return leads("0"); }));
  cluster.pass_lease("");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return leads("1"); }));
  const auto renewals = [&] { return cluster.requests("PUT", "/leases").size(); };
  const std::size_t before = renewals();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return renewals() >= before + 3; }));
  EXPECT_EQ(rebalancer->counts().made, 1U);
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
    if (++evictions < 2) return json_answer(201, kStatusAnswer);
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
    if (++evictions < 2) return json_answer(201, kStatusAnswer);
    cluster.lose_lease();
    return json_answer(429, "overloaded", "Retry-After: 3\r\n");
  });
  const auto rebalancer = make(cluster, leading("me", seconds(2), seconds(1)));
  ASSERT_TRUE(run_until({rebalancer.get()},
                        [&] { return count(*rebalancer, PlannedEnd::abandoned) == 1; }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b"));
}

TEST_F(RebalancerTest, EndsRightAfterAPlanThatIsDropped) {
  ClusterWithPods cluster("abcde");
  JumpingClock clock;
  cluster.set_evict([&clock](const std::string&) {
    clock.jump(PlanEvictions::kPlanAgeMax);
    return json_answer(201, kStatusAnswer);
  });
  const auto rebalancer = make_with(clock, cluster, {});
  const MonotonicTime begin = clock_.now();
  while (!rebalancer->finished() && clock_.now() - begin < test::kPatience) {
    EXPECT_TRUE(rebalancer->step(-1, test::kPatience));
  }
  EXPECT_LT(clock_.now() - begin, test::kPatience) << "the dropped plan wakes it";
  EXPECT_EQ(count(*rebalancer, PlannedEnd::evicted), 1U);
  EXPECT_EQ(count(*rebalancer, PlannedEnd::abandoned), 2U);
  EXPECT_THAT(rebalancer->outcome().error().text(),
              HasSubstr("the plan was dropped: the state that the plan was made for is too old"));
  EXPECT_THAT(rebalancer->metrics().text(),
              Not(HasSubstr("maximum number of evicted pods per node reached")))
      << "the pods after the third one are not limited by a plan that did not happen";
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
  EXPECT_FALSE(options->background);
  given.run.renew_deadline = "";
  given.run.feature_gates = "EvictionsInBackground=true";
  EXPECT_TRUE(rebalancer_options(given, "me")->background);
  given.run.feature_gates = "EvictionsInBackground=true,EvictionsInBackground=false";
  EXPECT_FALSE(rebalancer_options(given, "me")->background);
  for (const auto& [gates, wanted] : {std::pair{"EvictionsInBackground=T", true},
                                      {" EvictionsInBackground = 1 ,AllBeta=false", true},
                                      {"AllAlpha=true", true},
                                      {"EvictionsInBackground=0,AllAlpha=true", false}}) {
    given.run.feature_gates = gates;
    EXPECT_EQ(rebalancer_options(given, "me")->background, wanted) << gates;
  }
  for (const char* const wrong :
       {"Other=true", "EvictionsInBackground=yes", "EvictionsInBackground"}) {
    given.run.feature_gates = wrong;
    EXPECT_THAT(rebalancer_options(given, "me").error().text(), HasSubstr("--feature-gates"));
  }
  given.run.feature_gates = "";
  EXPECT_EQ(rebalancer_options(given, "me")->listen, "0.0.0.0:10258");
  given.run.kubeconfig = "config";
  EXPECT_EQ(rebalancer_options(given, "me")->listen, "");
  given.run.tls_version = "VersionTLS13";
  EXPECT_EQ(rebalancer_options(given, "me")->listen, "0.0.0.0:10258");
  given.run.kubeconfig = "";
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
