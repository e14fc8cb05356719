// SPDX-License-Identifier: Apache-2.0
// What the node's object in the API becomes.
#include "cluster/node_reporter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "cluster/status_answer.h"

namespace forestall::cluster {
namespace {

using Pressure = NodeCondition::Pressure;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr NodeCondition kCalm{Pressure::no, false};
constexpr NodeCondition kPressed{Pressure::yes, false};
constexpr NodeCondition kAway{Pressure::unknown, true};

constexpr const char* kPlain =
    R"({"metadata":{"resourceVersion":"7","annotations":{"a":"b"}},"spec":{},"status":{}})";
constexpr const char* kTainted =
    R"({"metadata":{"resourceVersion":"9"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"},)"
    R"({"key":"forestall.dev/memory-pressure","effect":"NoSchedule"},)"
    R"({"key":"b","effect":"NoExecute","timeAdded":"2025-11-25T18:00:00Z"},)"
    R"({"key":"forestall.dev/memory-pressure","effect":"NoExecute"}]},)"
    R"("status":{"conditions":[{"type":"Ready","status":"True"},)"
    R"({"type":"ForestallMemoryPressure","status":"True"}]}})";
constexpr const char* kUnguarded =
    R"({"metadata":{"resourceVersion":"8","annotations":{"forestall.dev/unguarded":"x"}},)"
    R"("status":{"conditions":[{"type":"ForestallMemoryPressure","status":"Unknown"}]}})";

class NodeReporterTest : public ::testing::Test {
 protected:
  explicit NodeReporterTest(bool taint = true)
      : reporter_(
            "here", taint, [this] { return wall_; }, [] { return 0.0; }) {}

  // "METHOD TARGET" of the next request within a minute, answered so; empty: none.
  std::string play(int code, const std::string& body = kStatusAnswer) {
    const MonotonicTime end = now_ + minutes(1);
    const auto due = reporter_.due();
    if (!due || *due > end) return "";
    now_ = std::max(now_, *due);
    const auto request = reporter_.next(now_);
    if (!request) return "";
    EXPECT_FALSE(reporter_.next(now_)) << "one request at a time";
    last_ = request->http;
    reporter_.answered(request->key, {code, "", ""}, body,
                       code == 0 ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt, now_);
    return last_.method + ' ' + last_.target;
  }
  void set(const NodeCondition& report) { reporter_.set(report, now_); }

  std::int64_t wall_ = 1'764'093'600;
  MonotonicTime now_ = from_ns(1'000'000'000'000);
  kubernetes::OutgoingRequest last_;
  NodeReporter reporter_;
};

class NodeReporterWithoutTaintTest : public NodeReporterTest {
 protected:
  NodeReporterWithoutTaintTest() : NodeReporterTest(false) {}
};

constexpr const char* kGet = "GET /api/v1/nodes/here";
constexpr const char* kPatch = "PATCH /api/v1/nodes/here";
constexpr const char* kPatchStatus = "PATCH /api/v1/nodes/here/status";

TEST_F(NodeReporterTest, SetsItsOwnConditionOnly) {
  set(kCalm);
  EXPECT_EQ(play(200, kPlain), kGet);
  EXPECT_EQ(play(200), kPatchStatus) << "no annotation, no taint";
  EXPECT_EQ(last_.content_type, "application/strategic-merge-patch+json");
  EXPECT_EQ(last_.body,
            R"({"status":{"conditions":[{"type":"ForestallMemoryPressure","status":"False",)"
            R"("reason":"ForestallHasSufficientMemory",)"
            R"("message":"no memory threshold of the agent is met",)"
            R"("lastHeartbeatTime":"2025-11-25T18:00:00Z",)"
            R"("lastTransitionTime":"2025-11-25T18:00:00Z"}]}})");
  EXPECT_EQ(reporter_.reported(), kCalm);
  EXPECT_EQ(play(200), "");
}

