// SPDX-License-Identifier: Apache-2.0
// The informers of the rebalancer between a policy and a fake API server: changes reach the next
// plan, and none is made of a state that is not current.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "cluster/status_answer.h"

#include "rebalancer_fixture.h"

namespace forestall::cluster {
namespace {

using kubernetes::Backoff;
using std::chrono::milliseconds;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPodWatch = "/api/v1/pods?watch=1";

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class RebalancerWatchTest : public RebalancerTest {
 protected:
  static RebalancerOptions often() {
    RebalancerOptions options;
    options.interval = milliseconds(50);
    return options;
  }
  static RebalancerOptions each_minute() {
    RebalancerOptions options;
    options.interval = minutes(1);
    return options;
  }
  static void steps(Rebalancer& rebalancer) {
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(rebalancer.step(-1, milliseconds(5)));
  }
  // A list of pods that is held goes on for so many pages of 24 s each.
  void pass_pages(ClusterWithPods& cluster, JumpingClock& clock, Rebalancer& rebalancer,
                  int pages) {
    constexpr Duration kPage = std::chrono::seconds(24);
    for (int i = 0; i < pages; ++i) {
      clock.jump(kPage);
      const std::string next = "page-" + std::to_string(i);
      cluster.answer_empty_page(next);
      ASSERT_TRUE(run_until({&rebalancer},
                            [&] { return !cluster.requests("GET", "continue=" + next).empty(); }));
    }
  }
  // Whether the rebalancer lists pods, and the lists of the other kinds are complete.
  static bool has_only_pods_to_list(ClusterWithPods& cluster) {
    return cluster.lists_of_pods() == 1 && cluster.requests("GET", "watch=1").size() == 4;
  }
  bool run_until_made(Rebalancer& rebalancer, std::uint64_t plans) {
    return run_until({&rebalancer}, [&] { return rebalancer.counts().made >= plans; });
  }
  static exports::HttpAnswer readiness(Rebalancer& rebalancer) {
    exports::HttpRequest request;
    request.path = "/readyz";
    return rebalancer.metrics().page(request, true, SystemClock().now());
  }
};

TEST_F(RebalancerWatchTest, ListsOnceForAllPlans) {
  ClusterWithPods cluster("abcdefg");
  const auto rebalancer = make(cluster, often());
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.evicted().size() == 7; }));
  ASSERT_TRUE(run_until_made(*rebalancer, 6));
  EXPECT_EQ(cluster.evicted().size(), 7U);
  EXPECT_EQ(cluster.lists_of_pods(), 1U);
  EXPECT_EQ(cluster.requests("GET", "/api/v1/pods?limit=500").size(), 2U) << "two pages";
  EXPECT_THAT(cluster.requests("GET", "persistentvolume"), IsEmpty())
      << "the policy reads no volumes";
}

TEST_F(RebalancerWatchTest, ListsWithoutAWatchForOnePlan) {
  ClusterWithPods cluster("ab");
  const auto rebalancer = make(cluster);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster.requests("GET", "watch=1"), IsEmpty());
  EXPECT_EQ(readiness(*rebalancer).status, 200);
}

TEST_F(RebalancerWatchTest, PlansWithAPodThatTheWatchAdded) {
  ClusterWithPods cluster("");
  const auto rebalancer = make(cluster, often());
  ASSERT_TRUE(run_until_made(*rebalancer, 2));
  cluster.add_pod("x");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return !cluster.evicted().empty(); }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("x"));
  EXPECT_EQ(cluster.lists_of_pods(), 1U);
}

