// SPDX-License-Identifier: Apache-2.0
// What a NodeReport has, when it is sent, and what happens if the API server does not accept it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "cluster/kill_tally.h"
#include "cluster/node_report_builder.h"
#include "cluster/node_report_writer.h"
#include "cluster/stall_reading.h"
#include "descheduler/cluster_snapshot.h"

namespace forestall::cluster {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMib = 1 << 20;
constexpr std::int64_t kCapacity = 1000 * kMib;
constexpr std::int64_t kWall = 1'764'093'600;  // 2025-11-25T18:00:00Z

void add_threshold(v1::AgentStatus& status, const std::string& signal, const std::string& subject,
                   std::int64_t available, std::int64_t limit, std::optional<double> time_left,
                   MonotonicTime read) {
  v1::Evidence& evidence = *status.add_thresholds();
  evidence.mutable_threshold()->set_signal(signal);
  evidence.set_subject(subject);
  evidence.set_capacity(kCapacity);
  evidence.set_available(available);
  evidence.set_limit(limit);
  evidence.set_at_ns(to_ns(read));
  v1::ThresholdDistance& distance = *status.add_distances();
  distance.set_headroom(available - limit);
  if (time_left) {
    distance.set_time_to_threshold_ns(static_cast<std::int64_t>(*time_left * 1e9));
  }
}

class NodeReportBuilderTest : public ::testing::Test {
 protected:
  NodeReportBuilderTest() { builder_.set_owner("node-uid"); }

  v1::AgentStatus status(std::int64_t available_mib, std::optional<double> time_left = {}) const {
    v1::AgentStatus made;
    made.mutable_config();
    made.set_pid(7);
    made.set_uptime_ns(Duration(now_ - from_ns(0)).count());
    add_threshold(made, "memory.available", "node", available_mib * kMib, 100 * kMib, time_left,
                  now_);
    return made;
  }
  static void add_pod(v1::RankResponse& ranking, const std::string& name, std::int64_t mib) {
    v1::WorkloadSample& sample = *ranking.mutable_report()->add_order()->mutable_sample();
    v1::Pod& pod = *sample.mutable_workload()->mutable_pod();
    pod.set_namespace_("shop");
    pod.set_name(name);
    pod.set_uid("uid-" + name);
    sample.set_usage_bytes((mib + 1) * kMib);
    sample.set_inactive_file_bytes(kMib);
  }
  std::string build(const std::optional<StallReading>& stalls = {}) {
    return builder_.build(stalls, wall_, now_).value_or("");
  }
  void pass(Duration time) { now_ += time; }

