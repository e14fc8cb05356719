// SPDX-License-Identifier: Apache-2.0
// Process snapshots of cgroups that are plain files, so that they can list any pid: init, this
// process, pids without a process. Sends only signal 0.
#include "actuators/process_snapshot.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

using kernel::CgroupDir;
using test::Child;
using test::TempTree;

int live_snapshots() {
  for (;;) pause();
  return 0;
}

std::string line(pid_t pid) {
  return std::to_string(pid) + "\n";
}

struct World {
  explicit World(const std::string& procs) : tree{{"victim/cgroup.procs", procs}} {}
  Result<ProcessSnapshot> call(std::vector<pid_t> known = {}, Pinning pinning = Pinning::by_pidfd,
                               std::optional<pid_t> only = std::nullopt) const {
    const UniqueFd root(open(tree.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return take_process_snapshot(*CgroupDir::open(root.get(), "/victim"),
                                 NeverKill::of_this_process(), known, pinning, only);
  }
  TempTree tree;
};

TEST(ProcessSnapshot, PinsLiveProcessesAndDropsDeadOnes) {
  const Child child(live_snapshots);
  pid_t gone = 0;
  {
    const Child short_lived([] { return 0; });
    gone = short_lived.pid();
  }
  const World world(line(child.pid()) + line(gone));
  const auto snapshot = world.call();
  ASSERT_TRUE(snapshot.ok());
  ASSERT_EQ(snapshot->found.size(), 1U);
  EXPECT_EQ(snapshot->found[0].id().pid, child.pid());
  EXPECT_EQ(snapshot->refused, 0U);
  EXPECT_EQ(snapshot->unpinned, 0U);
  EXPECT_FALSE(snapshot->quiet);
  EXPECT_TRUE(world.call({child.pid(), gone})->quiet);
}

// Regression: all processes exited while they were opened, and the kill of an emptied cgroup was
// reported as failed. A sweep that found only dead processes took the cgroup for settled, although
// they had forked meanwhile.
TEST(ProcessSnapshot, IsNotSettledIfAProcessExitedDuringTheOpen) {
  pid_t gone = 0;
  {
    const Child short_lived([] { return 0; });
    gone = short_lived.pid();
  }
  const auto snapshot = World(line(gone)).call();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_TRUE(snapshot->found.empty());
  EXPECT_FALSE(snapshot->quiet);
}

TEST(ProcessSnapshot, RefusesInitItselfAndItsAncestors) {
  const World world(line(1) + line(getpid()) + line(getppid()));
  for (const Pinning pinning : {Pinning::by_pidfd, Pinning::none}) {
    const auto snapshot = world.call({}, pinning);
    ASSERT_TRUE(snapshot.ok());
    EXPECT_TRUE(snapshot->found.empty());
    EXPECT_TRUE(snapshot->quiet);
    EXPECT_EQ(snapshot->refused, getppid() == 1 ? 2U : 3U);
    ASSERT_TRUE(snapshot->refusal);
    EXPECT_NE(snapshot->refusal->message.find("is init"), std::string::npos);
  }
}

TEST(ProcessSnapshot, OpensOnlyNewProcesses) {
  const Child first(live_snapshots), second(live_snapshots);
  const World world(line(first.pid()) + line(second.pid()) + line(second.pid()));
  const auto snapshot = world.call({first.pid()});
  ASSERT_TRUE(snapshot.ok());
  ASSERT_EQ(snapshot->found.size(), 1U);
  EXPECT_EQ(snapshot->found[0].id().pid, second.pid());
  EXPECT_EQ(snapshot->present.size(), 2U) << "listed twice is still one process";
}

TEST(ProcessSnapshot, ListsOnlyTheProcessItIsRestrictedTo) {
  const Child wanted(live_snapshots), other(live_snapshots);
  const World world(line(wanted.pid()) + line(other.pid()));
  const auto snapshot = world.call({}, Pinning::by_pidfd, wanted.pid());
  ASSERT_TRUE(snapshot.ok());
  ASSERT_EQ(snapshot->found.size(), 1U);
  EXPECT_EQ(snapshot->found[0].id().pid, wanted.pid());
  EXPECT_EQ(snapshot->present.size(), 1U);
}

TEST(ProcessSnapshot, WithoutPidfdsOnlyCounts) {
  const Child child(live_snapshots);
  const World world(line(child.pid()));
  const auto snapshot = world.call({}, Pinning::none);
  ASSERT_TRUE(snapshot.ok());
  EXPECT_TRUE(snapshot->found.empty());
  EXPECT_EQ(snapshot->present.size(), 1U);
}

TEST(NeverKill, RecognizesKernelThreadsAndReusedPids) {
  const auto never_kill = NeverKill::of_this_process();
  const auto parent = kernel::read_process_id(getppid());
  ASSERT_TRUE(parent.ok());
  if (parent->pid != 1) {
    EXPECT_EQ(never_kill.why_not(*parent, false), "is an ancestor of this agent");
    EXPECT_EQ(never_kill.why_not({parent->pid, parent->start_ticks + 1}, false), "");
  }
  EXPECT_EQ(never_kill.why_not({12345, 1}, true), "is a kernel thread");
  EXPECT_EQ(never_kill.why_not({1, 0}, false), "is init");
  EXPECT_EQ(never_kill.why_not({getpid(), 0}, false), "is this agent");
}

}  // namespace
}  // namespace forestall::actuators