// It cannot report before the agent has answered, and may follow another process.
TEST_F(NodeReporterTest, ReadsOnceBeforeItHasAReport) {
  EXPECT_EQ(play(500), kGet);
  EXPECT_FALSE(reporter_.found());
  EXPECT_EQ(play(200, kTainted), kGet);
  EXPECT_FALSE(reporter_.due()) << "nothing to report";
  ASSERT_TRUE(reporter_.found());
  EXPECT_EQ(reporter_.found()->condition_status, "True");
  set(kPressed);
  EXPECT_EQ(play(200, kPlain), kGet);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_EQ(reporter_.found()->condition_status, "True") << "as it was at first";
}

TEST_F(NodeReporterTest, ReadsTheNodeAgainIfItMayBeAnotherOne) {
  set(kCalm);
  EXPECT_EQ(play(200, R"({"metadata":{"resourceVersion":"7","uid":"old"}})"), kGet);
  EXPECT_EQ(play(200), kPatchStatus);
  EXPECT_EQ(play(200), "") << "until the heartbeat";
  reporter_.read_again(now_);
  EXPECT_EQ(reporter_.due(), now_);
  EXPECT_EQ(play(200, R"({"metadata":{"resourceVersion":"8","uid":"new"}})"), kGet);
  EXPECT_EQ(reporter_.node_uid(), "new");
  EXPECT_EQ(play(200), kPatchStatus);
  reporter_.read_again(now_);
  EXPECT_EQ(play(404, "<html>Not Found</html>"), kGet);
  EXPECT_EQ(reporter_.node_uid(), "new") << "of a proxy";
  EXPECT_EQ(play(404, R"({"kind":"Status","reason":"NotFound","details":{"name":"here",)"
                      R"("kind":"nodes"},"code":404})"),
            kGet);
  EXPECT_EQ(reporter_.node_uid(), "") << "it was deleted: it owns no report";
}

TEST_F(NodeReporterTest, WritesAtTheSameTimesIfTheClockIsSet) {
  set(kCalm);
  EXPECT_EQ(play(200, kPlain), kGet);
  EXPECT_EQ(play(200), kPatchStatus);
  for (const std::int64_t by : {-5, 9}) {
    wall_ += by * 3600;
    EXPECT_EQ(reporter_.due(), now_ + NodeReporter::kHeartbeat);
    set(kPressed);
    EXPECT_EQ(reporter_.due(), now_) << "a change does not wait";
    EXPECT_EQ(play(200, kPlain), kGet);
    EXPECT_EQ(play(200), kPatch);
    EXPECT_EQ(play(200), kPatchStatus);
    set(kCalm);
    EXPECT_EQ(play(200, kTainted), kGet);
    EXPECT_EQ(play(200), kPatch);
    EXPECT_EQ(play(200), kPatchStatus);
  }
}

TEST_F(NodeReporterTest, KeepsTheTimeOfTheLastTransition) {
  set(kPressed);
  EXPECT_EQ(play(200, kTainted), kGet);
  EXPECT_EQ(play(200), kPatchStatus) << "the taint is there";
  EXPECT_THAT(last_.body,
              HasSubstr(R"("status":"True","reason":"ForestallHasInsufficientMemory")"));
  EXPECT_THAT(last_.body, Not(HasSubstr("lastTransitionTime")));
}

TEST_F(NodeReporterTest, AddsTheTaintToThoseOfOthers) {
  set(kPressed);
  EXPECT_EQ(play(200, kPlain), kGet);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_EQ(last_.content_type, "application/json-patch+json");
  EXPECT_EQ(last_.body,
            R"([{"op":"test","path":"/metadata/resourceVersion","value":"7"},)"
            R"({"op":"add","path":"/spec/taints","value":[{"key":"forestall.dev/memory-pressure",)"
            R"("effect":"NoSchedule"}]}])");
  EXPECT_EQ(play(200), kPatchStatus);

  now_ += NodeReporter::kHeartbeat;
  EXPECT_EQ(play(200, R"({"metadata":{"resourceVersion":"8"},"spec":{"taints":[{"key":"a"}]}})"),
            kGet);
  EXPECT_EQ(play(200), kPatch) << "another program has removed it";
  EXPECT_THAT(last_.body, HasSubstr(R"({"op":"add","path":"/spec/taints/-","value":{"key":)"));
}

