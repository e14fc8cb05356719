// SPDX-License-Identifier: Apache-2.0
// The kill ladder on real cgroups and processes of this machine: what it kills, what it spares, and
// what the outcome reports.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "integration/ladder_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using actuators::LadderOptions;

LadderOptions options_with(const FeatureSet& usable) {
  LadderOptions options;
  options.usable = usable;
  options.release_timeout = std::chrono::seconds(20);  // the load of the machine is not under test
  return options;
}

void expect_killed(const Outcome& outcome, Bytes at_least) {
  SCOPED_TRACE(describe(outcome));
  EXPECT_EQ(outcome.state, KillState::released);
  EXPECT_FALSE(outcome.dry_run);
  EXPECT_GE(outcome.usage_before, at_least);
  EXPECT_GE(outcome.freed, at_least);
  ASSERT_TRUE(outcome.signalled);
  ASSERT_TRUE(outcome.exited);
  ASSERT_TRUE(outcome.released);
  EXPECT_LE(outcome.began, *outcome.signalled);
  EXPECT_LE(*outcome.signalled, *outcome.exited);
  EXPECT_LE(*outcome.signalled, *outcome.released);
}

struct Way {
  std::string name;
  FeatureSet usable;
};

class LadderKillTest : public ::testing::TestWithParam<Way> {};

TEST_P(LadderKillTest, OneProcess) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  const auto other = scratch.child("other");
  Hog hog(scratch, path, mib(64));
  Hog bystander(scratch, other, mib(4));
  LadderRun run(options_with(GetParam().usable));
  const auto victim = run.rank(path);
  const Outcome outcome = run.kill(victim);
  expect_killed(outcome, mib(60));
  EXPECT_EQ(outcome.processes, 1U) << describe(outcome);
  // cgroup.kill comes after the pidfds, from another thread, and is still reported.
  EXPECT_NE(attempt_on(outcome, Rung::sigkill), nullptr) << describe(outcome);
  const Attempt* by_cgroup = attempt_on(outcome, Rung::cgroup_kill);
  const bool expected = GetParam().usable.test(static_cast<std::size_t>(Feature::cgroup_kill)) &&
                        !mounts().unified.empty();
  // Of a hybrid host's v2 group it must list the process, which may have ended before.
  if (mounts().v1) {
    EXPECT_TRUE(expected || by_cgroup == nullptr) << describe(outcome);
  } else {
    EXPECT_EQ(by_cgroup != nullptr, expected) << describe(outcome);
  }
  EXPECT_FALSE(by_cgroup != nullptr && by_cgroup->failure) << describe(outcome);
  // A scan for processes that were forked meanwhile found none, and is no attempt.
  EXPECT_LE(attempt_on(outcome, Rung::pidfds)->at, *outcome.exited) << describe(outcome);
  EXPECT_FALSE(hog.alive());
  EXPECT_TRUE(bystander.alive());
  const auto progress = run.progress_of(victim.workload.cgroup);
  ASSERT_TRUE(progress) << "a released kill is listed while its cgroup is there";
  EXPECT_EQ(progress->state, KillState::released);
  EXPECT_EQ(progress->remaining, Bytes{0});
}

TEST_P(LadderKillTest, SixtyFourProcessesInSubgroups) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  std::vector<Hog> hogs;
  hogs.reserve(64);
  for (int i = 0; i < 64; ++i) {
    // On v2 only leaves may hold processes once a controller is enabled for the children.
    hogs.emplace_back(scratch, scratch.child("victim/part" + std::to_string(i % 4)), mib(1));
  }
  LadderRun run(options_with(GetParam().usable));
  const Outcome outcome = run.kill(run.rank(path));
  expect_killed(outcome, mib(60));
  EXPECT_EQ(outcome.processes, 64U) << describe(outcome);
  for (const Hog& hog : hogs) EXPECT_FALSE(hog.alive());
}

INSTANTIATE_TEST_SUITE_P(Ways, LadderKillTest,
                         ::testing::Values(Way{"everything", kAllOfKilling},
                                           Way{"no_cgroup_kill", kByPidfd},
                                           Way{"pidfd_alone", features({Feature::pidfd})},
                                           Way{"cgroup_kill_and_pidfd",
                                               features({Feature::cgroup_kill, Feature::pidfd})}),
                         [](const auto& way) { return way.param.name; });

TEST(LadderCgroupKill, WorksWithoutPidfds) {
  ScratchCgroup scratch;
  if (mounts().unified.empty()) GTEST_FAIL() << "this test needs a cgroup2 mount";
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(32));
  LadderRun run(options_with(features({Feature::cgroup_kill})));
  const Outcome outcome = run.kill(run.rank(path));
  expect_killed(outcome, mib(30));
  EXPECT_NE(attempt_on(outcome, Rung::cgroup_kill), nullptr) << describe(outcome);
  EXPECT_EQ(attempt_on(outcome, Rung::sigkill), nullptr) << describe(outcome);
}