// Else the second plan would request the same evictions again.
TEST_F(RebalancerWatchTest, CountsEvictionsThatNoListShows) {
  ClusterWithPods cluster("abcdefg");
  cluster.keep_pods();
  JumpingClock clock;
  const auto rebalancer = make_with(clock, cluster, each_minute());
  ASSERT_TRUE(
      run_until({rebalancer.get()}, [&] { return count(*rebalancer, PlannedEnd::evicted) == 3; }));
  clock.jump(minutes(1));
  steps(*rebalancer);
  clock.jump(ClusterState::kSeenLongest);
  ASSERT_TRUE(
      run_until({rebalancer.get()}, [&] { return count(*rebalancer, PlannedEnd::evicted) == 6; }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("a", "b", "c", "d", "e", "f"));
}

// Else it would not count the replacements of the pods that the first plan evicted. What a watch
// that is late sends meanwhile is no proof.
TEST_F(RebalancerWatchTest, WaitsUntilThePodsAreLaterThanItsEvictions) {
  for (const bool lists : {false, true}) {
    ClusterWithPods cluster("abcdefg");
    cluster.delay_deletions();
    JumpingClock clock;
    const auto rebalancer = make_with(clock, cluster, each_minute());
    ASSERT_TRUE(run_until({rebalancer.get()},
                          [&] { return count(*rebalancer, PlannedEnd::evicted) == 3; }));
    clock.jump(minutes(1));
    for (int i = 0; i < 20; ++i) {
      cluster.send_bookmark();
      ASSERT_TRUE(rebalancer->step(-1, milliseconds(5)));
    }
    EXPECT_EQ(rebalancer->counts().made, 1U);
    if (lists) {
      clock.jump(ClusterState::kSeenLongest);
    } else {
      cluster.report_deletions();
    }
    ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.evicted().size() == 6; }));
    EXPECT_EQ(cluster.lists_of_pods(), lists ? 2U : 1U);
    EXPECT_EQ(rebalancer->counts().failed, 0U);
  }
}

// Of 150,000 pods, for example.
TEST_F(RebalancerWatchTest, WaitsForAListThatIsSlow) {
  ClusterWithPods cluster("ab");
  cluster.hold_lists();
  JumpingClock clock;
  RebalancerOptions options;
  options.interval = minutes(10);
  const auto rebalancer = make_with(clock, cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return has_only_pods_to_list(cluster); }));
  pass_pages(cluster, clock, *rebalancer, 6);
  cluster.answer_lists();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.evicted().size() == 2; }));
  EXPECT_EQ(cluster.lists_of_pods(), 1U);
}

// Else a plan would be of metrics of minutes ago.
TEST_F(RebalancerWatchTest, ListsMetricsWhenTheRestIsCurrent) {
  ClusterWithPods cluster("ab");
  cluster.hold_lists();
  RebalancerOptions options;
  options.policy = kOldPodsWithMetrics;
  options.interval = minutes(10);
  const auto rebalancer = make(cluster, options);
  const auto metrics = [&] { return cluster.requests("GET", "/metrics.k8s.io/v1beta1/pods"); };
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return has_only_pods_to_list(cluster); }));
  steps(*rebalancer);
  EXPECT_THAT(metrics(), IsEmpty());
  cluster.answer_lists();
  ASSERT_TRUE(run_until_made(*rebalancer, 1));
  EXPECT_EQ(metrics().size(), 1U);
}

// Longer than a list is current. Without a watch nothing else confirms it until the next one, which
// takes as long: else two slow kinds might never be current at the same time.
TEST_F(RebalancerWatchTest, PlansOfASlowListWithoutAWatch) {
  ClusterWithPods cluster("ab");
  cluster.set_code(kPodWatch, 403, "cannot watch");
  cluster.hold_lists();
  JumpingClock clock;
  RebalancerOptions options;
  options.interval = minutes(10);
  const auto rebalancer = make_with(clock, cluster, options);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return has_only_pods_to_list(cluster); }));
  pass_pages(cluster, clock, *rebalancer, 8);
  cluster.answer_lists();
  cluster.hold_lists();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.evicted().size() == 2; }));
  const std::string current = "forestall_rebalance_informer_current{resource=\"pods\"} ";
  clock.jump(std::chrono::seconds(60));
  steps(*rebalancer);
  EXPECT_THAT(rebalancer->metrics().text(), HasSubstr(current + '1'));
  clock.jump(std::chrono::seconds(60));
  steps(*rebalancer);
  EXPECT_THAT(rebalancer->metrics().text(), HasSubstr(current + '0'));
}

TEST_F(RebalancerWatchTest, ReadsThePodsAgainForEachPlanWithoutAWatch) {
  ClusterWithPods cluster("abcdefg");
  cluster.set_code(kPodWatch, 403, "cannot watch");
  const auto rebalancer = make(cluster, often());
  ASSERT_TRUE(run_until_made(*rebalancer, 2));
  EXPECT_GE(cluster.lists_of_pods(), 2U) << "the first list is older than the evictions";
  EXPECT_THAT(cluster.evicted(), ::testing::SizeIs(::testing::Le(6U)));
}

