// SPDX-License-Identifier: Apache-2.0
// Kills of pinned processes, on real cgroups.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "integration/ladder_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test::ladder_pinned_test {
namespace {

actuators::LadderOptions options(const FeatureSet& usable = kAllOfKilling) {
  actuators::LadderOptions options;
  options.usable = usable;
  options.release_timeout = kPatience;
  return options;
}

class LadderPinned : public ::testing::Test {
 protected:
  LadderPinned() : path(scratch.child("victim")), run(options()) {}
  ScratchCgroup scratch;
  std::string path;
  LadderRun run;
};

TEST_F(LadderPinned, KillsAndReapsAllPinnedProcesses) {
  Hog first(scratch, path, mib(16));
  Hog second(scratch, path, mib(16));
  const WorkloadSample victim = run.rank(path);
  run.pin({victim});
  ASSERT_NE(run.ladder().pinned_of(victim.workload.cgroup), nullptr);
  EXPECT_EQ(run.ladder().pinned_of(victim.workload.cgroup)->processes().size(), 2u);
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 2u);
  EXPECT_GT(outcome.usage_before, mib(32));
  EXPECT_GT(outcome.freed, mib(30));
  EXPECT_TRUE(outcome.signalled);
  EXPECT_TRUE(outcome.exited);
  ASSERT_NE(attempt_on(outcome, Rung::mrelease), nullptr) << describe(outcome);
  for (const Attempt& attempt : outcome.attempts)
    EXPECT_FALSE(attempt.failure) << describe(outcome);
  EXPECT_TRUE(first.child().ended());
  EXPECT_TRUE(second.child().ended());
}

TEST_F(LadderPinned, KillsProcessesThatCameAfterPinning) {
  Hog first(scratch, path, mib(4));
  const WorkloadSample victim = run.rank(path);
  run.pin({victim});
  Hog late(scratch, path, mib(4));
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 2u) << describe(outcome);
  EXPECT_TRUE(late.child().ended());
}

TEST_F(LadderPinned, KillsMoreProcessesThanArePinned) {
  constexpr std::size_t kProcesses = 80;
  std::vector<Hog> hogs;
  hogs.reserve(kProcesses);
  while (hogs.size() < kProcesses) hogs.emplace_back(scratch, path, mib(1));
  const WorkloadSample victim = run.rank(path);
  run.pin({victim});
  const auto pinned = run.ladder().pinned_of(victim.workload.cgroup);
  ASSERT_NE(pinned, nullptr);
  ASSERT_LT(pinned->processes().size(), kProcesses);
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, kProcesses) << describe(outcome);
  for (const Hog& hog : hogs) EXPECT_FALSE(hog.alive());
}

// Without a ladder in the parent: what it forks must be able to start threads. The processes are
// more than can be pinned, so that cgroup.kill would be written at once.
TEST(LadderPinnedAgent, SurvivesInTheCgroupItEnteredAfterPinning) {
  ScratchCgroup scratch;
  const std::string path = scratch.child("victim");
  constexpr std::size_t kProcesses = 80;
  std::vector<Hog> hogs;
  hogs.reserve(kProcesses);
  while (hogs.size() < kProcesses) hogs.emplace_back(scratch, path, mib(1));
  Child agent([&] {
    LadderRun own(options());
    const WorkloadSample victim = own.rank(path);
    own.pin({victim});
    scratch.add(path, getpid());
    const Outcome outcome = own.kill(victim);
    if (attempt_on(outcome, Rung::cgroup_kill) != nullptr) return 2;
    return outcome.processes == kProcesses ? 0 : 3;
  });
  ASSERT_TRUE(agent.wait_exit());
  const int status = agent.reap();
  ASSERT_TRUE(WIFEXITED(status)) << "the agent killed itself";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (Hog& hog : hogs) EXPECT_TRUE(hog.child().wait_exit());
}

TEST_F(LadderPinned, SparesProcessesThatLeftTheCgroup) {
  Hog stays(scratch, path, mib(4));
  Hog leaves(scratch, path, mib(4));
  const WorkloadSample victim = run.rank(path);
  run.pin({victim});
  scratch.add(scratch.child("elsewhere"), leaves.pid());
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.processes, 1u) << describe(outcome);
  EXPECT_TRUE(stays.child().ended());
  EXPECT_TRUE(leaves.alive());
}

TEST_F(LadderPinned, WithoutLivePinnedProcessesItIsAnOrdinaryKill) {
  std::optional<Hog> gone(std::in_place, scratch, path, mib(4));
  const WorkloadSample victim = run.rank(path);
  run.pin({victim});
  gone.reset();
  Hog next(scratch, path, mib(4));
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 1u);
  EXPECT_TRUE(next.child().ended());
}

TEST_F(LadderPinned, ARecreatedCgroupIsNotTheVictim) {
  {
    Hog gone(scratch, path, mib(4));
    run.pin({run.rank(path)});
  }
  const WorkloadSample victim = run.rank(path);
  scratch.remove_child(path);
  scratch.child("victim");
  Hog other(scratch, path, mib(4));
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.state, KillState::failed) << describe(outcome);
  EXPECT_TRUE(other.alive());
}

