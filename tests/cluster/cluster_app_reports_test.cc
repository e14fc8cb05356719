// SPDX-License-Identifier: Apache-2.0
// What the API server receives about kills, and about the node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "cluster/cluster_app_fixture.h"
#include "cluster/status_answer.h"
#include "intake/wall_time.h"

namespace forestall::cluster {
namespace {

using test::ApiAnswer;
using test::ApiRequest;
using test::json_answer;
using ::testing::HasSubstr;

constexpr const char* kAnotherPod =
    R"({"kind":"Status","reason":"Conflict","message":"Precondition failed: UID in precondition: )"
    R"(a, UID in object meta: z","code":409})";

class ClusterAppReportsTest : public ClusterAppTest {
 protected:
  // A server of 1.30 (or `minor_`), which answers evictions and Events with `code`.
  void serve(int eviction_code, const std::string& eviction_body = kStatusAnswer,
             int event_code = 201) {
    const auto pods = serving(list({pod("a", 5)}));
    answer([=, this](const ApiRequest& request) {
      const auto is = [&request](std::string_view part) {
        return request.target.find(part) != std::string::npos;
      };
      if (request.target == "/version")
        return json_answer(200, R"({"major":"1","minor":")" + minor_ + R"("})");
      if (request.target == "/api/v1/nodes/here" && request.method == "GET") {
        return json_answer(200, R"({"metadata":{"resourceVersion":"7","uid":"node-uid"}})");
      }
      if (is("/nodereports/")) return json_answer(report_code_, kStatusAnswer);
      if (is("/eviction")) return json_answer(eviction_code, eviction_body);
      if (is("/events")) return json_answer(event_code, kStatusAnswer);
      return request.method == "GET" ? pods(request) : json_answer(200, kStatusAnswer);
    });
  }
  std::atomic<int> report_code_ = 200;
  std::string minor_ = "30";
  // As a kill that began so long ago.
  v1::Record killed_before(const std::string& uid, Duration ago) {
    v1::Record record = begun_kill_of(uid);
    record.mutable_stages()->set_decided_ns(to_ns(clock_.now() - ago));
    v1::Eviction& eviction = *record.mutable_decision()->mutable_evictions(0);
    eviction.set_message("The node was low on resource: memory. ");
    v1::Eviction::Annotation& annotation = *eviction.add_annotations();
    annotation.set_name("starved_resource");
    annotation.set_value("memory");
    return record;
  }
  // The body of the Event about this pod; empty: none.
  std::string event_of(const std::string& uid) {
    for (const ApiRequest& each : requests("POST", "/events")) {
      if (each.body.find(R"("uid":")" + uid + '"') != std::string::npos) return each.body;
    }
    return "";
  }
  void step_for(Duration length) {
    const MonotonicTime end = clock_.now() + length;
    while (clock_.now() < end) EXPECT_TRUE(app_->step(-1, std::chrono::milliseconds(20)));
  }
};

TEST_F(ClusterAppReportsTest, EvictsAPodThatWasKilledWhileItWasAway) {
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  app_.reset();
  agent_->report(killed_before("a", std::chrono::seconds(10)));
  start();
  ASSERT_TRUE(run_until([&] { return !requests("POST", "/eviction").empty(); }));
  EXPECT_THAT(requests("POST", "/eviction").front().body,
              HasSubstr(R"("preconditions":{"uid":"a"})"));
  EXPECT_EQ(requests("POST", "/eviction").size(), 1U);
}

TEST_F(ClusterAppReportsTest, EvictsByTheOldVersionOnAnOldServer) {
  minor_ = "21+";
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return !requests("GET", "/version").empty(); }));
  step_for(std::chrono::milliseconds(100));  // its answer
  agent_->report(killed_before("a", Duration::zero()));
  ASSERT_TRUE(run_until([&] { return !requests("POST", "/eviction").empty(); }));
  EXPECT_THAT(requests("POST", "/eviction").front().body, HasSubstr("policy/v1beta1"));
}

v1::Record killed_again(v1::Record record) {
  record.set_sequence(record.sequence() + 1);
  record.mutable_decision()->set_reason(v1::Decision::POD_RUNS_AGAIN);
  record.mutable_decision()->mutable_evictions(0)->set_message("It was started again.");
  return record;
}

TEST_F(ClusterAppReportsTest, AContainerThatIsKilledAgainLeavesTheEventOfTheFirstKill) {
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  const v1::Record first = killed_before("a", Duration::zero());
  agent_->report(first);
  agent_->report(killed_again(first));
  agent_->report(killed_before("b", Duration::zero()));
  ASSERT_TRUE(run_until([&] { return requests("POST", "/events").size() == 2; }));
  EXPECT_THAT(event_of("a"), HasSubstr("low on resource: memory"));
  EXPECT_THAT(event_of("a"), HasSubstr(R"("count":1)"));
  EXPECT_NE(event_of("b"), "");
}

