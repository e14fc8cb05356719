// SPDX-License-Identifier: Apache-2.0
// Kills whose processes the kernel's own lists name (actuators/first_blow.h), on real cgroups.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "integration/ladder_run.h"
#include "kernel/memcg_scan.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/straddler.h"

namespace forestall::test {
namespace {

class LadderListed : public testing::Test {
 protected:
  LadderListed() : run_({.usable = kAllOfKilling, .release_timeout = std::chrono::seconds(20)}) {
    auto scan = kernel::MemcgScan::load();
    if (!scan.ok()) {
      refused_ = scan.error().text();
      return;
    }
    scan_ = std::move(*scan);
    run_.ladder().list_processes_by(lister());
  }
  actuators::ProcessLister lister() {
    return actuators::ProcessLister(
        [this](CgroupId cgroup) {
          auto listed = scan_->processes_in(cgroup, run_.tree().version());
          if (listed.ok()) ++lists_;
          if (listed.ok() && missed_) miss(*listed);
          return listed;
        },
        mounts().v1 ? [this] { return scan_->listed_path(); } : actuators::ProcessLister::Path());
  }
  void SetUp() override {
    if (!scan_) GTEST_SKIP() << "not applicable: " << refused_ << "; runs in the guests";
  }
  // With its usage, as the agent's samples have it.
  WorkloadSample rank(const std::string& path) {
    WorkloadSample sample = run_.rank(path);
    sample.usage = scratch_.usage(path);
    sample.inactive_file = Bytes{0};
    return sample;
  }

  // As if the process moved between the kernel's lists in each pass, until some found no other.
  void miss(std::vector<kernel::ListedProcess>& listed) {
    std::erase_if(listed, [&](const auto& process) { return process.pid == *missed_; });
    if (listed.empty() && --empty_lists_ == 0) missed_.reset();
  }

  ScratchCgroup scratch_;
  LadderRun run_;
  std::unique_ptr<kernel::MemcgScan> scan_;
  std::string refused_;  // why there is none
  int lists_ = 0;
  std::optional<pid_t> missed_;
  int empty_lists_ = 1;
};

TEST_F(LadderListed, EndsTheVictimAndNothingElse) {
  const auto path = scratch_.child("victim");
  const Hog hog(scratch_, scratch_.child("victim/a"), mib(64));
  const Hog below(scratch_, scratch_.child("victim/b"), mib(1));
  const Hog bystander(scratch_, scratch_.child("other"), mib(4));
  const Outcome outcome = run_.kill(rank(path));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_GE(outcome.freed, mib(60)) << describe(outcome);
  EXPECT_EQ(outcome.processes, 2U) << describe(outcome);
  EXPECT_EQ(attempt_on(outcome, Rung::pidfds)->processes, 2U) << describe(outcome);
  EXPECT_LE(attempt_on(outcome, Rung::pidfds)->at, *outcome.signalled);
  EXPECT_EQ(attempt_on(outcome, Rung::sigkill)->at, *outcome.signalled);
  EXPECT_GE(lists_, 3) << "two before the first signal, and those of the sweep";
  EXPECT_FALSE(hog.alive() || below.alive());
  EXPECT_TRUE(bystander.alive());
}

TEST_F(LadderListed, EndsMoreThanTheFirstBlowReaches) {
  const auto path = scratch_.child("victim");
  std::vector<Hog> hogs;
  hogs.reserve(100);
  for (int i = 0; i < 100; ++i) hogs.emplace_back(scratch_, path, mib(1));
  const Outcome outcome = run_.kill(rank(path));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  for (const Hog& hog : hogs) EXPECT_FALSE(hog.alive());
}

// Neither before the first signal nor after it: the path leads nowhere.
TEST_F(LadderListed, NothingOfAHeldCgroupIsOpened) {
  const auto path = scratch_.child("victim");
  std::vector<Hog> hogs;
  hogs.reserve(100);
  for (int i = 0; i < 100; ++i) hogs.emplace_back(scratch_, path, mib(1));
  WorkloadSample victim = rank(path);
  run_.hold(path);
  victim.workload.path += "-renamed";
  const Outcome outcome = run_.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 100U) << describe(outcome);
  EXPECT_GE(outcome.freed, mib(60)) << describe(outcome);
  EXPECT_FALSE(attempt_on(outcome, Rung::verify)->failure) << describe(outcome);
  EXPECT_LE(attempt_on(outcome, Rung::verify)->at, *outcome.signalled);
  for (const Hog& hog : hogs) EXPECT_FALSE(hog.alive());
}

// As after the memory controller was off and on again, the file reads ENODEV, while the cgroup and
// its processes are still there.
TEST_F(LadderListed, AHeldUsageFileThatIsLostShowsNoMemoryAsFreed) {
  const auto path = scratch_.child("victim");
  const Hog hog(scratch_, path, mib(32));
  const auto other = scratch_.child("other");
  run_.hold(path, other);
  ASSERT_TRUE(std::filesystem::remove(scratch_.directory(other)));
  const Outcome outcome = run_.kill(rank(path));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.freed, Bytes{0}) << describe(outcome);
  EXPECT_FALSE(hog.alive());
}