  std::int64_t wall_ = kWall;
  MonotonicTime now_ = from_ns(1'000'000'000'000);
  NodeReportBuilder builder_{"here"};
};

// By the reader of `forestall rebalance`.
rebalance::NodeReport read_back(descheduler::ClusterSnapshotReader& reader,
                                const std::string& report, rebalance::Snapshot& snapshot) {
  const auto added = reader.add(report);
  EXPECT_TRUE(added) << added.error().text() << report;
  snapshot = reader.take(0);
  EXPECT_EQ(snapshot.reports.size(), 1U) << report;
  return snapshot.reports.empty() ? rebalance::NodeReport() : snapshot.reports[0];
}

TEST_F(NodeReportBuilderTest, ReportsWhatTheRebalancerReads) {
  builder_.answered(status(600), now_);
  v1::RankResponse ranking;
  add_pod(ranking, "web-0", 40);
  builder_.ranked(ranking, now_);
  ASSERT_NE(build(StallReading{seconds(1), seconds(0)}), "");
  pass(seconds(30));
  v1::AgentStatus later = status(300, 100.0);
  later.set_kills(2);
  later.set_kernel_oom_kills(1);
  add_threshold(later, "memory.available", "/kubepods", 1, 2, {}, now_);  // a cgroup's
  builder_.answered(later, now_);
  v1::RankResponse second;
  add_pod(second, "web-0", 70);
  add_pod(second, "new", 5);
  second.mutable_signals()->mutable_observation()->mutable_node()->set_usage_bytes(750 * kMib);
  builder_.ranked(second, now_);
  const std::string report = build(StallReading{seconds(4), seconds(3)});
  descheduler::ClusterSnapshotReader reader;
  rebalance::Snapshot snapshot;
  const rebalance::NodeReport read = read_back(reader, report, snapshot);
  constexpr auto kUnit = rebalance::Nanos{rebalance::kNanosPerUnit};
  EXPECT_EQ(read.node, "here");
  EXPECT_EQ(read.time_ns, kWall * std::int64_t{1'000'000'000});
  EXPECT_TRUE(read.capacity == kCapacity * kUnit);
  EXPECT_TRUE(read.usage == 750 * kMib * kUnit);
  EXPECT_TRUE(read.working_set == 700 * kMib * kUnit);
  EXPECT_EQ(read.some, 10.0);
  EXPECT_EQ(read.full, 10.0);
  EXPECT_EQ(read.evictions, 2);
  EXPECT_EQ(read.oom_kills, 1);
  ASSERT_EQ(read.thresholds.size(), 1U);
  EXPECT_TRUE(read.thresholds[0].headroom == 200 * kMib * kUnit);
  EXPECT_TRUE(read.thresholds[0].growth == 2 * kMib * kUnit);
  EXPECT_EQ(read.thresholds[0].seconds, 100.0);
  ASSERT_EQ(read.pods.size(), 2U);
  EXPECT_EQ(read.pods[0].name, "web-0");
  EXPECT_EQ(read.pods[0].uid, "uid-web-0");
  EXPECT_TRUE(read.pods[0].working_set == 70 * kMib * kUnit);
  EXPECT_TRUE(read.pods[0].growth == kMib * kUnit);
  EXPECT_FALSE(read.pods[1].growth) << "it was not on the ranking before";
  EXPECT_THAT(report, HasSubstr(R"("ownerReferences":[{"apiVersion":"v1","kind":"Node",)"
                                R"("name":"here","uid":"node-uid"}])"));
  EXPECT_THAT(report, HasSubstr(R"("annotations":{"forestall.dev/working-set":"700Mi"})"))
      << "as kubectl prints it";
}

// API servers of 1.20 refuse a report with an empty object.
TEST_F(NodeReportBuilderTest, HasNoMemoryIfNothingOfItIsKnown) {
  v1::AgentStatus of_cgroups;
  of_cgroups.mutable_config();
  add_threshold(of_cgroups, "allocatableMemory.available", "/kubepods", 500, 100, {}, now_);
  builder_.answered(of_cgroups, now_);
  const std::string report = build();
  EXPECT_THAT(report, HasSubstr("lastHour"));
  EXPECT_THAT(report, Not(HasSubstr(R"("memory":)")));
  EXPECT_THAT(report, Not(HasSubstr("annotations")));
}

TEST_F(NodeReportBuilderTest, ReportsPressureThatIsReached) {
  builder_.answered(status(90, 0.0), now_);
  const std::string report = build();
  EXPECT_THAT(report, HasSubstr(R"({"signal":"memory.available","headroom":-10485760,)"
                                R"("secondsToCrossing":0})"));
  EXPECT_THAT(report, Not(HasSubstr("memoryStallPercent"))) << "no earlier reading";
  EXPECT_THAT(report, Not(HasSubstr("\"pods\""))) << "no ranking";
}

TEST_F(NodeReportBuilderTest, HasTheTimeAtWhichTheAgentRead) {
  v1::AgentStatus old = status(600);
  pass(seconds(9));
  builder_.answered(old, now_);
  EXPECT_THAT(build(), HasSubstr(R"("time":"2025-11-25T17:59:51Z")"));
}

TEST_F(NodeReportBuilderTest, NeedsAnOwnerAndARecentStatus) {
  NodeReportBuilder builder("here");
  builder.answered(status(600), now_);
  EXPECT_FALSE(builder.is_due(now_));
  EXPECT_FALSE(builder.due(now_));
  builder.set_owner("node-uid");
  EXPECT_TRUE(builder.is_due(now_));
  pass(NodeReportBuilder::kStatusAgeMax);
  EXPECT_FALSE(builder.is_due(now_)) << "the agent is away";
  EXPECT_FALSE(builder.build({}, kWall, now_));
  v1::AgentStatus not_evaluated;
  builder.answered(not_evaluated, now_);
  EXPECT_FALSE(builder.is_due(now_));
}

TEST_F(NodeReportBuilderTest, IsDueEveryThirtySecondsAndAtOnceAfterAChange) {
  builder_.answered(status(600), now_);
  EXPECT_TRUE(builder_.is_due(now_));
  build();
  pass(seconds(5));
  builder_.answered(status(300), now_);
  EXPECT_FALSE(builder_.has_changed(now_)) << "too soon after the last one";
  pass(seconds(5));
  builder_.answered(status(300), now_);
  EXPECT_FALSE(builder_.is_due(now_));
  EXPECT_TRUE(builder_.has_changed(now_));
  build();
  pass(seconds(15));
  builder_.answered(status(301), now_);
  EXPECT_FALSE(builder_.has_changed(now_)) << "one MiB is not much";
  builder_.answered(status(301, 59.0), now_);
  EXPECT_TRUE(builder_.has_changed(now_)) << "a crossing within a minute is";
  v1::AgentStatus killed = status(301);
  killed.set_kills(1);
  builder_.answered(killed, now_);
  EXPECT_TRUE(builder_.has_changed(now_)) << "and an eviction";
  build();
  builder_.ranking_ended(now_);
  EXPECT_EQ(builder_.due(now_), now_ + NodeReportBuilder::kInterval);
}

TEST_F(NodeReportBuilderTest, IsDueAndMeasuresGrowthByTheTimeThatPassedIfTheClockIsSet) {
  for (const std::int64_t by : {-5, 9}) {
    builder_.answered(status(600), now_);
    v1::RankResponse ranking;
    add_pod(ranking, "web-0", 40);
    builder_.ranked(ranking, now_);
    builder_.ranking_ended(now_);
    ASSERT_NE(build(StallReading{seconds(1), seconds(0)}), "");
    wall_ += by * 3600;
    EXPECT_EQ(builder_.due(now_), now_ + NodeReportBuilder::kInterval);
    EXPECT_FALSE(builder_.is_due(now_) || builder_.has_changed(now_));
    pass(NodeReportBuilder::kInterval);
    v1::RankResponse second;
    add_pod(second, "web-0", 70);
    builder_.answered(status(600), now_);
    EXPECT_TRUE(builder_.is_due(now_));
    builder_.ranked(second, now_);
    const std::string report = build(StallReading{seconds(4), seconds(3)});
    EXPECT_THAT(report, HasSubstr(R"("growthPerSecond":1048576)"));
    EXPECT_THAT(report, HasSubstr(R"("memoryStallPercent":{"some":10,"full":10})"));
    pass(seconds(60));
  }
}

// A tenant that allocates and frees much every 10 s hides no pod.
TEST_F(NodeReportBuilderTest, HasPodsAndUsageHoweverOftenTheNodeChanges) {
  v1::RankResponse ranking;
  add_pod(ranking, "web-0", 40);
  ranking.mutable_signals()->mutable_observation()->mutable_node()->set_usage_bytes(kMib);
  int rankings = 0;
  for (int i = 0; i < 30; ++i) {
    builder_.answered(status(i % 2 == 0 ? 600 : 300), now_);
    if (builder_.needs_ranking(now_)) {
      ++rankings;
      builder_.ranked(ranking, now_);
      builder_.ranking_ended(now_);
    }
    EXPECT_TRUE(builder_.has_changed(now_) || builder_.is_due(now_)) << i;
    const std::string report = build();
    EXPECT_THAT(report, HasSubstr(R"("name":"web-0")")) << i;
    EXPECT_EQ(report.find(R"("usage":1048576)") != std::string::npos, i % 3 != 2) << i;
    pass(seconds(10));
  }
  EXPECT_EQ(rankings, 10) << "every 30 s";
}

TEST_F(NodeReportBuilderTest, ReportsANewRankingTenSecondsAfterTheLastReport) {
  builder_.answered(status(600), now_);
  EXPECT_TRUE(builder_.needs_ranking(now_));
  build();
  pass(seconds(1));
  builder_.ranked({}, now_);
  builder_.ranking_ended(now_);
  EXPECT_FALSE(builder_.needs_ranking(now_));
  EXPECT_FALSE(builder_.is_due(now_));
  EXPECT_EQ(builder_.due(now_), now_ + seconds(9));
  pass(seconds(9));
  EXPECT_TRUE(builder_.is_due(now_));
  build();
  EXPECT_EQ(builder_.due(now_), now_ + seconds(21)) << "the next ranking";
}

// What is unknown is missing; what is zero is zero.
TEST_F(NodeReportBuilderTest, LeavesOutWhatIsUnknown) {
  builder_.answered(status(600), now_);
  v1::RankResponse ranking;
  add_pod(ranking, "constant", 40);
  builder_.ranked(ranking, now_);
  EXPECT_THAT(build(), HasSubstr(R"("uid":"uid-constant","workingSet":41943040}])"));
  pass(seconds(30));
  add_pod(ranking, "no-statistics", 400);
  ranking.mutable_report()->mutable_order(1)->mutable_sample()->clear_inactive_file_bytes();
  builder_.answered(status(600), now_);
  builder_.ranked(ranking, now_);
  const std::string report = build();
  EXPECT_THAT(report, HasSubstr(R"("workingSet":41943040,"growthPerSecond":0}])"));
  EXPECT_THAT(report, Not(HasSubstr("no-statistics"))) << "its usage may be page cache";
}

TEST_F(NodeReportBuilderTest, ListsTheLargestPodsAndTheFastest) {
  builder_.answered(status(600), now_);
  v1::RankResponse ranking;
  for (int i = 0; i < 500; ++i) add_pod(ranking, "p" + std::to_string(i), 500 - i);
  builder_.ranked(ranking, now_);
  pass(seconds(30));
  v1::RankResponse second;
  for (int i = 0; i < 500; ++i) add_pod(second, "p" + std::to_string(i), i == 499 ? 31 : 500 - i);
  builder_.ranked(second, now_);
  builder_.answered(status(600), now_);
  const std::string report = build();
  EXPECT_THAT(report, HasSubstr(R"("name":"p0")"));
  EXPECT_THAT(report, HasSubstr(R"("name":"p29")"));
  EXPECT_THAT(report, Not(HasSubstr(R"("name":"p30")")));
  EXPECT_THAT(report, HasSubstr(R"("name":"p499","uid":"uid-p499","workingSet":32505856,)"
                                R"("growthPerSecond":1048576)"));
}

class KillTallyTest : public ::testing::Test {
 protected:
  // Time passes, then an agent that runs for `uptime` reports so many kills.
  KillCounts after(Duration passed, int pid, Duration uptime, std::uint64_t evictions,
                   std::uint64_t oom_kills = 0) {
    now_ += passed;
    v1::AgentStatus status;
    status.set_pid(pid);
    status.set_uptime_ns(uptime.count());
    status.set_kills(evictions);
    status.set_kernel_oom_kills(oom_kills);
    tally_.add(status, now_);
    return tally_.in_window(now_);
  }
  [[nodiscard]] KillCounts in(Duration time) const { return tally_.in_window(now_ + time); }

  MonotonicTime now_ = from_ns(100'000'000'000'000);
  KillTally tally_;
};

TEST_F(KillTallyTest, CountsTheLastHourAcrossAgents) {
  EXPECT_EQ(after({}, 1, minutes(90), 50), KillCounts()) << "when they happened is not known";
  EXPECT_EQ(after(minutes(1), 1, minutes(91), 52), (KillCounts{2, 0}));
  EXPECT_EQ(after(minutes(30), 2, seconds(1), 1, 3), (KillCounts{3, 3})) << "another agent";
  EXPECT_EQ(in(minutes(30)), (KillCounts{1, 3}));
  EXPECT_EQ(in(minutes(60)), KillCounts());
}

TEST_F(KillTallyTest, CountsKillsBeforeTheFirstStatusForAnHourFromTheStartOfTheAgent) {
  EXPECT_EQ(after({}, 1, minutes(59), 4), (KillCounts{4, 0}));
  EXPECT_EQ(in(minutes(1)), KillCounts()) << "they may be older";
}

TEST_F(KillTallyTest, CountsNoKillsOfAnAgentThatMayBeOlder) {
  after({}, 1, minutes(90), 5);
  EXPECT_EQ(after(minutes(150), 2, minutes(120), 7), KillCounts()) << "replaced without contact";
  EXPECT_EQ(after(minutes(180), 2, minutes(300), 9), KillCounts()) << "the same, without contact";
  EXPECT_EQ(after(minutes(20), 2, minutes(320), 10), (KillCounts{1, 0}));
  EXPECT_EQ(in(minutes(40)), KillCounts());
}

TEST_F(KillTallyTest, RecognizesANewAgentWithTheSameProcessId) {
  after({}, 1, seconds(1), 1, 1);
  EXPECT_EQ(after(seconds(5), 1, seconds(3), 0, 2), (KillCounts{1, 3})) << "a counter is smaller";
  EXPECT_EQ(after(minutes(30), 1, minutes(10), 2, 3), (KillCounts{3, 6}))
      << "its uptime grew too little";
  EXPECT_EQ(after(seconds(5), 1, minutes(10) + seconds(3), 3, 3), (KillCounts{4, 6}))
      << "the same, which answered late";
}

TEST(StallReading, IsTheTotalOfBothLines) {
  EXPECT_EQ(parse_stalls("some avg10=0.00 avg60=0.00 avg300=0.00 total=2000\n"
                         "full avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"),
            (StallReading{std::chrono::milliseconds(2), std::chrono::milliseconds(1)}));
  for (const char* text : {"", "some total=1\n", "some total=x\nfull total=1\n",
                           "full total=1\nsome total=1\n", "some\nfull total=1"}) {
    EXPECT_FALSE(parse_stalls(text)) << text;
  }
  EXPECT_FALSE(read_stalls("/nonexistent"));
}

class NodeReportWriterTest : public ::testing::Test {
 protected:
  // "METHOD TARGET" of the request that is sent within `longest`, answered so; empty: none.
  std::string play(int code, const std::string& retry_after = "", Duration longest = seconds(40),
                   const std::string& body = R"({"kind":"Status","status":"Success"})") {
    const auto due = writer_.due();
    if (!due || *due > now_ + longest) return "";
    now_ = std::max(now_, *due);
    const auto request = writer_.next(now_);
    if (!request) return "";
    last_ = request->http;
    EXPECT_FALSE(writer_.due()) << "one request at a time";
    writer_.answered(request->key, {code, retry_after, ""},
                     code == 404 ? "404 page not found" : body,
                     code == 0 ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt, now_);
    return last_.method + ' ' + last_.target;
  }

  MonotonicTime now_ = from_ns(1'000'000'000'000);
  kubernetes::OutgoingRequest last_;
  NodeReportWriter writer_{"here", [] { return 0.0; }};
};

constexpr const char* kApply =
    "PATCH /apis/forestall.dev/v1alpha1/nodereports/here?fieldManager=forestall&force=true";

TEST_F(NodeReportWriterTest, AppliesTheNewestReport) {
  EXPECT_FALSE(writer_.due());
  writer_.set("{1}", now_);
  writer_.set("{2}", now_);
  EXPECT_EQ(play(201), kApply);
  EXPECT_EQ(last_.body, "{2}");
  EXPECT_EQ(last_.content_type, "application/apply-patch+yaml");
  EXPECT_EQ(play(200), "") << "nothing new";
  writer_.set("{3}", now_);
  EXPECT_EQ(writer_.due(), now_) << "at once";
}

TEST_F(NodeReportWriterTest, ReportsThatTheServerCreatedTheObjectAgain) {
  const auto recreated_after = [&](int code) {
    writer_.set("{1}", now_);
    EXPECT_EQ(play(code), kApply);
    return writer_.take_recreated();
  };
  EXPECT_FALSE(recreated_after(201)) << "the first one";
  EXPECT_FALSE(recreated_after(200));
  EXPECT_TRUE(recreated_after(201));
  EXPECT_FALSE(writer_.take_recreated()) << "once";
  EXPECT_FALSE(recreated_after(200));
}

TEST_F(NodeReportWriterTest, TriesSlowlyIfTheServerHasNoSuchKind) {
  writer_.set("{1}", now_);
  EXPECT_EQ(play(404), kApply);
  EXPECT_THAT(writer_.problem(), HasSubstr("no kind NodeReport: apply"));
  const std::string problem = writer_.problem();
  writer_.set("{2}", now_);
  EXPECT_EQ(play(404), "");
  EXPECT_EQ(play(404, "", NodeReportWriter::kRefusedDelay), kApply);
  EXPECT_EQ(writer_.problem(), problem) << "logged once";
  writer_.set("{3}", now_);
  EXPECT_EQ(play(201, "", NodeReportWriter::kRefusedDelay), kApply);
  EXPECT_EQ(writer_.problem(), "");
}

TEST_F(NodeReportWriterTest, ARefusalLastsFiveMinutesAlsoWithAShorterRetryAfter) {
  for (const int code : {403, 404}) {
    writer_.set("{1}", now_);
    EXPECT_EQ(play(code, "1", NodeReportWriter::kRefusedDelay), kApply);
    writer_.set("{2}", now_);
    EXPECT_EQ(writer_.due(), now_ + NodeReportWriter::kRefusedDelay) << code;
  }
}

TEST_F(NodeReportWriterTest, AnAnswerOfAProxyIsNeitherAcceptanceNorRefusal) {
  for (const int code : {200, 201, 403}) {
    writer_.set("{1}", now_);
    EXPECT_EQ(play(code, "", seconds(40), "<html>Log in</html>"), kApply);
    EXPECT_NE(writer_.problem(), "");
    EXPECT_FALSE(writer_.take_recreated());
    writer_.set("{2}", now_);
    EXPECT_LT(*writer_.due(), now_ + seconds(40)) << code;
    EXPECT_EQ(play(200), kApply);
    EXPECT_EQ(writer_.problem(), "");
  }
}

TEST_F(NodeReportWriterTest, BacksOffAndObeysRetryAfter) {
  int requests = 0;
  const MonotonicTime begin = now_;
  while (now_ - begin < minutes(10)) {
    writer_.set("{1}", now_);
    EXPECT_EQ(play(++requests % 2 == 0 ? 0 : 500), kApply);
  }
  EXPECT_LT(requests, 60);
  writer_.set("{2}", now_);
  EXPECT_EQ(play(200), kApply);
  writer_.set("{3}", now_);
  EXPECT_EQ(play(429, "20"), kApply);
  writer_.set("{4}", now_);
  EXPECT_EQ(writer_.due(), now_ + seconds(20));
}

}  // namespace
}  // namespace forestall::cluster