TEST_F(LadderPinned, ADryRunSparesThem) {
  run.ladder().set_options([] {
    auto dry = options();
    dry.dry_run = true;
    return dry;
  }());
  Hog hog(scratch, path, mib(4));
  const WorkloadSample victim = run.rank(path);
  run.pin({victim});
  const Outcome outcome = run.kill(victim);
  EXPECT_TRUE(outcome.dry_run);
  EXPECT_TRUE(hog.alive());
}

TEST_F(LadderPinned, APoliteKillGivesThePinnedItsGracePeriod) {
  Hog hog(scratch, path, mib(4));
  const WorkloadSample victim = run.rank(path);
  run.pin({victim});
  run.ladder().begin(victim, std::chrono::seconds(60));
  EXPECT_EQ(run.progress_of(victim.workload.cgroup)->state, KillState::terminating);
}

TEST_F(LadderPinned, AnotherListAndReleasingCloseTheDescriptors) {
  Hog hog(scratch, path, mib(4));
  const WorkloadSample victim = run.rank(path);
  const WorkloadSample other = run.rank(scratch.child("other"));
  run.pin({victim, other});
  const std::weak_ptr<const actuators::PinnedProcesses> first =
      run.ladder().pinned_of(victim.workload.cgroup);
  EXPECT_FALSE(first.expired());
  run.pin({victim});
  EXPECT_EQ(run.ladder().pinned_of(victim.workload.cgroup), first.lock()) << "they are current";
  EXPECT_EQ(run.ladder().pinned_of(other.workload.cgroup), nullptr);
  run.ladder().release_pins();
  EXPECT_TRUE(first.expired());
}

// A pin has the protected groups of the time when it was taken.
TEST_F(LadderPinned, OtherProtectedGroupsReleaseThePins) {
  Hog hog(scratch, path, mib(4));
  const WorkloadSample victim = run.rank(path);
  const auto protect = [&](std::vector<actuators::ProtectedGroup> groups) {
    run.ladder().protect(std::make_shared<const actuators::ProtectedGroups>(std::move(groups)));
  };
  protect({});
  run.pin({victim});
  protect({});
  EXPECT_NE(run.ladder().pinned_of(victim.workload.cgroup), nullptr);
  protect({{victim.workload.cgroup, path}});
  EXPECT_EQ(run.ladder().pinned_of(victim.workload.cgroup), nullptr);
}

// Another thread killed first: the outcome describes the whole kill.
TEST_F(LadderPinned, AKillThatWasSignalledIsCompleted) {
  Hog hog(scratch, path, mib(32));
  const WorkloadSample victim = run.rank(path);
  const MonotonicTime at = SystemClock().now();
  kill(hog.pid(), SIGKILL);
  ASSERT_TRUE(hog.child().wait_exit());
  run.ladder().complete(victim, {at, 1, mib(33)});
  const Outcome outcome = run.next_outcome();
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.signalled, at);
  EXPECT_EQ(outcome.processes, 1u);
  EXPECT_EQ(outcome.usage_before, mib(33));
  EXPECT_GT(outcome.freed, mib(28));
}

// A process leaves cgroup.procs when its end begins, long before it has freed half a gigabyte.
TEST_F(LadderPinned, ADyingVictimCountsUntilItsMemoryIsBack) {
  for (const bool pinned : {true, false}) {
    Hog hog(scratch, path, mib(512));
    const WorkloadSample victim = run.rank(path);
    if (pinned) run.pin({victim});
    const MonotonicTime at = SystemClock().now();
    kill(hog.pid(), SIGKILL);
    while (!scratch.read(path, "cgroup.procs").empty()) {
    }
    ASSERT_TRUE(run.ladder().complete(victim, {at, 1, mib(513)}));
    const auto progress = run.progress_of(victim.workload.cgroup);
    ASSERT_TRUE(progress) << "the policy counts it";
    const Outcome outcome = run.next_outcome();
    EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
    EXPECT_EQ(outcome.signalled, at);
    EXPECT_GT(outcome.freed, mib(450)) << describe(outcome);
    EXPECT_TRUE(hog.child().wait_exit());
    run.ladder().release_pins();
  }
}

// The loop was about to kill it when another thread did: one kill, one outcome, the first signal.
TEST_F(LadderPinned, DoesNotRestartAKillUnderWay) {
  Hog hog(scratch, path, mib(32));
  const WorkloadSample victim = run.rank(path);
  const MonotonicTime at = SystemClock().now();
  run.ladder().begin(victim);
  EXPECT_FALSE(run.ladder().complete(victim, {at, 1, mib(1)}));
  const Outcome outcome = run.next_outcome();
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.signalled, at);
  EXPECT_GT(outcome.usage_before, mib(28)) << "it grew since the list was made";
  EXPECT_GT(outcome.freed, mib(28));
  EXPECT_TRUE(run.ladder().take_outcomes().empty());
}

}  // namespace
}  // namespace forestall::test::ladder_pinned_test
