// SPDX-License-Identifier: Apache-2.0
// Victims that are signalled and do not exit: frozen by the v1 freezer, or stopped by a tracer at
// their exit. process_mrelease must free their memory. Without it, the kill must be reported as
// stuck in time, so that the policy selects the next candidate.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "integration/ladder_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using actuators::LadderOptions;

LadderOptions options_with(const FeatureSet& usable, Duration release_timeout) {
  LadderOptions options;
  options.usable = usable;
  options.release_timeout = release_timeout;
  return options;
}

// A group of the v1 freezer made for this test; thawed and removed at the end.
class ScratchFreezer {
 public:
  ScratchFreezer() : path_("/sys/fs/cgroup/freezer/forestall-test-" + std::to_string(getpid())) {
    mkdir(path_.c_str(), 0755);
  }
  ScratchFreezer(const ScratchFreezer&) = delete;
  ScratchFreezer& operator=(const ScratchFreezer&) = delete;
  ~ScratchFreezer() {
    thaw();
    rmdir(path_.c_str());
  }
  static bool exists() { return access("/sys/fs/cgroup/freezer/cgroup.procs", F_OK) == 0; }
  void freeze(pid_t pid) const {
    write("cgroup.procs", std::to_string(pid));
    write("freezer.state", "FROZEN");
    // The kernel changes FREEZING to FROZEN when the state is read and all processes have stopped.
    for (int reads = 0; reads < 100'000 && state() != "FROZEN\n"; ++reads) {
    }
    ASSERT_EQ(state(), "FROZEN\n");
  }
  void thaw() const { write("freezer.state", "THAWED"); }

 private:
  [[nodiscard]] std::string state() const { return read_text(path_ + "/freezer.state"); }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ + "/" + file) << text << std::flush;
  }
  std::string path_;
};

class LadderFrozenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ScratchFreezer::exists())
      GTEST_SKIP() << "not applicable: no v1 freezer: runs on v1 and hybrid hosts";
    freezer_ = std::make_unique<ScratchFreezer>();
    hog_ = std::make_unique<Hog>(scratch_, path_, mib(64));
    freezer_->freeze(hog_->pid());
  }

  ScratchCgroup scratch_;
  const std::string path_ = scratch_.child("victim");
  std::unique_ptr<Hog> hog_;
  std::unique_ptr<ScratchFreezer> freezer_;  // thaws before the hog is reaped
};

TEST_F(LadderFrozenTest, MreleaseBringsTheMemoryBack) {
  LadderRun run(options_with(kByPidfd, std::chrono::seconds(3)));
  const auto victim = run.rank(path_);
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_TRUE(outcome.released);
  EXPECT_FALSE(outcome.exited) << "a frozen process cannot exit";
  EXPECT_GE(outcome.freed, mib(57));
  EXPECT_EQ(attempt_on(outcome, Rung::mrelease)->processes, 1U);
  EXPECT_TRUE(hog_->alive());
}

TEST_F(LadderFrozenTest, WithoutMreleaseItIsStuckAndReleasedLate) {
  LadderRun run(options_with(features({Feature::pidfd}), std::chrono::milliseconds(100)));
  const auto victim = run.rank(path_);
  const Outcome stuck = run.kill(victim);
  EXPECT_EQ(stuck.state, KillState::stuck) << describe(stuck);
  EXPECT_FALSE(stuck.released);
  const auto progress = run.progress_of(victim.workload.cgroup);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->state, KillState::stuck);
  EXPECT_EQ(progress->remaining, Bytes{0}) << "no credit for memory that does not come";

  freezer_->thaw();
  const Outcome late = run.next_outcome();
  EXPECT_EQ(late.state, KillState::released) << describe(late);
  EXPECT_TRUE(late.exited);
  EXPECT_GE(late.freed, mib(60));
  EXPECT_EQ(run.progress_of(victim.workload.cgroup).value().state, KillState::released);
}

TEST_F(LadderFrozenTest, ASecondKillOfItIsRefusedWhileTheFirstIsUnderWay) {
  LadderRun run(options_with(features({Feature::pidfd}), std::chrono::seconds(10)));
  auto victim = run.rank(path_);
  victim.inactive_file = mib(16);
  run.ladder().begin(victim);
  EXPECT_TRUE(run.ladder().take_outcomes().empty());
  const auto progress = run.progress_of(victim.workload.cgroup);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->state, KillState::in_flight);
  EXPECT_GE(progress->remaining, mib(60 - 16)) << "credited with what is still charged";
  EXPECT_LE(progress->remaining, scratch_.usage(path_) - mib(12))
      << "less what was no part of the working set";

  run.ladder().begin(victim);
  const auto outcomes = run.ladder().take_outcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].state, KillState::failed);
  EXPECT_EQ(outcomes[0].attempts[0].failure->code, EALREADY);

  freezer_->thaw();
  EXPECT_EQ(run.next_outcome().state, KillState::released);
}

// A tracer stops the victim inside do_exit(), before it frees its memory.
class LadderTracedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    hog_ = std::make_unique<Hog>(scratch_, path_, mib(64));
    ASSERT_EQ(ptrace(PTRACE_SEIZE, hog_->pid(), 0, PTRACE_O_TRACEEXIT), 0);
  }
  // Continues it past its exit stop.
  void release() { ptrace(PTRACE_DETACH, hog_->pid(), 0, 0); }

  ScratchCgroup scratch_;
  const std::string path_ = scratch_.child("victim");
  std::unique_ptr<Hog> hog_;
};

TEST_F(LadderTracedTest, MreleaseBringsTheMemoryBack) {
  LadderRun run(options_with(kByPidfd, std::chrono::seconds(3)));
  const Outcome outcome = run.kill(run.rank(path_));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_FALSE(outcome.exited);
  EXPECT_GE(outcome.freed, mib(57));
  int status = 0;
  ASSERT_EQ(waitpid(hog_->pid(), &status, __WALL), hog_->pid());
  EXPECT_TRUE(WIFSTOPPED(status)) << "the test is void unless the exit really lingered";
  release();
}

TEST_F(LadderTracedTest, WithoutMreleaseItIsStuck) {
  LadderRun run(options_with(features({Feature::pidfd}), std::chrono::milliseconds(100)));
  const Outcome stuck = run.kill(run.rank(path_));
  EXPECT_EQ(stuck.state, KillState::stuck) << describe(stuck);
  int status = 0;
  ASSERT_EQ(waitpid(hog_->pid(), &status, __WALL), hog_->pid());
  release();
  const Outcome late = run.next_outcome();
  EXPECT_EQ(late.state, KillState::released) << describe(late);
}

}  // namespace
}  // namespace forestall::test