// This process was away at the first kill. A third kill leaves the Event of the second.
TEST_F(ClusterAppReportsTest, AKillThatRepeatsOneThatWasNotSeenHasAnEvent) {
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  const v1::Record second = killed_again(killed_before("a", Duration::zero()));
  v1::Record third = killed_again(second);
  third.mutable_decision()->mutable_evictions(0)->set_message("Once more.");
  agent_->report(second);
  agent_->report(third);
  agent_->report(killed_before("b", Duration::zero()));
  ASSERT_TRUE(run_until([&] {
    return requests("POST", "/events").size() == 2 && requests("POST", "/eviction").size() == 2;
  }));
  EXPECT_THAT(event_of("a"), HasSubstr("It was started again."));
  EXPECT_THAT(event_of("a"), HasSubstr(R"("count":1)"));
  EXPECT_NE(event_of("b"), "");
  // In any order.
  const std::string evicted =
      requests("POST", "/eviction")[0].body + requests("POST", "/eviction")[1].body;
  EXPECT_THAT(evicted, HasSubstr(R"("uid":"a")")) << "an earlier one may not have been requested";
}

// The connection is cut, and the agent goes on.
TEST_F(ClusterAppReportsTest, EvictsAPodOnceIfItsKillIsReportedAgain) {
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  agent_->report(killed_before("a", std::chrono::seconds(1)));
  ASSERT_TRUE(run_until([&] { return requests("POST", "/events").size() == 1; }));
  agent_.reset();
  agent_ = std::make_unique<ToyAgent>(directory_ / "s");
  agent_->report(killed_before("a", std::chrono::seconds(1)));
  agent_->report(killed_before("b", std::chrono::seconds(1)));
  ASSERT_TRUE(run_until([&] { return requests("POST", "/events").size() == 2; }));
  EXPECT_EQ(requests("POST", "/eviction").size(), 2U) << "of a, then of b";
}

// It was deleted and made again under the same name while this process was away.
TEST_F(ClusterAppReportsTest, LeavesALaterPodOfTheSameNameAlone) {
  serve(409, kAnotherPod);
  agent_->report(killed_before("a", std::chrono::seconds(10)));
  ASSERT_TRUE(run_until([&] { return !requests("POST", "/eviction").empty(); }));
  step_for(std::chrono::seconds(2));  // longer than the first back-offs
  EXPECT_EQ(requests("POST", "/eviction").size(), 1U);
  EXPECT_TRUE(requests("DELETE").empty());
  EXPECT_TRUE(requests("PATCH", "/pods/").empty()) << "nor is it a target of disruption";
}

// Its containers run again, and may be healthy.
TEST_F(ClusterAppReportsTest, LeavesAPodThatWasKilledLongAgo) {
  serve(201);
  agent_->report(killed_before("a", Evictions::kExpiresAfter + std::chrono::seconds(1)));
  ASSERT_TRUE(run_until([&] { return !requests("POST", "/events").empty(); }));
  EXPECT_TRUE(requests("POST", "/eviction").empty());
}

TEST_F(ClusterAppReportsTest, ReportsAnEviction) {
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  agent_->report(killed_before("a", Duration::zero()));
  ASSERT_TRUE(run_until([&] { return requests("POST").size() == 2; }));
  EXPECT_THAT(requests("POST")[0].target, HasSubstr("/eviction")) << "first";
  const ApiRequest event = requests("POST")[1];
  EXPECT_EQ(event.target, "/api/v1/namespaces/shop/events");
  EXPECT_THAT(event.body, HasSubstr(R"("annotations":{"starved_resource":"memory"})"));
  ASSERT_TRUE(run_until([&] { return !requests("PATCH", "/pods/web-0/status").empty(); }));
  EXPECT_THAT(requests("PATCH", "/pods/web-0/status").front().body,
              HasSubstr(R"("type":"DisruptionTarget","status":"True")"));
}

