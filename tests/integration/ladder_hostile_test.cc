// SPDX-License-Identifier: Apache-2.0
// Victims that shape their own tree: deep ones, and ones that cannot be listed completely.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <memory>
#include <string>
#include <vector>

#include "integration/ladder_run.h"
#include "kernel/memcg_scan.h"
#include "support/child.h"
#include "support/own_mounts.h"
#include "support/scratch_cgroup.h"
#include "support/straddler.h"

namespace forestall::test {
namespace {

actuators::LadderOptions options(Duration release_timeout = kPatience) {
  actuators::LadderOptions options;
  options.usable = kAllOfKilling;
  options.release_timeout = release_timeout;
  return options;
}

// Regression: more than 64 levels below a workload failed the kill with ELOOP, and the agent took
// the next workload.
TEST(LadderHostile, ADeepTreeIsKilledToItsLastProcess) {
  ScratchCgroup scratch;
  const std::string path = scratch.child("victim");
  std::string name = "victim";
  for (int level = 0; level < 100; ++level) name += "/d";
  const Hog bottom(scratch, scratch.child(name), mib(8));
  for (const bool pinned : {false, true}) {
    LadderRun run(options());
    const WorkloadSample victim = run.rank(path);
    const Hog again(scratch, scratch.path() + "/" + name, mib(8));
    if (pinned) run.pin({victim});
    const Outcome outcome = run.kill(victim);
    EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
    EXPECT_EQ(outcome.processes, pinned ? 1U : 2U) << describe(outcome);
    EXPECT_FALSE(again.alive());
  }
  EXPECT_FALSE(bottom.alive());
}

// Hides a group's list from this process alone: the file now fails with EIO.
bool hide_list(const std::string& file) {
  enter_own_mounts();
  return ::mount("/proc/self/mem", file.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

// What could not be listed is no reason to spare what was, nor to leave out cgroup.kill.
TEST(LadderHostile, AnIncompleteListStillEndsWhatCanBeReached) {
  ScratchCgroup scratch;
  const std::string path = scratch.child("victim");
  const Hog listed(scratch, scratch.child("victim/listed"), mib(8));
  const Hog hidden(scratch, scratch.child("victim/hidden"), mib(8));
  Child agent([&] {
    if (!hide_list(scratch.directory(path) + "/hidden/cgroup.procs")) return 1;
    LadderRun run(options(mounts().v1 ? std::chrono::milliseconds(200) : Duration(kPatience)));
    const Outcome outcome = run.kill(run.rank(path));
    std::printf("%s\n", describe(outcome).c_str());
    const Attempt* pidfds = attempt_on(outcome, Rung::pidfds);
    if (pidfds == nullptr || !pidfds->failure || pidfds->failure->code != EIO) return 2;
    return outcome.state == (mounts().v1 ? KillState::stuck : KillState::released) ? 0 : 3;
  });
  ASSERT_TRUE(agent.wait_exit());
  const int status = agent.reap();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(listed.alive());
  EXPECT_EQ(hidden.alive(), mounts().v1) << "cgroup.kill of v2 needs no list";
}

// TSan cannot start a thread in a child of a multithreaded process.
#if !defined(__SANITIZE_THREAD__)
enum class Listing { by_files, pinned, by_kernel };

class LadderThreads : public ::testing::TestWithParam<Listing> {
 protected:
  void SetUp() override {
    if (!mounts().v1) {
      GTEST_SKIP() << "not applicable: on v2 all threads of a process share one memory cgroup; "
                      "runs on v1 hosts, as in the VM test 6.1 v1";
    }
    if (GetParam() != Listing::by_kernel) return;
    auto loaded = kernel::MemcgScan::load();
    if (!loaded.ok()) {
      GTEST_SKIP() << "not applicable: " << loaded.error().text() << "; 6.12 v2 runs this";
    }
    scan = std::move(*loaded);
    run.ladder().list_processes_by(actuators::ProcessLister(
        [this](CgroupId cgroup) { return scan->processes_in(cgroup, kernel::CgroupVersion::v1); }));
  }
  Outcome kill() {
    const WorkloadSample victim = run.rank(path);
    if (GetParam() == Listing::pinned) run.pin({victim});
    return run.kill(victim);
  }
  void protect(const std::string& group, bool with_descendants) {
    run.ladder().protect(std::make_shared<const actuators::ProtectedGroups>(
        std::vector<actuators::ProtectedGroup>{{CgroupId{}, group, with_descendants}}));
  }
  ScratchCgroup scratch;
  const std::string path = scratch.child("victim");
  const std::string other = scratch.child("other/below");
  LadderRun run{options()};
  std::unique_ptr<kernel::MemcgScan> scan;
};

// Regression: cgroup.procs of v1 lists a process if any thread is there.
TEST_P(LadderThreads, AProcessBelongsToTheGroupOfItsLeader) {
  const Hog hog(scratch, path, mib(8));
  Straddler bystander(scratch, other, path);
  const Outcome outcome = kill();
  EXPECT_EQ(outcome.processes, 1U) << describe(outcome);
  EXPECT_FALSE(hog.alive());
  EXPECT_TRUE(bystander.alive());
}

TEST_P(LadderThreads, AThreadInAnUnprotectedGroupDoesNotSpareIt) {
  Straddler victim(scratch, path, other);
  protect(scratch.path() + "/other", false);
  const Outcome outcome = kill();
  EXPECT_EQ(outcome.processes, 1U) << describe(outcome);
  EXPECT_FALSE(victim.alive());
}

TEST_P(LadderThreads, AThreadInAProtectedGroupSparesItsProcess) {
  const Hog hog(scratch, path, mib(8));
  Straddler spared(scratch, path, other);
  protect(scratch.path() + "/other", true);
  const Outcome outcome = kill();
  EXPECT_EQ(outcome.processes, 1U) << describe(outcome);
  const Attempt* pidfds = attempt_on(outcome, Rung::pidfds);
  ASSERT_TRUE(pidfds != nullptr && pidfds->failure) << describe(outcome);
  EXPECT_EQ(pidfds->failure->code, EPERM);
  EXPECT_FALSE(hog.alive());
  EXPECT_TRUE(spared.alive());
}

// Its pins are older than the thread's move.
TEST_P(LadderThreads, AThreadThatMovedAfterPinningSparesItsProcess) {
  const Hog hog(scratch, path, mib(8));
  Straddler spared(scratch, path, path);
  protect(other, false);
  const WorkloadSample victim = run.rank(path);
  if (GetParam() == Listing::pinned) run.pin({victim});
  spared.move_thread(scratch, other);
  const Outcome outcome = run.kill(victim);
  EXPECT_EQ(outcome.processes, 1U) << describe(outcome);
  EXPECT_TRUE(spared.alive());
}

INSTANTIATE_TEST_SUITE_P(Ways, LadderThreads,
                         ::testing::Values(Listing::by_files, Listing::pinned, Listing::by_kernel),
                         [](const auto& listing) {
                           switch (listing.param) {
                             case Listing::by_files: return "by_files";
                             case Listing::pinned: return "pinned";
                             default: return "by_kernel";
                           }
                         });
#endif

}  // namespace
}  // namespace forestall::test