TEST_F(NodeReporterTest, RemovesItsTaintsOnly) {
  set(kCalm);
  EXPECT_EQ(play(200, kTainted), kGet);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_EQ(last_.body,
            R"([{"op":"test","path":"/metadata/resourceVersion","value":"9"},)"
            R"({"op":"remove","path":"/spec/taints/3"},{"op":"remove","path":"/spec/taints/1"}])");
}

TEST_F(NodeReporterWithoutTaintTest, RemovesATaintOfAnEarlierConfiguration) {
  set(kPressed);
  EXPECT_EQ(play(200, kPlain), kGet);
  EXPECT_EQ(play(200), kPatchStatus) << "no taint";
  now_ += NodeReporter::kHeartbeat;
  EXPECT_EQ(play(200, kTainted), kGet);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_THAT(last_.body, HasSubstr(R"({"op":"remove","path":"/spec/taints/1"})"));
}

TEST_F(NodeReporterTest, MarksANodeWithoutAnAgent) {
  set(kAway);
  EXPECT_EQ(play(200, kPlain), kGet);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_THAT(last_.body,
              HasSubstr(R"({"op":"add","path":"/metadata/annotations/)"
                        R"(forestall.dev~1unguarded","value":"2025-11-25T18:00:00Z"})"));
  EXPECT_EQ(play(200), kPatchStatus);
  EXPECT_THAT(last_.body, HasSubstr(R"("status":"Unknown","reason":"ForestallAgentAway")"));
  set(kCalm);
  EXPECT_EQ(play(200, kUnguarded), kGet);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_THAT(last_.body, HasSubstr(R"({"op":"remove","path":"/metadata/annotations/)"));
}