// Events wait for an answer that never comes; the next eviction does not.
TEST_F(ClusterAppReportsTest, EvictsWhileEventsAreNotAnswered) {
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  const auto pods = serving(list({pod("a", 5)}));
  answer([pods](const ApiRequest& request) {
    if (request.target.find("/events") != std::string::npos) return test::watch_answer();
    return request.method == "GET" ? pods(request) : json_answer(201, kStatusAnswer);
  });
  for (const char* uid : {"a", "b", "c"}) agent_->report(killed_before(uid, Duration::zero()));
  ASSERT_TRUE(
      run_until([&] { return requests("POST", "/events").size() == EventSeries::kRequestsMax; }));
  agent_->report(killed_before("d", Duration::zero()));
  ASSERT_TRUE(run_until([&] { return requests("POST", "/eviction").size() == 4; }));
  EXPECT_EQ(requests("POST", "/events").size(), EventSeries::kRequestsMax);
}

TEST_F(ClusterAppReportsTest, ReportsAKillByTheKernel) {
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  v1::Record record;
  v1::OomKillEvent& kill = *record.mutable_oom_kill()->mutable_event();
  record.mutable_oom_kill()->set_inaction(v1::OomKill::NOT_WATCHED);
  kill.mutable_victim()->set_pid(42);
  kill.set_path("/kubepods/besteffort/poda/c1/podb");
  agent_->report(record);
  kill.set_path("/system.slice/x.service");
  agent_->report(record);
  ASSERT_TRUE(run_until([&] { return requests("POST", "/events").size() == 2; }));
  EXPECT_THAT(requests("POST", "/namespaces/s/events").front().body,
              HasSubstr(R"("reason":"KernelOOMKilled")"));
  EXPECT_THAT(requests("POST", "/namespaces/s/events").front().body, HasSubstr(R"("uid":"a")"));
  EXPECT_THAT(requests("POST", "/namespaces/default/events").front().body,
              HasSubstr(R"("kind":"Node","apiVersion":"v1","name":"here")"));
}

TEST_F(ClusterAppReportsTest, ReportsAnAnnotationWithoutEffect) {
  serve(201);
  ASSERT_TRUE(has({"a=5"}));
  v1::AgentStatus status;
  v1::PodAnnotationProblem& problem = *status.mutable_pods()->add_annotation_problems();
  problem.set_annotation("protected");
  problem.set_value("true");
  problem.set_problem("not permitted");
  problem.set_pod("s/unknown");
  *status.mutable_pods()->add_annotation_problems() = problem;
  status.mutable_pods()->mutable_annotation_problems(1)->set_pod("s/a");
  *status.mutable_pods()->add_annotation_problems() = status.pods().annotation_problems(1);
  status.mutable_pods()->mutable_annotation_problems(2)->set_annotation("prefer");
  agent_->set_status(status);
  ASSERT_TRUE(run_until([&] { return requests("POST", "/events").size() == 2; }));
  EXPECT_THAT(requests("POST", "/namespaces/s/events").back().body,
              HasSubstr(R"(forestall.dev/prefer: \"true\" has no effect)"));
  const ApiRequest event = requests("POST", "/namespaces/s/events").front();
  EXPECT_THAT(event.body, HasSubstr(R"("reason":"AnnotationWithoutEffect")"));
  EXPECT_THAT(event.body, HasSubstr(R"("uid":"a")"));
  EXPECT_THAT(event.body, HasSubstr(R"(forestall.dev/protected: \"true\" has no effect: not )"
                                    R"(permitted)"));
}

TEST_F(ClusterAppReportsTest, ReportsPressureOfTheNode) {
  serve(201);
  v1::AgentStatus status;
  status.mutable_config();
  v1::ConditionStatus& condition = *status.add_conditions();
  condition.set_type("MemoryPressure");
  agent_->set_status(status);
  ASSERT_TRUE(run_until([&] { return requests("PATCH", "/nodes/here/status").size() == 1; }));
  EXPECT_THAT(requests("PATCH", "/nodes/here/status").front().body,
              HasSubstr(R"("type":"ForestallMemoryPressure","status":"False")"));
  condition.set_status(true);
  agent_->set_status(status);
  // The status is read again at once after a kill.
  const MonotonicTime begin = clock_.now();
  agent_->report(killed_before("a", Duration::zero()));
  ASSERT_TRUE(run_until([&] { return requests("PATCH", "/nodes/here/status").size() == 2; }));
  EXPECT_LT(clock_.now() - begin, ClusterReports::kStatusInterval);
  EXPECT_THAT(requests("PATCH", "/nodes/here/status").back().body, HasSubstr(R"("status":"True")"));
  const auto patches = requests("PATCH", "/nodes/here");
  ASSERT_EQ(patches.size(), 3U);
  EXPECT_EQ(patches[1].target, "/api/v1/nodes/here");
  EXPECT_THAT(patches[1].body, HasSubstr("/spec/taints"));
}