// It ended after the state was read: the node has one pod less, as planned.
TEST_F(RebalancerWatchTest, EvictsNoOtherPodInPlaceOfOneThatIsGone) {
  for (const bool fixed : {false, true}) {
    ClusterWithPods cluster("abcdefg");
    cluster.set_evict([](const std::string& pod) {
      if (pod != "a") return json_answer(201, kStatusAnswer);
      return json_answer(404, R"({"kind":"Status","reason":"NotFound","message":"not found",)"
                              R"("code":404,"details":{"kind":"pods","name":"a"}})");
    });
    RebalancerOptions options;
    options.compat = fixed ? "fixed" : "upstream";
    const auto rebalancer = make(cluster, options);
    ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
    EXPECT_EQ(count(*rebalancer, PlannedEnd::gone), 1U);
    EXPECT_EQ(count(*rebalancer, PlannedEnd::evicted), fixed ? 2U : 3U);
  }
}

TEST_F(RebalancerWatchTest, ListsAgainWhenTheVersionExpired) {
  ClusterWithPods cluster("");
  const auto rebalancer = make(cluster, often());
  ASSERT_TRUE(run_until_made(*rebalancer, 1));
  cluster.add_pod_silently("x");
  cluster.expire_pods();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return !cluster.evicted().empty(); }));
  EXPECT_EQ(cluster.lists_of_pods(), 2U);
}

TEST_F(RebalancerWatchTest, ResumesAfterACutInTheMiddleOfAnObject) {
  ClusterWithPods cluster("");
  const auto rebalancer = make(cluster, often());
  ASSERT_TRUE(run_until_made(*rebalancer, 1));
  cluster.add_pod_and_cut("x");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return !cluster.evicted().empty(); }));
  EXPECT_EQ(cluster.lists_of_pods(), 1U) << "a watch that resumes has the object";
}

TEST_F(RebalancerWatchTest, MakesNoPlanOfAStateThatIsNotCurrent) {
  ClusterWithPods cluster("");
  JumpingClock clock;
  const auto rebalancer = make_with(clock, cluster, each_minute());
  ASSERT_TRUE(run_until_made(*rebalancer, 1));
  EXPECT_EQ(readiness(*rebalancer).status, 200);
  cluster.set_code("/api/v1/pods", 500);
  cluster.cut_watches();
  cluster.add_pod_silently("x");
  clock.jump(Informer::kCurrentLongest + std::chrono::seconds(1));
  // The other watches are confirmed again.
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
    const exports::HttpAnswer answer = readiness(*rebalancer);
    return answer.status == 503 && answer.body.ends_with(" pods: list 500\n");
  }));
  EXPECT_THAT(rebalancer->metrics().text(),
              HasSubstr("forestall_rebalance_informer_current{resource=\"pods\"} 0"));
  clock.jump(SnapshotLister::kLongest);
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->counts().failed == 1; }));
  EXPECT_THAT(rebalancer->outcome().error().text(), HasSubstr("no plan was made: "));
  EXPECT_EQ(rebalancer->counts().made, 1U);
  EXPECT_THAT(cluster.evicted(), IsEmpty());
  cluster.set_code("/api/v1/pods", 200);
  clock.jump(minutes(1));
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return !cluster.evicted().empty(); }));
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return readiness(*rebalancer).status == 200; }));
}

TEST_F(RebalancerWatchTest, NamesTheRightToWatchThatIsMissing) {
  ClusterWithPods cluster("ab");
  cluster.set_code(kPodWatch, 403, R"(cannot watch resource \"pods\")");
  ::testing::internal::CaptureStderr();
  {
    exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::warning);
    RebalancerOptions options = often();
    options.access.server = cluster.url();
    options.policy = kOldPods;
    options.policy_file = "policy.yaml";
    options.identity = "me";
    const auto rebalancer = Rebalancer::create(options, clock_, log).value();
    EXPECT_TRUE(run_until({rebalancer.get()}, [&] {
      return rebalancer->counts().made > 0 && cluster.requests("GET", "/pods?watch=1").size() > 1;
    })) << "each list is current for a while";
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("event=watch resource=pods state=current objects="));
  EXPECT_THAT(text, HasSubstr("watch /api/v1/pods: 403: cannot watch resource"));
}

