// SPDX-License-Identifier: Apache-2.0
// Victims with a grace period, on real cgroups and processes: those that exit by themselves, those
// that must be killed after the period, and what shortens the period.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "integration/ladder_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using actuators::LadderOptions;

constexpr Duration kLong = std::chrono::hours(1);
constexpr Duration kShort = std::chrono::milliseconds(200);

LadderOptions patient() {
  LadderOptions options;
  options.usable = kAllOfKilling;
  options.release_timeout = std::chrono::seconds(10);
  return options;
}

// A process of the group that blocks SIGTERM and, if `obeys`, exits when it arrives.
class Service {
 public:
  Service(
      const ScratchCgroup& scratch, const std::string& path, bool obeys,
      const std::function<void()>& last_words = [] {})
      : child_([&]() -> int {
          sigset_t term;
          sigemptyset(&term);
          sigaddset(&term, SIGTERM);
          sigprocmask(SIG_BLOCK, &term, nullptr);
          scratch.add(path, getpid());
          if (::write(ready_[1], "x", 1) != 1) return 2;
          int got = 0;
          do {
            if (sigwait(&term, &got) != 0) return 3;
          } while (!obeys);
          last_words();
          return 0;
        }) {
    char byte = 0;
    if (::read(ready_[0], &byte, 1) != 1) throw std::runtime_error("the service did not start");
  }

  [[nodiscard]] Child& child() { return child_; }

 private:
  struct Pipe {
    Pipe() {
      if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    }
    ~Pipe() {
      ::close(ends[0]);
      ::close(ends[1]);
    }
    int operator[](int i) const { return ends[i]; }
    int ends[2] = {-1, -1};
  };
  Pipe ready_;  // before the fork
  Child child_;
};

TEST(LadderGrace, AnObedientVictimExitsByItself) {
  ScratchCgroup scratch;
  const auto path = scratch.child("obedient");
  Service service(scratch, path, true);
  LadderRun run(patient());
  const auto victim = run.rank(path);
  run.ladder().begin(victim, kLong);
  const Outcome outcome = run.next_outcome();
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 1U);
  EXPECT_NE(attempt_on(outcome, Rung::sigterm), nullptr) << describe(outcome);
  EXPECT_EQ(attempt_on(outcome, Rung::sigkill), nullptr) << describe(outcome);
  EXPECT_TRUE(outcome.signalled);
  ASSERT_TRUE(service.child().wait_exit());
  EXPECT_EQ(service.child().reap(), 0);
}

// A clock on which each reading takes as long as on a very slow machine.
class SlowClock : public Clock {
 public:
  [[nodiscard]] MonotonicTime now() const override {
    return began_ + std::chrono::milliseconds(20) * ++readings_;
  }

 private:
  MonotonicTime began_ = SystemClock().now();
  mutable std::atomic<int> readings_ = 0;
};

// Sweeps are spaced by their own duration, so the exit may be reported while the next is not due.
TEST(LadderGrace, AnExitDuringThePauseBetweenSweepsIsCheckedSoon) {
  ScratchCgroup scratch;
  const auto path = scratch.child("obedient");
  Service service(scratch, path, true);
  const LadderRun run(patient());
  const SlowClock clock;
  const auto ladder = LadderRun::must(actuators::Ladder::create(run.tree(), clock, patient()));
  ladder->begin(run.rank(path), kLong);
  ASSERT_TRUE(service.child().wait_exit());
  ladder->advance();
  ASSERT_TRUE(ladder->next_due());
  EXPECT_LT(*ladder->next_due(), clock.now() + std::chrono::minutes(1));
}