v1::AgentStatus pressed() {
  v1::AgentStatus status;
  status.mutable_config()->set_pressure_transition_ns(Duration(std::chrono::minutes(5)).count());
  v1::ConditionStatus& condition = *status.add_conditions();
  condition.set_type("MemoryPressure");
  condition.set_status(true);
  return status;
}

constexpr const char* kTaintedNode =
    R"({"metadata":{"resourceVersion":"8"},"spec":{"taints":[{"key":)"
    R"("forestall.dev/memory-pressure"}]},"status":{"conditions":[{"type":)"
    R"("ForestallMemoryPressure","status":"True","lastHeartbeatTime":")";

// The namespace and the DaemonSet, as `forestall cluster` reads them when it ends.
struct Owner {
  std::string pod_namespace = R"({"metadata":{"name":"f"}})";
  std::string daemon_set = R"({"metadata":{"name":"d"},"spec":{"template":{"spec":{}}}})";
  int code = 200;
};

class ClusterAppEndTest : public ClusterAppReportsTest {
 protected:
  ClusterAppEndTest() {
    daemon_set_ = "f/d";
    start();
  }
  // Patches of the node by a process that ends after it has reported pressure.
  std::vector<ApiRequest> patches_of_end(const Owner& owner) {
    serve(201);
    agent_->set_status(pressed());
    const auto before = requests("PATCH", "/nodes/here/status").size();
    EXPECT_TRUE(
        run_until([&] { return requests("PATCH", "/nodes/here/status").size() == before + 1; }));
    const auto earlier = requests("PATCH", "/nodes/here").size();
    answer([owner](const ApiRequest& request) {
      if (request.method != "GET") return json_answer(200, kStatusAnswer);
      if (request.target == "/api/v1/namespaces/f") return json_answer(200, owner.pod_namespace);
      if (request.target == "/apis/apps/v1/namespaces/f/daemonsets/d") {
        return json_answer(owner.code, owner.daemon_set);
      }
      return json_answer(200, std::string(kTaintedNode) + R"("}]}})");
    });
    EXPECT_TRUE(app_->end(test::kPatience));
    auto patches = requests("PATCH", "/nodes/here");
    patches.erase(patches.begin(), patches.begin() + static_cast<std::ptrdiff_t>(earlier));
    start();
    return patches;
  }
};

// A process without a DaemonSet leaves a node without its taint and its condition.
TEST_F(ClusterAppReportsTest, WithdrawsItsReportsOfTheNodeWhenItEnds) {
  serve(201);
  agent_->set_status(pressed());
  ASSERT_TRUE(run_until([&] { return requests("PATCH", "/nodes/here/status").size() == 1; }));
  const auto before = requests("PATCH", "/nodes/here").size();
  answer([](const ApiRequest& request) {
    return json_answer(
        200, request.method != "GET" ? kStatusAnswer : std::string(kTaintedNode) + R"("}]}})");
  });
  EXPECT_TRUE(app_->end(test::kPatience));
  const auto patches = requests("PATCH", "/nodes/here");
  ASSERT_EQ(patches.size(), before + 2);
  EXPECT_THAT(patches[before].body, HasSubstr(R"({"op":"remove","path":"/spec/taints/0"})"));
  EXPECT_THAT(patches[before + 1].body, HasSubstr(R"("$patch":"delete")"));
}

TEST_F(ClusterAppEndTest, LeavesItsReportsOfTheNodeToTheNextProcess) {
  EXPECT_TRUE(patches_of_end({}).empty());
}

TEST_F(ClusterAppEndTest, WithdrawsItsReportsIfNoProcessMayFollow) {
  const std::vector<Owner> owners{
      {.daemon_set = R"({"metadata":{"name":"d","deletionTimestamp":"2025-11-25T18:00:00Z"}})"},
      {.pod_namespace = R"({"metadata":{"name":"f","deletionTimestamp":"2025-11-25T18:00:00Z"}})"},
      {.daemon_set = R"({"metadata":{"name":"d"},"spec":{"template":{"spec":)"
                     R"({"nodeSelector":{"a":"b"}}}}})"},
      {.daemon_set = R"({"metadata":{"name":"d"},"spec":{"template":{"spec":{"affinity":{}}}}})"},
      {.daemon_set = R"({"message":"not found","code":404})", .code = 404},
      {.daemon_set = R"({"message":"forbidden","code":403})", .code = 403},
      {.daemon_set = "[]"},
  };
  for (const Owner& each : owners) {
    SCOPED_TRACE(each.pod_namespace + each.daemon_set);
    EXPECT_EQ(patches_of_end(each).size(), 2U) << "taint and condition";
  }
}