TEST(LadderCgroupKill, IsNotUsedIfTheV2CgroupHasOtherProcesses) {
  if (!mounts().v1)
    GTEST_SKIP() << "not applicable: hybrid hosts only; v2 runs ladder_cases.cc in the VMs";
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(16));
  // In the cgroup2 group of that path, but in no memory group.
  Child stranger([] {
    for (;;) pause();
    return 0;
  });
  std::ofstream(scratch.unified_directory(path) + "/cgroup.procs") << stranger.pid() << std::flush;
  LadderRun run(options_with(kAllOfKilling));
  const Outcome outcome = run.kill(run.rank(path));
  expect_killed(outcome, mib(15));
  EXPECT_EQ(attempt_on(outcome, Rung::cgroup_kill), nullptr) << describe(outcome);
  EXPECT_FALSE(stranger.ended());
}

TEST(LadderSpares, AVictimThatExitedByItself) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(8));
  LadderRun run(options_with(kAllOfKilling));
  const auto victim = run.rank(path);
  hog.child().reap();
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.state, KillState::failed) << describe(outcome);
  const Attempt* pidfds = attempt_on(outcome, Rung::pidfds);
  ASSERT_TRUE(pidfds != nullptr && pidfds->failure) << describe(outcome);
  EXPECT_EQ(pidfds->failure->code, ESRCH);
  EXPECT_EQ(outcome.processes, 0U);
  EXPECT_FALSE(outcome.signalled);
  EXPECT_TRUE(run.ladder().progress().empty()) << "a restarted workload can be killed at once";
}

// What the guard or the watchdog killed counts as their kill, although nothing is left to signal.
TEST(LadderSpares, AVictimThatAnotherPartHasKilled) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(8));
  LadderRun run(options_with(kAllOfKilling));
  const auto victim = run.rank(path);
  hog.child().reap();
  ASSERT_TRUE(run.ladder().complete(victim, {SystemClock().now(), 1, mib(8)}));
  const Outcome outcome = run.next_outcome();
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 1U);
  EXPECT_GE(outcome.freed, mib(7));
  const auto progress = run.progress_of(victim.workload.cgroup);
  ASSERT_TRUE(progress) << "the policy counts it";
  EXPECT_EQ(progress->state, KillState::released);
  EXPECT_GE(progress->freed, mib(7));
}

TEST(LadderSpares, AVictimThatAnotherPartHasKilledAndWhoseCgroupIsGone) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  LadderRun run(options_with(kAllOfKilling));
  const auto victim = run.rank(path);
  scratch.remove_child(path);
  ASSERT_TRUE(run.ladder().complete(victim, {SystemClock().now(), 1, mib(8)}));
  const Outcome outcome = run.next_outcome();
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.freed, mib(8));
  EXPECT_TRUE(run.progress_of(victim.workload.cgroup)) << "the policy counts it";
}

TEST(LadderSpares, ACgroupThatWasMadeAgainUnderThePath) {
  ScratchCgroup scratch;
  auto path = scratch.child("victim");
  LadderRun run(options_with(kAllOfKilling));
  const auto ranked = run.rank(path);
  scratch.remove_child(path);
  path = scratch.child("victim");
  Hog newcomer(scratch, path, mib(8));
  const Outcome outcome = run.kill(ranked);
  EXPECT_EQ(outcome.state, KillState::failed) << describe(outcome);
  const Attempt* verify = attempt_on(outcome, Rung::verify);
  ASSERT_NE(verify, nullptr);
  ASSERT_TRUE(verify->failure);
  EXPECT_EQ(verify->failure->code, ESTALE);
  EXPECT_TRUE(newcomer.alive());
  EXPECT_TRUE(run.ladder().progress().empty()) << "the ranked cgroup is gone: nothing to remember";
}

TEST(LadderSpares, ACgroupThatIsGone) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  LadderRun run(options_with(kAllOfKilling));
  const auto ranked = run.rank(path);
  scratch.remove_child(path);
  const Outcome outcome = run.kill(ranked);
  EXPECT_EQ(outcome.state, KillState::failed) << describe(outcome);
  ASSERT_TRUE(attempt_on(outcome, Rung::verify)->failure);
  EXPECT_EQ(attempt_on(outcome, Rung::verify)->failure->code, ENOENT);
}

TEST(LadderSpares, AProcessThatWasMovedOut) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  const auto refuge = scratch.child("refuge");
  Hog leaver(scratch, path, mib(4));
  Hog stayer(scratch, path, mib(16));
  LadderRun run(options_with(kAllOfKilling));
  const auto victim = run.rank(path);
  scratch.add(refuge, leaver.pid());
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 1U);
  EXPECT_TRUE(leaver.alive());
  EXPECT_FALSE(stayer.alive());
}