// The path of the list before could be that of another victim.
TEST_F(LadderListed, AListThatIsRefusedHasNoPath) {
  const auto path = scratch_.child("victim");
  const Hog hog(scratch_, path, mib(1));
  const CgroupId victim = rank(path).workload.cgroup;
  const auto list = [&] { return scan_->processes_in(victim, run_.tree().version()); };
  ASSERT_TRUE(run_.turn_until([&] { return list().ok(); }));
  EXPECT_EQ(scan_->listed_path(), mounts().v1 ? std::optional(path) : std::nullopt);
  int code = 0;
  // Until the passes for lists are used up, as nothing renews them.
  for (int i = 0; i < 2 * ABI_MEMCG_RUNS && code != EBUSY; ++i) {
    const auto listed = list();
    code = listed.ok() ? 0 : listed.error().code;
  }
  EXPECT_EQ(code, EBUSY);
  EXPECT_FALSE(scan_->listed_path());
}

// The directory of a cgroup that is not held is opened after the first signal.
TEST_F(LadderListed, TheFirstSignalNeedsNoPath) {
  const auto path = scratch_.child("victim");
  Hog hog(scratch_, path, mib(8));
  WorkloadSample victim = rank(path);
  victim.workload.path += "-renamed";
  const Outcome outcome = run_.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_TRUE(outcome.signalled) << describe(outcome);
  EXPECT_TRUE(outcome.exited) << describe(outcome);
  EXPECT_EQ(outcome.freed, Bytes{0}) << "unknown is not freed";
  EXPECT_TRUE(attempt_on(outcome, Rung::verify)->failure) << describe(outcome);
  EXPECT_TRUE(hog.child().wait_exit());
}

// More than one blow reaches, and no file of the cgroup can be opened.
TEST_F(LadderListed, WithoutThePathEveryProcessIsSignalledAndAwaited) {
  const auto path = scratch_.child("victim");
  std::vector<Hog> hogs;
  hogs.reserve(100);
  for (int i = 0; i < 100; ++i) hogs.emplace_back(scratch_, path, mib(1));
  WorkloadSample victim = rank(path);
  victim.workload.path += "-renamed";
  const Outcome outcome = run_.kill(victim);
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 100U) << describe(outcome);
  EXPECT_EQ(outcome.freed, Bytes{0}) << describe(outcome);
  for (const Hog& hog : hogs) EXPECT_FALSE(hog.alive());
}

TEST_F(LadderListed, AProcessThatOneEmptyListMissesIsEnded) {
  const auto path = scratch_.child("victim");
  const Hog hog(scratch_, path, mib(8));
  Hog moving(scratch_, path, mib(1));
  missed_ = moving.child().pid();
  const Outcome outcome = run_.kill(rank(path));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_FALSE(hog.alive() || moving.alive());
}

TEST_F(LadderListed, AVictimIsNotEmptyForOneEmptyList) {
  const auto path = scratch_.child("victim");
  Hog moving(scratch_, path, mib(8));
  missed_ = moving.child().pid();
  empty_lists_ = 2;  // the first one is that of first_blow.h
  const Outcome outcome = run_.kill(rank(path));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_EQ(outcome.processes, 1U) << describe(outcome);
  EXPECT_FALSE(moving.alive());
}

