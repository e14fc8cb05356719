// SPDX-License-Identifier: Apache-2.0
#include "service/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "messages/convert.h"
#include "service/watch_log.h"

namespace forestall::service {
namespace {

std::vector<v1::Event> events_in(const Record& record) {
  std::vector<v1::Event> events;
  events_of(messages::to_proto(record), [&](const v1::Event& event) { events.push_back(event); });
  return events;
}

MonotonicTime at(std::int64_t ns) {
  return MonotonicTime(Duration(ns));
}

Record kill_record() {
  Record record;
  record.sequence = 9;
  record.wall_time_ns = 1'700'000'000'000'000'500;
  record.stages = {at(100), at(200), at(300), at(400)};
  record.decision.action = Action::kill;
  record.decision.reason = Reason::threshold_met;
  Evidence& evidence = record.decision.evidence.emplace_back();
  evidence.subject = "node";
  record.decision.driving = 0;
  Candidate& candidate = record.decision.considered.emplace_back();
  candidate.sample.workload.name = "leak";
  candidate.sample.workload.path = "/a/leak";
  candidate.sample.workload.cgroup = {77};
  candidate.sample.usage = mib(100);
  record.decision.evictions.emplace_back();
  return record;
}

TEST(Events, ADecisionInBrief) {
  const auto events = events_in(kill_record());
  ASSERT_EQ(events.size(), 1U);
  const v1::Event& event = events[0];
  EXPECT_EQ(kind_of(event), v1::Event::DECISION);
  EXPECT_EQ(event.at_ns(), 400);
  EXPECT_EQ(event.wall_time().seconds(), 1'700'000'000);
  EXPECT_EQ(event.wall_time().nanos(), 500);
  EXPECT_EQ(event.cgroup_id(), 77U);
  EXPECT_EQ(event.cgroup(), "/a/leak");
  EXPECT_EQ(event.decision().sequence(), 9U);
  EXPECT_EQ(event.decision().signal(), "memory.available");
  EXPECT_EQ(event.decision().victim(), "leak");
  EXPECT_EQ(event.decision().usage_bytes(), mib(100).count);
}

TEST(Events, AnOutcomeHasItsTimes) {
  Record record = kill_record();
  Outcome& outcome = record.outcome.emplace();
  outcome.victim = record.decision.considered[0].sample.workload;
  outcome.signalled = at(1400);
  outcome.released = at(5400);
  const auto events = events_in(record);
  ASSERT_EQ(events.size(), 1U) << "its decision was reported when it began";
  EXPECT_EQ(kind_of(events[0]), v1::Event::OUTCOME);
  EXPECT_EQ(events[0].at_ns(), 5400);
  EXPECT_EQ(events[0].wall_time().nanos(), 5500);
  EXPECT_EQ(events[0].outcome().signalled_after_ns(), 1300);
  EXPECT_EQ(events[0].outcome().freed_after_ns(), 4000);
}

TEST(Events, TimesOfAHostileRecordingSaturate) {
  Record record = kill_record();
  record.stages.crossed = MonotonicTime::min();
  record.wall_time_ns = std::numeric_limits<std::int64_t>::max();
  Outcome& outcome = record.outcome.emplace();
  outcome.victim = record.decision.considered[0].sample.workload;
  outcome.signalled = at(1400);
  outcome.released = MonotonicTime::max();
  const auto events = events_in(record);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].wall_time().seconds(), 9'223'372'036);
  EXPECT_EQ(events[0].outcome().signalled_after_ns(), std::numeric_limits<std::int64_t>::max());
}

TEST(Events, TimesBefore1970HaveNanosecondsAboveZero) {
  Record record;
  record.wall_time_ns = -1;
  const auto events = events_in(record);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].wall_time().seconds(), -1);
  EXPECT_EQ(events[0].wall_time().nanos(), 999'999'999);
}

TEST(Events, ConditionsThatChangeComeFirst) {
  Record record;
  record.decision.conditions[1].changed = true;
  const auto events = events_in(record);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(kind_of(events[0]), v1::Event::CONDITION);
  EXPECT_EQ(events[0].condition().type(), "DiskPressure");
  EXPECT_EQ(kind_of(events[1]), v1::Event::DECISION);
  EXPECT_FALSE(events[1].has_cgroup_id());
}