TEST(LadderSpares, TheRootCgroup) {
  LadderRun run(options_with(kAllOfKilling));
  const Outcome outcome = run.kill(run.rank("/"));
  EXPECT_EQ(outcome.state, KillState::failed);
  EXPECT_EQ(outcome.processes, 0U);
  ASSERT_TRUE(attempt_on(outcome, Rung::verify)->failure);
  EXPECT_EQ(attempt_on(outcome, Rung::verify)->failure->code, EPERM);
}

TEST(LadderDryRun, KillsNothingAndIsNotRepeated) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(8));
  auto options = options_with(kAllOfKilling);
  options.dry_run = true;
  LadderRun run(options);
  auto victim = run.rank(path);
  victim.inactive_file = mib(3);
  const Outcome outcome = run.kill(victim);
  EXPECT_TRUE(outcome.dry_run);
  EXPECT_EQ(outcome.state, KillState::in_flight);
  EXPECT_EQ(outcome.processes, 0U);
  EXPECT_FALSE(outcome.signalled);
  EXPECT_EQ(attempt_on(outcome, Rung::pidfds)->processes, 1U);
  EXPECT_TRUE(hog.alive());
  const auto progress = run.progress_of(victim.workload.cgroup);
  ASSERT_TRUE(progress) << "the policy must see that this was decided already";
  EXPECT_EQ(progress->state, KillState::in_flight);
  EXPECT_GE(outcome.usage_before, mib(8));
  EXPECT_EQ(progress->remaining, outcome.usage_before - mib(3))
      << "credited as the real kill would be, or the next candidate follows at once";
}

// Otherwise every later leak within half a minute has the reason release-pending.
TEST(LadderDryRun, IsOverOnceTheVictimReturnedItsMemory) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  auto options = options_with(kAllOfKilling);
  options.dry_run = true;
  LadderRun run(options);
  std::optional<Hog> hog(std::in_place, scratch, path, mib(32));
  const Outcome outcome = run.kill(run.rank(path));
  const CgroupId cgroup = outcome.victim.cgroup;
  EXPECT_EQ(run.progress_of(cgroup)->state, KillState::in_flight);
  hog.reset();
  ASSERT_TRUE(
      run.turn_until([&] { return run.progress_of(cgroup)->state != KillState::in_flight; }));
  const auto progress = run.progress_of(cgroup);
  EXPECT_EQ(progress->state, KillState::released);
  EXPECT_EQ(progress->remaining, Bytes{0});
  EXPECT_GE(progress->freed, mib(16)) << "it counts as a kill that freed what it should";
  EXPECT_TRUE(run.outcomes().empty()) << "it has one outcome";
}

// Moves itself into the victim, so that the agent is one of its own victims.
TEST(LadderSpares, TheAgentItselfAndItsParents) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(8));
  Child agent([&] {
    scratch.add(path, getpid());
    LadderRun run(options_with(kAllOfKilling));
    const Outcome outcome = run.kill(run.rank(path));
    const Attempt* pidfds = attempt_on(outcome, Rung::pidfds);
    // Its memory cannot be released, because the agent is part of it; it holds next to nothing.
    if (outcome.processes != 1 || !pidfds->failure) return 2;
    if (attempt_on(outcome, Rung::cgroup_kill) != nullptr) return 3;
    return pidfds->failure->message.find("is this agent") != std::string::npos ? 0 : 4;
  });
  ASSERT_TRUE(agent.wait_exit());
  const int status = agent.reap();
  ASSERT_TRUE(WIFEXITED(status)) << "the agent killed itself";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(hog.child().wait_exit());
}

TEST(LadderQueue, CountsAFullReaperQueueAndContinuesTheKill) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  std::vector<Hog> hogs;
  hogs.reserve(24);
  for (int i = 0; i < 24; ++i) hogs.emplace_back(scratch, path, mib(2));
  auto options = options_with(kByPidfd);
  options.reaper_threads = 1;
  options.reaper_queue_max = 1;
  LadderRun run(options);
  const Outcome outcome = run.kill(run.rank(path));
  expect_killed(outcome, mib(40));
  const Attempt* mrelease = attempt_on(outcome, Rung::mrelease);
  ASSERT_NE(mrelease, nullptr);
  ASSERT_TRUE(mrelease->failure) << describe(outcome);
  EXPECT_EQ(mrelease->failure->code, EAGAIN);
}

TEST(LadderWarmUp, KillsOnlyItsOwnChild) {
  ScratchCgroup scratch;
  const auto path = scratch.child("agent");
  Hog neighbour(scratch, path, mib(4));
  Child agent([&] {
    scratch.add(path, getpid());
    LadderRun run(options_with(kAllOfKilling));
    const auto warmed = run.ladder().warm_up();
    if (!warmed.ok()) return 2;
    if (!run.ladder().progress().empty() || !run.ladder().take_outcomes().empty()) return 3;
    return 0;
  });
  ASSERT_TRUE(agent.wait_exit());
  EXPECT_EQ(agent.reap(), 0);
  EXPECT_TRUE(neighbour.alive());
}

}  // namespace
}  // namespace forestall::test