// TSan cannot start a thread in a child of a multithreaded process.
#if !defined(__SANITIZE_THREAD__)
// No file of the victim can be opened. Regression: each process with threads needed them.
TEST_F(LadderListed, ThreadsInTheGroupOfTheirLeaderNeedNoFile) {
  if (!mounts().v1)
    GTEST_SKIP() << "not applicable: v2 keeps the threads of a process together; 6.1 v1 runs this";
  const auto path = scratch_.child("victim");
  const Straddler process(scratch_, path, path);
  run_.ladder().protect(std::make_shared<const actuators::ProtectedGroups>(
      std::vector<actuators::ProtectedGroup>{{CgroupId{}, scratch_.child("other"), true}}));
  WorkloadSample victim = rank(path);
  victim.workload.path += "-renamed";
  const Outcome outcome = run_.kill(victim);
  EXPECT_EQ(outcome.processes, 1U) << describe(outcome);
  EXPECT_TRUE(process.wait_exit());
}
#endif

TEST_F(LadderListed, ACgroupThatWasMadeAgainIsSpared) {
  const auto path = scratch_.child("victim");
  const WorkloadSample victim = rank(path);
  scratch_.remove_child(path);
  const Hog hog(scratch_, scratch_.child("victim"), mib(8));
  const Outcome outcome = run_.kill(victim);
  EXPECT_EQ(outcome.state, KillState::failed) << describe(outcome);
  EXPECT_FALSE(outcome.signalled) << describe(outcome);
  EXPECT_TRUE(hog.alive());
}

// TSan cannot start a thread in a child of a multithreaded process.
#if !defined(__SANITIZE_THREAD__)
// Its victim is the cgroup of the agent, which cgroup.kill would end too.
TEST_F(LadderListed, TheWarmUpEndsItsOwnChildOnly) {
  const auto path = scratch_.child("agent");
  const Hog neighbour(scratch_, path, mib(4));
  Child agent([&] {
    scratch_.add(path, ::getpid());
    LadderRun own({.usable = kAllOfKilling});
    own.ladder().list_processes_by(lister());
    const bool warmed = own.ladder().warm_up().ok();
    return warmed && lists_ >= 2 && own.ladder().take_outcomes().empty() ? 0 : 1;
  });
  ASSERT_TRUE(agent.wait_exit());
  EXPECT_EQ(agent.reap(), 0);
  EXPECT_TRUE(neighbour.alive());
}
#endif

// The parent is renamed, for the victim to have another path too.
TEST_F(LadderListed, ARenamedVictimIsSparedWhereARuleMayProtectIt) {
  if (!mounts().v1)
    GTEST_SKIP() << "not applicable: a cgroup of v2 cannot be renamed; 6.1 v1 runs this";
  const auto parent = scratch_.child("parent");
  const auto path = scratch_.child("parent/victim");
  Hog hog(scratch_, path, mib(8));
  const WorkloadSample victim = rank(path);
  const auto protect = [&](const std::string& glob) {
    run_.ladder().protect(std::make_shared<const actuators::ProtectedGroups>(
        std::vector<actuators::ProtectedGroup>(), std::vector<std::string>{glob}));
  };
  run_.hold(path);
  std::filesystem::rename(scratch_.directory(parent), scratch_.directory(parent) + "-renamed");
  protect(parent + "-*/victim");
  const Outcome spared = run_.kill(victim);
  EXPECT_EQ(spared.state, KillState::failed) << describe(spared);
  EXPECT_TRUE(hog.alive());
  protect("/another");
  const Outcome killed = run_.kill(victim);
  std::filesystem::rename(scratch_.directory(parent) + "-renamed", scratch_.directory(parent));
  EXPECT_EQ(killed.state, KillState::released) << describe(killed);
  EXPECT_TRUE(hog.child().wait_exit());
}

TEST_F(LadderListed, ADryRunSignalsNothing) {
  const auto path = scratch_.child("victim");
  const Hog hog(scratch_, path, mib(8));
  run_.ladder().set_options({.dry_run = true, .usable = kAllOfKilling});
  const Outcome outcome = run_.kill(rank(path));
  EXPECT_TRUE(outcome.dry_run);
  EXPECT_FALSE(outcome.signalled) << describe(outcome);
  EXPECT_TRUE(hog.alive());
}

}  // namespace
}  // namespace forestall::test
