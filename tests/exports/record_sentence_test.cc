// SPDX-License-Identifier: Apache-2.0
#include "exports/record_sentence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "exports/amount_text.h"

namespace forestall::exports {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kRequest = mib(64);

Record eviction(const char* name = "batch/leaker") {
  Record record;
  Evidence evidence;
  evidence.threshold.signal = Signal::memory_available;
  evidence.subject = "node";
  evidence.available = mib(96).count - kib(205).count;
  evidence.limit = binary(mib(96).count);
  evidence.capacity = gib(1).count;
  record.decision.action = Action::kill;
  record.decision.reason = Reason::threshold_met;
  record.decision.evidence = {evidence};
  record.decision.driving = 0;
  Candidate victim;
  victim.sample.workload.name = name;
  victim.sample.workload.path = "/batch/1";
  victim.key.measured = true;
  victim.key.exceeds_request = true;
  victim.key.request = kRequest.count;
  victim.key.usage = mib(191).count;
  record.decision.considered = {victim};
  record.decision.evictions.emplace_back().at_once = true;
  return record;
}

Record evicted(const char* name = "batch/leaker") {
  Record record = eviction(name);
  Outcome& outcome = record.outcome.emplace();
  outcome.victim = record.decision.considered.front().sample.workload;
  outcome.state = KillState::released;
  outcome.freed = mib(190);
  outcome.signalled = from_ns(5'000'000);
  outcome.released = from_ns(15'000'000);
  return record;
}

TEST(RecordSentence, AnEvictionNamesVictimCauseAndResult) {
  EXPECT_EQ(decision_sentence(eviction()), "evicting batch/leaker: memory.available 95.8Mi < 96Mi");
  EXPECT_EQ(outcome_sentence(evicted()),
            "evicted batch/leaker: memory.available 95.8Mi < 96Mi; over its request by 127Mi; "
            "freed 190Mi in 10 ms");
}

TEST(RecordSentence, AKillOfARulesetNamesItAndItsDetectors) {
  Record record = evicted();
  record.decision.reason = Reason::ruleset;
  record.decision.driving.reset();
  record.decision.evictions.front().cause = EvictionCause::ruleset;
  record.decision.rulesets.emplace_back().name = "protect";
  record.decision.rulesets.front().group = "memory stalls";
  record.decision.ruleset = 0;
  EXPECT_EQ(decision_sentence(record),
            "evicting batch/leaker: ruleset protect, detectors \"memory stalls\"");
  EXPECT_EQ(outcome_sentence(record),
            "evicted batch/leaker: ruleset protect, detectors \"memory stalls\"; freed 190Mi in 10 "
            "ms");
}

TEST(RecordSentence, ACrossingHasADirectionAndASubject) {
  const auto sentence = [](std::string_view subject, bool met, Bytes available) {
    return crossing_sentence(Signal::memory_available, subject, met, available.count,
                             mib(96).count);
  };
  EXPECT_EQ(sentence("node", true, mib(90)), "met: memory.available 90Mi < 96Mi");
  EXPECT_EQ(sentence("/batch", true, mib(96)),
            "met: memory.available 96Mi, threshold 96Mi in /batch");
  EXPECT_EQ(sentence("/a b", false, mib(99)),
            "no longer met: memory.available 99Mi, threshold 96Mi in \"/a b\"");
  EXPECT_EQ(
      sentence("node", false, mib(95)),
      "no longer met with the memory that is being released: memory.available 95Mi, threshold "
      "96Mi");
}

TEST(RecordSentence, TheStateOfAKillIsTheVerb) {
  Record record = evicted();
  record.outcome->dry_run = true;
  record.outcome->state = KillState::in_flight;
  EXPECT_EQ(outcome_sentence(record),
            "would have evicted batch/leaker: memory.available 95.8Mi < 96Mi; over its request by "
            "127Mi");
  record = evicted();
  record.outcome->state = KillState::stuck;
  record.outcome->released.reset();
  record.outcome->freed = mib(3);
  EXPECT_EQ(outcome_sentence(record),
            "killed batch/leaker, but its memory is not free yet: memory.available 95.8Mi < 96Mi; "
            "over its request by 127Mi; freed 3Mi");
  record = evicted();
  record.outcome->state = KillState::failed;
  record.outcome->attempts = {{Rung::verify, from_ns(0), 0, Error{0, "gone\nevent=forged"}}};
  EXPECT_EQ(outcome_sentence(record), "could not evict batch/leaker: gone\\nevent=forged");
  record = evicted();
  record.outcome->left_behind = LeftBehind{mib(7), {}};
  EXPECT_TRUE(outcome_sentence(record).ends_with("; freed 190Mi in 10 ms; 7Mi stayed charged"));
}

TEST(RecordSentence, ARequestIsNamedOnlyIfItRanks) {
  Record record = evicted();
  RankKey& key = record.decision.considered.front().key;
  key.request = 0;
  EXPECT_NE(outcome_sentence(record).find("; no request, used 191Mi; freed"), std::string::npos);
  key.request = gib(1).count;
  key.exceeds_request = false;
  EXPECT_NE(outcome_sentence(record).find("; within its request; freed"), std::string::npos);
  record.decision.evidence.front().threshold.signal = Signal::pid_available;
  EXPECT_EQ(outcome_sentence(record).find("request"), std::string::npos);
}

TEST(RecordSentence, ANameCannotImitateAnotherSentence) {
  EXPECT_EQ(decision_sentence(eviction("a: x\nevicted b\x1b[2J")),
            "evicting \"a: x\\nevicted b\\x1b[2J\": memory.available 95.8Mi < 96Mi");
}

TEST(RecordSentence, ANonEvictionHasItsReason) {
  Record record = eviction();
  record.decision.action = Action::none;
  record.decision.evictions.clear();
  record.decision.reason = Reason::release_pending;
  record.decision.evidence.front().cgroup.inode = 5;
  record.decision.evidence.front().subject = "/a b";
  EXPECT_EQ(decision_sentence(record),
            "memory that is being released suffices: memory.available 95.8Mi < 96Mi in \"/a b\"");
  record.decision.evidence.front().pending_release = mib(224).count;
  EXPECT_EQ(decision_sentence(record),
            "memory that is being released suffices: memory.available 95.8Mi + 224Mi, threshold "
            "96Mi in \"/a b\"");
  record.decision.evidence.front().pending_release = 0;
  record.decision.evidence.front().available = mib(97).count;
  record.decision.evidence.front().threshold.min_reclaim = Limit::bytes(mib(16));
  EXPECT_EQ(decision_sentence(record),
            "memory that is being released suffices: memory.available 97Mi, threshold 96Mi and "
            "minimum reclaim 16Mi in \"/a b\"");
  record.decision.driving.reset();
  record.decision.reason = Reason::no_threshold_met;
  EXPECT_EQ(decision_sentence(record), "no threshold is met");
}

TEST(RecordSentence, EveryReasonHasAPhrase) {
  Record record;
  for (std::size_t i = 0; !to_string(static_cast<Reason>(i)).empty(); ++i) {
    record.decision.reason = static_cast<Reason>(i);
    EXPECT_FALSE(decision_sentence(record).empty()) << to_string(record.decision.reason);
  }
  record.oom_kill.emplace();
  for (std::size_t i = 0; !to_string(static_cast<Inaction>(i)).empty(); ++i) {
    record.oom_kill->inaction = static_cast<Inaction>(i);
    EXPECT_FALSE(oom_kill_sentence(record).ends_with(": "));
  }
}

TEST(RecordSentence, AKernelKillNamesTheCgroupAtItsLimit) {
  Record record;
  OomKill& kill = record.oom_kill.emplace();
  kill.event.victim = {123, 4};
  kill.event.comm = {'h', 'o', 'g', ' ', '1'};
  kill.event.path = "/a/b/c";
  kill.event.constraint = Constraint::memcg;
  kill.event.domain_path = "/a";
  kill.event.domain_limit = mib(2);
  kill.inaction = Inaction::too_fast;
  kill.since_crossing = std::chrono::microseconds(1500);
  EXPECT_EQ(oom_kill_sentence(record),
            "the kernel's OOM killer killed \"hog 1\" (pid 123) in /a/b/c: /a was at its limit "
            "of 2Mi; why the agent had not acted: the threshold was crossed too shortly before "
            "(1.5 ms after the crossing)");
}

// In a cluster a path has more than 150 characters.
TEST(RecordSentence, AKernelKillHasThePathOfItsVictimOnce) {
  Record record;
  OomKill& kill = record.oom_kill.emplace();
  kill.event.victim = {123, 4};
  kill.event.comm = {'h', 'o', 'g'};
  kill.event.path = "/pod1/c";
  kill.event.constraint = Constraint::memcg;
  kill.event.domain_path = "/pod1/c";
  kill.event.domain_limit = mib(2);
  EXPECT_THAT(oom_kill_sentence(record),
              HasSubstr("(pid 123) in /pod1/c, which was at its limit of 2Mi; why"));
  kill.event.domain_path = "/pod1";
  EXPECT_THAT(oom_kill_sentence(record),
              HasSubstr("(pid 123) in /pod1/c: its parent cgroup was at its limit of 2Mi; why"));
  for (const char* other : {"/pod1/", "/pod", "/pod1/d"}) {
    kill.event.domain_path = other;
    EXPECT_THAT(oom_kill_sentence(record),
                HasSubstr(std::string("in /pod1/c: ") + other + " was at its limit of 2Mi; why"));
  }
}

TEST(AmountText, HasThreeDigits) {
  EXPECT_EQ(amount_text(1023), "1023");
  EXPECT_EQ(amount_text(mib(96).count), "96Mi");
  EXPECT_EQ(amount_text(mib(96).count - kib(205).count), "95.8Mi");
  EXPECT_EQ(amount_text(mib(190).count + kib(410).count), "190Mi");
  EXPECT_EQ(amount_text(gib(1).count - 1), "1Gi");
  EXPECT_EQ(amount_text(-mib(3).count), "-3Mi");
  EXPECT_EQ(amount_text(12345, Unit::inodes), "12345");
  EXPECT_EQ(time_text(std::chrono::nanoseconds(10'366'200)), "10.4 ms");
  EXPECT_EQ(time_text(std::chrono::nanoseconds(283'200)), "283 us");
  EXPECT_EQ(time_text(std::chrono::seconds(3)), "3 s");
}

TEST(AmountText, AComparisonNeverReadsAsFalse) {
  EXPECT_EQ(less_text(mib(96).count - kib(20).count, mib(96).count, Unit::bytes), "95.98Mi < 96Mi");
  EXPECT_EQ(less_text(gib(96).count - 1, gib(96).count, Unit::bytes),
            "103079215103 < 103079215104");
  EXPECT_EQ(less_text(4, 5, Unit::tasks), "4 < 5");
}

}  // namespace
}  // namespace forestall::exports