TEST(Events, AKernelsKill) {
  // As in the agent: the evaluation is the last one before the kill, the wall time is the kill's.
  Record record;
  record.stages.decided = at(20);
  record.wall_time_ns = 1'700'000'000'000'000'500;
  record.oom_kill.emplace().event.at = at(50);
  const auto events = events_in(record);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(kind_of(events[0]), v1::Event::OOM_KILL);
  EXPECT_EQ(events[0].at_ns(), 50);
  EXPECT_EQ(events[0].wall_time().nanos(), 500);
}

// A record from another source may have any value.
TEST(Events, IgnoresIndicesBeyondTheEnd) {
  v1::Record record;
  record.mutable_decision()->set_driving(7);
  record.mutable_decision()->set_victim(4'000'000'000);
  int count = 0;
  events_of(record, [&](const v1::Event& event) {
    EXPECT_EQ(event.decision().victim(), "");
    ++count;
  });
  EXPECT_EQ(count, 1);
}

class EvaluationEventsTest : public testing::Test {
 protected:
  // The crossings found by an evaluation with these thresholds: +i or -i for the i-th.
  std::vector<int> crossings(const std::vector<bool>& met) {
    exports::EvaluationNote note;
    note.crossed = true;
    for (std::size_t i = 0; i < met.size(); ++i) {
      Evidence& each = note.evidence.emplace_back();
      each.subject = "node";
      each.threshold.grace = Duration(static_cast<std::int64_t>(i));  // a soft and a hard one
      each.met = met[i];
    }
    std::vector<int> reported;
    evaluation_events_.report(note, [&](const v1::Event& event) {
      if (!event.has_threshold()) return;
      const int which = static_cast<int>(event.threshold().grace_ns()) + 1;
      reported.push_back(event.threshold().met() ? which : -which);
    });
    return reported;
  }

  EvaluationEvents evaluation_events_;
};

TEST_F(EvaluationEventsTest, ReportsChanges) {
  using testing::ElementsAre;
  EXPECT_THAT(crossings({false, true}), ElementsAre(2));
  EXPECT_THAT(crossings({false, true}), ElementsAre());
  EXPECT_THAT(crossings({true, true}), ElementsAre(1));
  EXPECT_THAT(crossings({false, false}), ElementsAre(-1, -2));
}

TEST_F(EvaluationEventsTest, AKillWithoutAnEvaluationHasAThresholdToo) {
  using testing::ElementsAre;
  v1::Record record;
  record.mutable_decision()->set_action(v1::Decision::KILL);
  v1::Evidence& evidence = *record.mutable_decision()->add_evidence();
  evidence.set_met(true);
  evidence.set_subject("node");
  evidence.mutable_threshold()->set_signal(std::string(to_string(Evidence().threshold.signal)));
  const auto reported = [&] {
    int count = 0;
    evaluation_events_.report(record, [&](const v1::Event& event) {
      EXPECT_TRUE(event.threshold().met());
      EXPECT_EQ(event.threshold().subject(), "node");
      ++count;
    });
    return count;
  };
  EXPECT_EQ(reported(), 1);
  EXPECT_EQ(reported(), 0);
  EXPECT_THAT(crossings({false}), ElementsAre(-1));
  EXPECT_EQ(reported(), 1);
  EXPECT_THAT(crossings({true}), ElementsAre());
}

TEST(WatchLog, KeepsWhatFitsAndCountsTheRest) {
  WatchLog log;
  std::uint64_t place = log.end();
  const auto frame = std::make_shared<const std::string>(WatchLog::kBytesMax / 4, 'x');
  for (std::uint32_t i = 0; i < 10; ++i) log.push({frame, i});
  EXPECT_EQ(log.skip_lost(place), 6U);
  EXPECT_EQ(log.skip_lost(place), 0U);
  ASSERT_NE(log.at(place), nullptr);
  EXPECT_EQ(log.at(place)->kind, 6U);
  EXPECT_EQ(log.at(place + 4), nullptr);
  const auto huge = std::make_shared<const std::string>(WatchLog::kBytesMax * 2, 'x');
  log.push({huge, 10});
  EXPECT_EQ(log.skip_lost(place), 4U);
  EXPECT_EQ(log.at(place)->kind, 10U) << "the last one stays";
  log.clear();
  EXPECT_EQ(log.skip_lost(place), 1U);
  EXPECT_EQ(place, log.end());
}

}  // namespace
}  // namespace forestall::service