TEST(LadderGrace, AnIgnoringVictimIsKilledAfterThePeriod) {
  ScratchCgroup scratch;
  const auto path = scratch.child("deaf");
  Service service(scratch, path, false);
  LadderRun run(patient());
  run.ladder().begin(run.rank(path), kShort);
  const auto progress = run.progress_of(run.rank(path).workload.cgroup);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->state, KillState::terminating);
  EXPECT_EQ(progress->remaining, Bytes{0});
  ASSERT_TRUE(progress->kill_at);
  EXPECT_EQ(*progress->kill_at, progress->started + kShort);
  const Outcome outcome = run.next_outcome();
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 1U) << describe(outcome);
  const Attempt* killed = attempt_on(outcome, Rung::sigkill);
  ASSERT_NE(killed, nullptr) << describe(outcome);
  EXPECT_GE(killed->at, outcome.began + kShort);
  ASSERT_TRUE(service.child().wait_exit());
  const int status = service.child().reap();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(LadderGrace, AHarderDecisionCutsItShort) {
  ScratchCgroup scratch;
  const auto path = scratch.child("deaf");
  Service service(scratch, path, false);
  LadderRun run(patient());
  run.ladder().begin(run.rank(path), kLong);
  EXPECT_FALSE(service.child().ended());
  run.ladder().begin(run.rank(path));
  const Outcome outcome = run.next_outcome();
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_TRUE(service.child().wait_exit());
  EXPECT_TRUE(run.outcomes().empty());  // one kill, one outcome
}

TEST(LadderGrace, ALaterDecisionDoesNotLengthenIt) {
  ScratchCgroup scratch;
  const auto path = scratch.child("deaf");
  Service service(scratch, path, false);
  LadderRun run(patient());
  // Long enough for a busy guest: the second decision has to come before its end.
  run.ladder().begin(run.rank(path), std::chrono::seconds(3));
  run.ladder().begin(run.rank(path), kLong);
  EXPECT_EQ(run.next_outcome().state, KillState::released);
  EXPECT_TRUE(service.child().wait_exit());
}

// The configuration may be reloaded during the period.
TEST(LadderGrace, ADecisionOfADryRunDoesNotCutItShort) {
  ScratchCgroup scratch;
  const auto path = scratch.child("deaf");
  Service service(scratch, path, false);
  LadderRun run(patient());
  run.ladder().begin(run.rank(path), kLong);
  LadderOptions dry = patient();
  dry.dry_run = true;
  run.ladder().set_options(dry);
  run.ladder().begin(run.rank(path));
  const auto progress = run.progress_of(run.rank(path).workload.cgroup);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->state, KillState::terminating);
  EXPECT_EQ(*progress->kill_at, progress->started + kLong);
  EXPECT_FALSE(service.child().ended());
  run.ladder().set_options(patient());
  run.ladder().begin(run.rank(path));
  EXPECT_EQ(run.next_outcome().state, KillState::released);
  EXPECT_TRUE(service.child().wait_exit());
}

TEST(LadderGrace, ForksDuringThePeriodAreKilledAtItsEnd) {
  ScratchCgroup scratch;
  const auto path = scratch.child("parting");
  Service service(scratch, path, true, [] {
    if (fork() == 0) {
      for (;;) pause();  // would exit, but received no signal
    }
  });
  LadderRun run(patient());
  run.ladder().begin(run.rank(path), std::chrono::seconds(1));
  ASSERT_TRUE(service.child().wait_exit());
  const Outcome outcome = run.next_outcome();
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 2U) << describe(outcome);
  EXPECT_TRUE(scratch.processes(path).empty());
}

TEST(LadderGrace, ADryRunSendsNoSignal) {
  ScratchCgroup scratch;
  const auto path = scratch.child("obedient");
  Service service(scratch, path, true);
  LadderOptions options = patient();
  options.dry_run = true;
  LadderRun run(options);
  run.ladder().begin(run.rank(path), kLong);
  const Outcome outcome = run.next_outcome();
  EXPECT_TRUE(outcome.dry_run);
  EXPECT_EQ(attempt_on(outcome, Rung::sigterm), nullptr) << describe(outcome);
  EXPECT_FALSE(service.child().ended());
}

TEST(LadderGrace, ASlowVictimDelaysNoOther) {
  ScratchCgroup scratch;
  const auto slow = scratch.child("slow");
  const auto quick = scratch.child("quick");
  Service deaf(scratch, slow, false);
  Hog hog(scratch, quick, mib(16));
  LadderRun run(patient());
  run.ladder().begin(run.rank(slow), kLong);
  const Outcome outcome = run.kill(run.rank(quick));
  EXPECT_EQ(outcome.victim.path, quick);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_FALSE(deaf.child().ended());
  const auto progress = run.progress_of(run.rank(slow).workload.cgroup);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->state, KillState::terminating);
}

}  // namespace
}  // namespace forestall::test
