// SPDX-License-Identifier: Apache-2.0
// What counts as a kill: one that was begun, once. And what its first record reports of it.
#include <gtest/gtest.h>
#include <signal.h>

#include "agent/pending_kills.h"
#include "integration/ladder_run.h"
#include "support/child.h"
#include "support/manual_clock.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

class KillCounts : public ::testing::Test {
 protected:
  static actuators::LadderOptions options(bool dry_run = false) {
    actuators::LadderOptions options;
    options.usable = kAllOfKilling;
    options.dry_run = dry_run;
    return options;
  }
  static Decision decision(const WorkloadSample& victim, Duration grace) {
    Decision made;
    made.action = Action::kill;
    Candidate candidate;
    candidate.sample = victim;
    made.considered = {candidate};
    Eviction eviction;
    eviction.grace = grace;
    eviction.at_once = grace == Duration::zero();
    made.evictions = {eviction};
    return made;
  }
  void signal(LadderRun& run, const WorkloadSample& victim, Duration grace = Duration::zero()) {
    agent::PendingKills(run.ladder(), no_records_, counts_).signal(decision(victim, grace));
  }

  ScratchCgroup scratch_;
  const std::string path_ = scratch_.child("victim");
  const std::vector<exports::RecordSink*> no_sinks_;
  agent::RecordWriter no_records_{no_sinks_};
  exports::LoopCounts counts_;
};

TEST_F(KillCounts, OneThatIsShortenedCountsOnce) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);
  const Hog deaf(scratch_, path_, mib(4));  // inherits the mask
  pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  LadderRun run(options());
  signal(run, run.rank(path_), std::chrono::hours(1));
  signal(run, run.rank(path_));
  EXPECT_EQ(counts_.kills, 1U);
}

class FirstRecord final : public exports::RecordSink {
 public:
  void write(const Record& record) override {
    if (!first) first = record;
  }
  std::optional<Record> first;
};

// What the record reports before the outcome is known.
std::optional<BegunKill> begun_kill(agent::PendingKills& kills, const FirstRecord& sink,
                                    const Decision& decision, bool dry_run) {
  Record record;
  record.decision = decision;
  kills.signal(record.decision);
  kills.keep(std::move(record), dry_run);
  EXPECT_TRUE(sink.first && !sink.first->outcome);
  return sink.first->begun;
}

TEST_F(KillCounts, TheFirstRecordReportsHowTheKillBegan) {
  struct Case {
    bool dry_run;
    Duration grace;
    KillState state;
  };
  for (const Case& each : {Case{false, Duration::zero(), KillState::in_flight},
                           Case{true, Duration::zero(), KillState::in_flight},
                           Case{false, std::chrono::hours(1), KillState::terminating}}) {
    const Hog hog(scratch_, path_, mib(4));
    LadderRun run(options(each.dry_run));
    FirstRecord sink;
    const std::vector<exports::RecordSink*> sinks = {&sink};
    agent::RecordWriter writer(sinks);
    agent::PendingKills kills(run.ladder(), writer, counts_);
    EXPECT_EQ(begun_kill(kills, sink, decision(run.rank(path_), each.grace), each.dry_run),
              std::optional(BegunKill{each.dry_run, each.state}));
  }
}

TEST_F(KillCounts, TheFirstRecordOfAVictimThatWasReplacedReportsNoKill) {
  const Hog hog(scratch_, path_, mib(4));
  LadderRun run(options());
  WorkloadSample another = run.rank(path_);
  ++another.workload.cgroup.inode;  // the cgroup was removed and created again
  FirstRecord sink;
  const std::vector<exports::RecordSink*> sinks = {&sink};
  agent::RecordWriter writer(sinks);
  agent::PendingKills kills(run.ladder(), writer, counts_);
  EXPECT_EQ(begun_kill(kills, sink, decision(another, Duration::zero()), false), std::nullopt);
}

TEST_F(KillCounts, TheFirstRecordOfAnEmptyVictimReportsNoKill) {
  LadderRun run(options());
  FirstRecord sink;
  const std::vector<exports::RecordSink*> sinks = {&sink};
  agent::RecordWriter writer(sinks);
  agent::PendingKills kills(run.ladder(), writer, counts_);
  EXPECT_EQ(begun_kill(kills, sink, decision(run.rank(path_), Duration::zero()), false),
            std::nullopt);
}

TEST_F(KillCounts, OneThatFailsDoesNotCount) {
  const Hog hog(scratch_, path_, mib(4));
  LadderRun run(options());
  WorkloadSample another = run.rank(path_);
  ++another.workload.cgroup.inode;  // the cgroup was removed and created again
  signal(run, another);
  EXPECT_TRUE(hog.alive());
  EXPECT_EQ(counts_.kills, 0U);
}

TEST_F(KillCounts, OneWithoutProcessesDoesNotCount) {
  LadderRun run(options());
  signal(run, run.rank(path_));
  EXPECT_EQ(counts_.kills, 0U);
}

TEST_F(KillCounts, ThoseOfADryRunHaveACountOfTheirOwn) {
  const Hog hog(scratch_, path_, mib(4));
  LadderRun run(options(true));
  signal(run, run.rank(path_));
  signal(run, run.rank(path_));
  EXPECT_EQ(counts_.kills, 0U);
  EXPECT_EQ(counts_.dry_run_kills, 1U);
  EXPECT_TRUE(hog.alive());
}

// Regression: it counted again every 30 s, when the ladder forgets it.
TEST_F(KillCounts, ADryRunCountsOnceForACrossing) {
  const Hog hog(scratch_, path_, mib(4));
  const LadderRun real(options());
  ManualClock clock;
  const auto ladder = LadderRun::must(actuators::Ladder::create(real.tree(), clock, options(true)));
  agent::PendingKills kills(*ladder, no_records_, counts_);
  Record record;
  record.decision = decision(real.rank(path_), Duration::zero());
  record.decision.evidence.emplace_back().first_met = clock.now();
  record.decision.driving = 0;
  const auto forgotten = [&] {
    clock.advance(std::chrono::seconds(31));
    ladder->advance();
    return ladder->progress().empty();
  };
  kills.signal(record.decision);
  kills.evaluated(record);
  ASSERT_TRUE(forgotten());
  kills.signal(record.decision);
  EXPECT_EQ(counts_.dry_run_kills, 1U);
  EXPECT_TRUE(kills.is_repetition(real.rank(path_).workload.cgroup));
  Record recovered = record;
  recovered.decision.evidence[0].first_met.reset();
  kills.evaluated(recovered);
  ASSERT_TRUE(forgotten());
  kills.signal(record.decision);
  EXPECT_EQ(counts_.dry_run_kills, 2U);
}

}  // namespace
}  // namespace forestall::test