// Each list confirms the objects, and each watch after it fails.
TEST_F(RebalancerWatchTest, LogsAProblemThatRecursSeldom) {
  ClusterWithPods cluster("");
  cluster.set_code(kPodWatch, 403, "cannot watch");
  JumpingClock clock;
  const auto watches_after = [&](Rebalancer& rebalancer, Duration jump) {
    const std::size_t before = cluster.requests("GET", kPodWatch).size();
    clock.jump(jump);
    return run_until({&rebalancer},
                     [&] { return cluster.requests("GET", kPodWatch).size() > before; });
  };
  ::testing::internal::CaptureStderr();
  {
    exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
    RebalancerOptions options = each_minute();
    options.access.server = cluster.url();
    options.policy = kOldPods;
    options.policy_file = "policy.yaml";
    options.identity = "me";
    const auto rebalancer = Rebalancer::create(options, clock, log).value();
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(watches_after(*rebalancer, Backoff::kLongest));
      steps(*rebalancer);
    }
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(text, "resource=pods"), 2U) << text;
  EXPECT_EQ(count_of(text, "resource=pods state=current objects=0 problem="), 1U) << text;
}

TEST_F(RebalancerWatchTest, MakesNoPlanIfTheServerLacksAKind) {
  ClusterWithPods cluster("ab");
  cluster.set_code("/priorityclasses", 404, "the server could not find the requested resource");
  const auto rebalancer = make(cluster, often());
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->counts().failed > 0; }));
  EXPECT_THAT(rebalancer->outcome().error().text(),
              HasSubstr("list /apis/scheduling.k8s.io/v1/priorityclasses: 404"));
  EXPECT_EQ(rebalancer->counts().made, 0U);
  EXPECT_EQ(readiness(*rebalancer).body,
            "no current state of the cluster: priorityclasses: list 404\n")
      << "without the text of the server";
  cluster.set_code("/priorityclasses", 200);
  ASSERT_TRUE(run_until_made(*rebalancer, 1));
}

// The server here has the older version only.
TEST_F(RebalancerWatchTest, TriesTheOlderVersionAlsoAfterAnotherFailure) {
  ClusterWithPods cluster("ab");
  cluster.set_code("/policy/v1/", 500);
  const auto rebalancer = make(cluster, often());
  const std::string failures = "informer_failures_total{resource=\"poddisruptionbudgets\"} ";
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
    const std::string text = rebalancer->metrics().text();
    return text.find(failures) != text.npos && text.find(failures + "0") == text.npos;
  }));
  cluster.set_code("/policy/v1/", 200);
  ASSERT_TRUE(run_until_made(*rebalancer, 1));
  EXPECT_EQ(rebalancer->counts().failed, 0U);
}

// The leader before may have evicted pods that a late watch still has.
TEST_F(RebalancerWatchTest, ListsThePodsWhenItBecomesTheLeader) {
  ClusterWithPods cluster("ab");
  const auto rebalancer = make(cluster, leading("me"));
  cluster.pass_lease("other");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
    cluster.pass_lease("other");
    return !cluster.requests("GET", "/api/v1/pods?watch=1").empty();
  }));
  EXPECT_EQ(rebalancer->counts().made, 0U);
  cluster.remove_pod_silently("a");
  const std::size_t lists = cluster.lists_of_pods();
  cluster.pass_lease("");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return !cluster.evicted().empty(); }));
  EXPECT_THAT(cluster.evicted(), ElementsAre("b"));
  EXPECT_EQ(cluster.lists_of_pods(), lists + 1);
  EXPECT_EQ(cluster.requests("GET", "/api/v1/nodes?watch=1").size(), 1U);
}

// It would be of a time before this process led.
TEST_F(RebalancerWatchTest, MakesNoPlanOfAListThatBeganBeforeItLed) {
  ClusterWithPods cluster("ab");
  cluster.hold_lists();
  const auto rebalancer = make(cluster, leading("me"));
  cluster.pass_lease("other");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] {
    cluster.pass_lease("other");
    return cluster.lists_of_pods() == 1;
  }));
  cluster.pass_lease("");
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.lists_of_pods() == 2; }));
  EXPECT_EQ(rebalancer->counts().made, 0U);
  cluster.answer_lists();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return cluster.evicted().size() == 2; }));
  EXPECT_EQ(cluster.lists_of_pods(), 2U);
}

}  // namespace
}  // namespace forestall::cluster