class ClusterAppFollowsTest : public ClusterAppReportsTest {
 protected:
  // The node has a condition of an earlier process, last written so long ago by the present clock,
  // and its pressure has ended. What becomes of it first.
  std::string first_condition(std::chrono::seconds written_ago) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string written =
        intake::wall_time_text(std::chrono::duration_cast<Duration>(now - written_ago).count());
    const auto pods = serving(list({pod("a", 5)}));
    answer([written, pods](const ApiRequest& request) {
      if (request.target == "/api/v1/nodes/here" && request.method == "GET") {
        return json_answer(200, kTaintedNode + written + R"("}]}})");
      }
      return request.method == "GET" ? pods(request) : json_answer(200, kStatusAnswer);
    });
    v1::AgentStatus status = pressed();
    status.mutable_conditions(0)->set_status(false);
    status.set_uptime_ns(1'000'000'000);
    agent_->set_status(status);
    EXPECT_TRUE(run_until([&] { return !requests("PATCH", "/nodes/here/status").empty(); }));
    return requests("PATCH", "/nodes/here").front().body;
  }
};

// Pressure of the node ended while both processes were replaced.
TEST_F(ClusterAppFollowsTest, KeepsTheConditionOfAnEarlierProcessForTheTransitionPeriod) {
  EXPECT_THAT(first_condition(std::chrono::seconds(20)), HasSubstr(R"("status":"True")"))
      << "the condition is first: the taint is there";
}

// Then the time of the condition is in the future.
TEST_F(ClusterAppFollowsTest, KeepsTheConditionIfTheClockWasSetBackMeanwhile) {
  EXPECT_THAT(first_condition(-std::chrono::hours(5)), HasSubstr(R"("status":"True")"));
}

v1::AgentStatus guarding() {
  v1::AgentStatus status;
  status.mutable_config();
  v1::Evidence& evidence = *status.add_thresholds();
  evidence.mutable_threshold()->set_signal("memory.available");
  evidence.set_subject("node");
  evidence.set_capacity(1000);
  evidence.set_available(700);
  evidence.set_at_ns(to_ns(SystemClock().now()));
  status.add_distances()->set_headroom(600);
  return status;
}

TEST_F(ClusterAppReportsTest, PublishesAReportOfTheNode) {
  serve(201);
  agent_->set_status(guarding());
  v1::RankResponse ranking;
  ranking.mutable_signals()->mutable_observation()->mutable_node()->set_usage_bytes(400);
  v1::WorkloadSample& sample = *ranking.mutable_report()->add_order()->mutable_sample();
  sample.mutable_workload()->mutable_pod()->set_namespace_("s");
  sample.mutable_workload()->mutable_pod()->set_name("a");
  sample.set_usage_bytes(50);
  sample.set_inactive_file_bytes(0);
  agent_->set_ranking(ranking);
  ASSERT_TRUE(run_until([&] { return !requests("PATCH", "/nodereports/here").empty(); }));
  const ApiRequest report = requests("PATCH", "/nodereports/here").front();
  EXPECT_THAT(report.body, HasSubstr(R"("memory":{"capacity":1000,"usage":400,"workingSet":300})"));
  EXPECT_THAT(report.body, HasSubstr(R"("pods":[{"namespace":"s","name":"a")"));
  EXPECT_THAT(report.body, HasSubstr(R"("uid":"node-uid")"));
}

TEST_F(ClusterAppReportsTest, EvictsAndReportsWithoutTheKindNodeReport) {
  report_code_ = 404;
  serve(201);
  agent_->set_status(guarding());
  ASSERT_TRUE(run_until([&] { return !requests("PATCH", "/nodereports/here").empty(); }));
  agent_->report(killed_before("a", Duration::zero()));
  ASSERT_TRUE(run_until([&] { return requests("POST").size() == 2; })) << "eviction and Event";
  EXPECT_EQ(requests("PATCH", "/nodereports/here").size(), 1U);
}

TEST_F(ClusterAppReportsTest, EndsWithoutAnAnswerOfTheServer) {
  serve(201);
  ASSERT_TRUE(is_watching());
  answer([](const ApiRequest&) { return test::watch_answer(); });
  const auto before = requests("GET", "/nodes/here").size();
  const MonotonicTime begin = clock_.now();
  const auto ended = app_->end(std::chrono::milliseconds(200));
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().text(), HasSubstr("has not accepted it in time"));
  EXPECT_GE(clock_.now() - begin, std::chrono::milliseconds(200));
  EXPECT_GT(requests("GET", "/nodes/here").size(), before) << "the request without an answer";
}

}  // namespace
}  // namespace forestall::cluster