TEST_F(NodeReporterTest, MarksANodeWithoutAnnotations) {
  set(kAway);
  EXPECT_EQ(play(200, R"({"metadata":{"resourceVersion":"1"}})"), kGet);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_THAT(last_.body, HasSubstr(R"({"op":"add","path":"/metadata/annotations","value":)"
                                    R"({"forestall.dev/unguarded":")"));
}

// Another program changes the node between the two requests.
TEST_F(NodeReporterTest, ReadsTheNodeAgainAfterAConflict) {
  for (const int code : {409, 422}) {
    NodeReporterTest::set(code == 409 ? kPressed : kAway);
    EXPECT_EQ(play(200, kPlain), kGet);
    EXPECT_EQ(play(code), kPatch);
    EXPECT_EQ(play(200, kPlain), kGet) << "with the version that it has now";
    EXPECT_EQ(play(200), kPatch);
    EXPECT_EQ(play(200), kPatchStatus);
    EXPECT_EQ(reporter_.problem(), "");
  }
}

TEST_F(NodeReporterTest, ReadsTheNodeAgainIfAProxyAcceptsTheChange) {
  set(kPressed);
  for (const char* body : {"", "<html>Log in</html>", "{}", R"({"kind":"Status"})"}) {
    EXPECT_EQ(play(200, kPlain), kGet) << body;
    EXPECT_EQ(play(200, body), kPatch);
    EXPECT_NE(reporter_.problem(), "");
    EXPECT_EQ(play(200, kPlain), kGet);
    EXPECT_EQ(play(200, R"({"kind":"Node"})"), kPatch);
    EXPECT_EQ(play(200, body), kPatchStatus);
    EXPECT_FALSE(reporter_.reported()) << body;
  }
}

TEST_F(NodeReporterTest, ReportsTheLastStateIfItChangesMeanwhile) {
  set(kPressed);
  EXPECT_EQ(play(200, kPlain), kGet);
  set(kCalm);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_EQ(play(200), kPatchStatus);
  EXPECT_THAT(last_.body, HasSubstr(R"("status":"True")"));
  EXPECT_EQ(play(200, kTainted), kGet) << "at once";
  EXPECT_EQ(play(200), kPatch);
  EXPECT_EQ(play(200), kPatchStatus);
  EXPECT_THAT(last_.body, HasSubstr(R"("status":"False")"));
  EXPECT_EQ(reporter_.reported(), kCalm);
}

TEST_F(NodeReporterTest, WithdrawsConditionAndTaint) {
  reporter_.withdraw(now_);
  EXPECT_EQ(play(200, kTainted), kGet);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_EQ(last_.body,
            R"([{"op":"test","path":"/metadata/resourceVersion","value":"9"},)"
            R"({"op":"remove","path":"/spec/taints/3"},{"op":"remove","path":"/spec/taints/1"}])");
  EXPECT_EQ(play(200), kPatchStatus);
  EXPECT_EQ(last_.content_type, "application/strategic-merge-patch+json");
  EXPECT_EQ(last_.body,
            R"({"status":{"conditions":[{"type":"ForestallMemoryPressure","$patch":"delete"}]}})");
  EXPECT_EQ(reporter_.reported()->pressure, Pressure::withdrawn);
}

TEST_F(NodeReporterTest, WithdrawsWhatTheNodeHasOnly) {
  reporter_.withdraw(now_);
  EXPECT_EQ(play(200, kPlain), kGet);
  EXPECT_EQ(play(200), "") << "neither condition nor taint";
  EXPECT_EQ(reporter_.reported()->pressure, Pressure::withdrawn);
}

TEST_F(NodeReporterTest, LeavesTheAnnotationWhenItWithdraws) {
  set(kAway);
  EXPECT_EQ(play(200, kUnguarded), kGet);
  EXPECT_EQ(play(200), kPatchStatus);
  reporter_.withdraw(now_);
  EXPECT_EQ(play(200, kUnguarded), kGet);
  EXPECT_EQ(play(200), kPatchStatus) << "the node is still without an agent";
}

// A round that is under way ends first; a delay after failures does not count.
TEST_F(NodeReporterTest, WithdrawsAtOnce) {
  set(kPressed);
  EXPECT_EQ(play(200, kPlain), kGet);
  reporter_.withdraw(now_);
  EXPECT_EQ(play(200), kPatch);
  EXPECT_EQ(play(200), kPatchStatus);
  EXPECT_EQ(reporter_.reported(), kPressed);
  for (int failed = 0; failed < 9; ++failed) EXPECT_EQ(play(500), kGet);
  ASSERT_GT(*reporter_.due(), now_);
  reporter_.withdraw(now_);
  EXPECT_EQ(reporter_.due(), now_);
}

TEST_F(NodeReporterTest, BacksOffAfterFailures) {
  set(kPressed);
  const MonotonicTime begin = now_;
  int requests = 0;
  while (now_ - begin < minutes(10)) {
    // A state that changes all the time must not cause more requests.
    set(++requests % 2 == 0 ? kPressed : kCalm);
    EXPECT_EQ(play(requests % 3 == 0 ? 0 : 403), kGet);
  }
  EXPECT_LT(requests, 60);
  for (const char* body : {"", "[]", "{}", R"({"metadata":{}})"}) {
    EXPECT_EQ(play(200, body), kGet) << body;
    EXPECT_NE(reporter_.problem(), "");
  }
}

v1::AgentStatus status_with(bool pressure, Duration uptime) {
  v1::AgentStatus status;
  status.set_uptime_ns(uptime.count());
  status.mutable_config()->set_pressure_transition_ns(Duration(minutes(5)).count());
  v1::ConditionStatus& condition = *status.add_conditions();
  condition.set_type("MemoryPressure");
  condition.set_status(pressure);
  v1::ConditionStatus& other = *status.add_conditions();
  other.set_type("DiskPressure");
  other.set_status(true);
  return status;
}

TEST(NodeState, IsUnknownUntilTheAgentAnswersOrIsAway) {
  const MonotonicTime start = from_ns(1'000'000'000'000);
  NodeState state(start);
  EXPECT_FALSE(state.report(start));
  EXPECT_EQ(state.due(start), start + NodeState::kAwayAfter);
  v1::AgentStatus not_evaluated;
  state.answered(not_evaluated, start);
  EXPECT_FALSE(state.report(start));
  EXPECT_EQ(state.report(start + NodeState::kAwayAfter), kAway);
}

TEST(NodeState, IsThatOfTheAgent) {
  MonotonicTime now = from_ns(1'000'000'000'000);
  NodeState state(now);
  state.answered(status_with(false, seconds(1)), now);
  EXPECT_EQ(state.report(now), kCalm);
  state.answered(status_with(true, seconds(2)), now);
  EXPECT_EQ(state.report(now), kPressed);
  now += seconds(1);
  state.answered(status_with(false, minutes(20)), now);
  EXPECT_EQ(state.report(now), kCalm) << "the agent itself waits for the transition period";
  now += NodeState::kAwayAfter;
  EXPECT_EQ(state.report(now), kAway);
  state.answered(status_with(false, minutes(21)), now);
  EXPECT_EQ(state.report(now), kCalm);
}

// A restart of the agent must not make the condition flap.
TEST(NodeState, KeepsPressureForTheTransitionPeriodAcrossAgents) {
  MonotonicTime now = from_ns(1'000'000'000'000);
  NodeState state(now);
  state.answered(status_with(true, minutes(20)), now);
  now += seconds(10);
  state.answered(status_with(false, seconds(2)), now);
  EXPECT_EQ(state.report(now), kPressed);
  now += minutes(4);
  state.answered(status_with(false, minutes(4)), now);
  EXPECT_EQ(state.report(now), kPressed);
  now += minutes(1);
  state.answered(status_with(false, minutes(5)), now);
  EXPECT_EQ(state.report(now), kCalm);
}

// Both processes were replaced while there was pressure.
TEST(NodeState, KeepsPressureThatAnEarlierProcessReported) {
  MonotonicTime now = from_ns(1'000'000'000'000);
  NodeState state(now);
  state.answered(status_with(false, seconds(2)), now);
  EXPECT_EQ(state.report(now), kCalm);
  state.take_over(now - seconds(30), now);
  EXPECT_EQ(state.report(now), kPressed) << "the agent began later";
  EXPECT_EQ(state.report(now + seconds(10)), kPressed);
  state.take_over(now - minutes(2), now);
  now += minutes(4);
  state.answered(status_with(false, minutes(4)), now);
  EXPECT_EQ(state.report(now), kPressed) << "the last time counts";
  now += seconds(30);
  state.answered(status_with(false, minutes(4)), now);
  EXPECT_EQ(state.report(now), kCalm) << "after the transition period";
}

// By the present clock, which was set back, it was reported in the future.
TEST(NodeState, KeepsPressureOfAnUnknownTimeForTheTransitionPeriod) {
  const MonotonicTime now = from_ns(1'000'000'000'000);
  NodeState state(now);
  state.answered(status_with(false, seconds(2)), now);
  state.take_over(std::nullopt, now);
  EXPECT_EQ(state.report(now), kPressed);
  state.answered(status_with(false, minutes(4)), now + minutes(4));
  EXPECT_EQ(state.report(now + minutes(4)), kPressed);
  state.answered(status_with(false, minutes(5)), now + minutes(5));
  EXPECT_EQ(state.report(now + minutes(5)), kCalm);
}

TEST(NodeState, KeepsTheStateOfAnAgentThatRanThroughThePressure) {
  const MonotonicTime now = from_ns(1'000'000'000'000);
  NodeState state(now);
  state.answered(status_with(false, minutes(20)), now);
  state.take_over(now - seconds(30), now);
  EXPECT_EQ(state.report(now), kCalm) << "only `forestall cluster` was started again";
}

}  // namespace
}  // namespace forestall::cluster
