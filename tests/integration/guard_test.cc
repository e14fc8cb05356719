// SPDX-License-Identifier: Apache-2.0
// The guard's programs on the running kernel, with lists made by the test: which processes they
// kill and which not. Runs on the host (memcg v1) and in the VMs. Kernels before 6.13 can only
// signal the running process; the victims here allocate, so they are killed there as well.
#include "kernel/guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "guard_fixture.h"
#include "kernel/cgroup_tree.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/scratch_filesystem.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using kernel::GuardList;
using kernel::GuardPrograms;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using GuardTest = GuardFixture;

// TSan cannot start a thread in a child of a multithreaded process.
#if !defined(__SANITIZE_THREAD__)
std::array<UniqueFd, 2> pipe_ends() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A process whose leader exits on command and leaves a thread running.
class Leaderless {
 public:
  Leaderless() : child_([this] { return run(); }) {}
  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] Child& child() { return child_; }
  // Returns when the thread has seen its leader end.
  [[nodiscard]] bool let_leader_exit() const {
    char word = 0;
    return ::write(command_[1].get(), &word, 1) == 1 && ::read(reply_[0].get(), &word, 1) == 1;
  }

 private:
  int run() const {
    char word = 0;
    if (::read(command_[0].get(), &word, 1) != 1) return 1;
    std::thread([this] {
      while (!leader_has_ended()) sched_yield();
      const char ended = 1;
      if (::write(reply_[1].get(), &ended, 1) != 1) return;
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);
    return 0;
  }
  static bool leader_has_ended() {
    const std::string stat = read_text(fmt::format("/proc/self/task/{}/stat", ::getpid()));
    return stat.find(") Z ") != std::string::npos;
  }

  // Declaration order matters: the pipes exist before the fork.
  std::array<UniqueFd, 2> command_ = pipe_ends(), reply_ = pipe_ends();
  Child child_;
};
#endif

TEST_F(GuardTest, KillsTheApprovedVictimAndReportsIt) {
  const std::string leaking = scratch_.child("leaking");
  const std::string calm = scratch_.child("calm");
  const Hog bystander(scratch_, calm, kCalm);
  Hog hog(scratch_, leaking, kCalm);
  const pid_t pid = hog.pid();
  arm(list({approve(hog, leaking, 0)}));
  hog.leak(kLine, mib(16));
  expect_killed(hog);
  const auto crossed = wait_reported(ABI_GUARD_CROSSED, 1);
  const auto killed = wait_reported(ABI_GUARD_KILLED, 1);
  ASSERT_EQ(crossed.size(), 1U);
  ASSERT_EQ(killed.size(), 1U);
  EXPECT_EQ(killed[0].victim.tgid, pid);
  EXPECT_EQ(killed[0].victim.expected, 12345U);
  EXPECT_EQ(killed[0].cgroup, root_->id().inode);
  EXPECT_EQ(killed[0].line, static_cast<std::uint64_t>(kLine.count));
  EXPECT_GE(killed[0].usage, killed[0].line);
  EXPECT_GE(killed[0].at_ns, crossed[0].crossed_ns);
  EXPECT_EQ(killed[0].code, 0);
  EXPECT_TRUE(bystander.alive());
  expect_only_guard_killed();
  std::printf("crossing to kill: %.1f us, %u refused before, hook %u, way %u, by %s\n",
              static_cast<double>(killed[0].at_ns - killed[0].crossed_ns) / 1000, killed[0].refused,
              killed[0].hook, killed[0].way, killed[0].comm);
}

TEST_F(GuardTest, SparesAProcessWhoseOwnCgroupBecameProtected) {
  if (!guard_->reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  const std::string workload = scratch_.child("workload");
  const std::string inner = scratch_.child("workload/inner");
  Hog hog(scratch_, inner, kCalm);
  const GuardList approved = list({approve(hog, workload, 0)});
  const kernel::GuardProtected group{open(inner).id()};
  ASSERT_TRUE(guard_->protect({&group, 1}).ok());
  arm(approved);
  hog.grow(kLine);
  ASSERT_TRUE(hog.wait_grown());
  settle();
  EXPECT_EQ(wait_reported(ABI_GUARD_NO_VICTIM, 1).size(), 1U);
  EXPECT_TRUE(hog.alive());
  ASSERT_TRUE(guard_->protect({}).ok());
}

TEST_F(GuardTest, AnExpiredListDoesNotFire) {
  const std::string leaking = scratch_.child("leaking");
  Hog hog(scratch_, leaking, kCalm);
  GuardList late = list({approve(hog, leaking, 0)});
  late.expires = SystemClock().now();
  arm(late);
  hog.grow(kLine);
  ASSERT_TRUE(hog.wait_grown());
  settle();
  EXPECT_TRUE(hog.alive());
  drain();
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(GuardTest, ItsClocksEndWithTheLastList) {
  const std::string leaking = scratch_.child("leaking");
  const Hog hog(scratch_, leaking, kCalm);
  arm(list({approve(hog, leaking, 0)}));
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  while (guard_->clocks() == 0 && SystemClock().now() < deadline) sched_yield();
  EXPECT_GT(guard_->clocks(), 0U);
  guard_->disarm();
  while (guard_->clocks() > 0 && SystemClock().now() < deadline) sched_yield();
  EXPECT_EQ(guard_->clocks(), 0U);
  EXPECT_FALSE(guard_->armed());
}

TEST_F(GuardTest, AnExpiredListIsNotInForce) {
  const std::string calm = scratch_.child("calm");
  const Hog hog(scratch_, calm, kCalm);
  GuardList late = list({approve(hog, calm, 0)});
  late.expires = SystemClock().now();
  arm(late);
  EXPECT_TRUE(guard_->armed());
  EXPECT_FALSE(guard_->in_force(late.expires));
  late.expires += kPatience;
  arm(late);
  EXPECT_TRUE(guard_->in_force(late.expires - Duration{1}));
  guard_->disarm();
  EXPECT_FALSE(guard_->in_force(late.expires - Duration{1}));
}

// The other would be killed for memory that the first one has just released.
TEST_F(GuardTest, AListThatWasBegunBeforeAReportIsNotPublished) {
  const std::string leaking = scratch_.child("leaking");
  const std::string calm = scratch_.child("calm");
  Hog hog(scratch_, leaking, kCalm);
  Hog other(scratch_, calm, kCalm);
  GuardList begun = list({approve(other, calm, 0)});
  begun.reports_read = guard_->reports_read();
  arm(list({approve(hog, leaking, 0)}));
  hog.leak(kLine, mib(16));
  expect_killed(hog);
  ASSERT_EQ(wait_reported(ABI_GUARD_KILLED, 1).size(), 1U);
  arm(begun);
  other.grow(kLine);
  ASSERT_TRUE(other.wait_grown());
  settle();
  EXPECT_TRUE(other.alive());
  begun.reports_read = guard_->reports_read();
  arm(begun);
  other.leak(mib(1), mib(16));
  expect_killed(other);
}

TEST_F(GuardTest, ADisarmedGuardDoesNotFire) {
  const std::string leaking = scratch_.child("leaking");
  Hog hog(scratch_, leaking, kCalm);
  arm(list({approve(hog, leaking, 0)}));
  guard_->disarm();
  hog.grow(kLine);
  ASSERT_TRUE(hog.wait_grown());
  settle();
  EXPECT_TRUE(hog.alive());
}

// Each of these is in the list, and none is the approved process.
TEST_F(GuardTest, KillsNoOtherProcessInsteadOfTheVictim) {
  const std::string leaking = scratch_.child("leaking");
  const std::string elsewhere = scratch_.child("elsewhere");
  Hog hog(scratch_, leaking, kCalm);
  const abi_guard_victim approved = approve(hog, leaking, 0);
  abi_guard_victim reused = approved;
  reused.start_ns += 1;
  abi_guard_victim moved = approved;
  moved.cgroup = open(elsewhere).id().inode;
  abi_guard_victim self = approved;
  self.tgid = ::getpid();
  abi_guard_victim init = approved;
  init.tgid = 1;
  abi_guard_victim gone = approved;
  gone.tgid = 1 << 29;
  const std::uint64_t unapproved = guard_->counts().unapproved;
  arm(list({reused, moved, self, init, gone}));
  hog.grow(kLine);
  ASSERT_TRUE(hog.wait_grown());
  settle();
  drain();
  EXPECT_TRUE(hog.alive());
  EXPECT_THAT(reported(ABI_GUARD_KILLED), IsEmpty());
  EXPECT_THAT(reported(ABI_GUARD_FAILED), IsEmpty());
  EXPECT_EQ(reported(ABI_GUARD_CROSSED).size(), 1U);
  if (guard_->reaches_others()) {
    EXPECT_EQ(reported(ABI_GUARD_NO_VICTIM).size(), 1U);
  }
  EXPECT_GT(guard_->counts().unapproved, unapproved);
}

TEST_F(GuardTest, SparesAProcessThatWasMovedAway) {
  const std::string leaking = scratch_.child("leaking");
  const std::string elsewhere = scratch_.child("elsewhere");
  Hog hog(scratch_, leaking, kCalm);
  arm(list({approve(hog, leaking, 0)}));
  scratch_.add(elsewhere, hog.pid());
  hog.grow(kLine);
  ASSERT_TRUE(hog.wait_grown());
  settle();
  EXPECT_TRUE(hog.alive());
  EXPECT_THAT(reported(ABI_GUARD_KILLED), IsEmpty());
}

TEST_F(GuardTest, IdentifiesOnlyApprovableProcesses) {
  const std::string leaking = scratch_.child("leaking");
  const std::string elsewhere = scratch_.child("elsewhere");
  const Hog hog(scratch_, leaking, kCalm);
  EXPECT_TRUE(guard_->identify(hog.pid(), open(leaking).id()).ok());
  EXPECT_TRUE(guard_->identify(hog.pid(), root_->id()).ok());
  EXPECT_FALSE(guard_->identify(hog.pid(), open(elsewhere).id()).ok());
  EXPECT_FALSE(guard_->identify(1, root_->id()).ok());
  EXPECT_FALSE(guard_->identify(::getpid(), root_->id()).ok());
  EXPECT_FALSE(guard_->identify(2, root_->id()).ok());
}

TEST_F(GuardTest, OneListFiresOnce) {
  const std::string first = scratch_.child("first");
  const std::string second = scratch_.child("second");
  Hog hog(scratch_, first, kCalm);
  Hog other(scratch_, second, kCalm);
  const abi_guard_victim next = approve(other, second, 0);
  abi_guard_victim behind = next;
  behind.group = 1;
  arm(list({approve(hog, first, 0), behind}));
  hog.leak(kLine, mib(16));
  expect_killed(hog);
  // A second crossing, with a list that is used up.
  other.grow(kLine);
  ASSERT_TRUE(other.wait_grown());
  settle();
  EXPECT_TRUE(other.alive());
  // Made without knowledge of the kill.
  arm(list({next}));
  settle();
  EXPECT_TRUE(other.alive());
  EXPECT_EQ(wait_reported(ABI_GUARD_KILLED, 1).size(), 1U);
  // The kill is known now: a new list fires again. Its victim allocates, so that it is running
  // where the kernel can kill no other process.
  other.leak(mib(1), mib(16));
  arm(list({next}));
  expect_killed(other);
  EXPECT_EQ(wait_reported(ABI_GUARD_KILLED, 2).size(), 2U);
  EXPECT_EQ(reported(ABI_GUARD_CROSSED).size(), 2U);
  expect_only_guard_killed();
}

TEST_F(GuardTest, KillsTheWholeFirstGroupAndNoOther) {
  if (!guard_->reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  const std::string pod = scratch_.child("pod");
  const std::string behind = scratch_.child("behind");
  Hog hog(scratch_, pod, kCalm);
  Hog sidecar(scratch_, pod, kCalm);
  Hog second(scratch_, pod, kCalm);
  const Hog next(scratch_, behind, kCalm);
  abi_guard_victim gone = approve(hog, pod, 0);
  gone.start_ns += 1;
  // The first group has no process left.
  arm(list({gone, approve(sidecar, pod, 1), approve(second, pod, 1), approve(hog, pod, 1),
            approve(next, behind, 2)}));
  hog.leak(kLine, mib(16));
  expect_killed(hog);
  expect_killed(sidecar);
  expect_killed(second);
  settle();
  EXPECT_TRUE(next.alive());
  EXPECT_EQ(wait_reported(ABI_GUARD_KILLED, 3).size(), 3U);
  EXPECT_EQ(reported(ABI_GUARD_CROSSED).size(), 1U);
  expect_only_guard_killed();
}

TEST_F(GuardTest, CountsADyingProcessAsKilled) {
  if (!guard_->reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  const std::string dying = scratch_.child("dying");
  const std::string behind = scratch_.child("behind");
  const Hog next(scratch_, behind, kCalm);
  Hog hog(scratch_, dying, kCalm);
  hog.grow(kLine);
  ASSERT_TRUE(hog.wait_grown());
  const abi_guard_victim victim = approve(hog, dying, 0);
  const GuardList late = list({victim, approve(next, behind, 1)});
  // Only the kernel has a thread that cannot die and so keeps its process dying. So the test races
  // here. In either case, no later candidate may die for a crossing that this exit reverts.
  ASSERT_EQ(::kill(hog.pid(), SIGKILL), 0);
  arm(late);
  settle();
  expect_killed(hog);
  EXPECT_TRUE(next.alive());
}

#if !defined(__SANITIZE_THREAD__)
// The kernel sends no signal to an exiting task, so it signals another thread of the process.
TEST_F(GuardTest, KillsAProcessWhoseMainThreadHasExited) {
  if (!guard_->reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  const std::string pod = scratch_.child("pod");
  const std::string leaking = scratch_.child("leaking");
  Leaderless process;
  scratch_.add(pod, process.pid());
  ASSERT_TRUE(process.let_leader_exit());
  auto victim = guard_->identify(process.pid(), open(pod).id());
  ASSERT_TRUE(victim.ok()) << victim.error().text();
  Hog hog(scratch_, leaking, kCalm);
  arm(list({*victim}));
  hog.grow(kLine);
  ASSERT_TRUE(hog.wait_grown());
  const auto killed = wait_reported(ABI_GUARD_KILLED, 1);
  ASSERT_EQ(killed.size(), 1U);
  EXPECT_EQ(killed[0].victim.tgid, process.pid());
  EXPECT_EQ(killed[0].code, 0);
  EXPECT_TRUE(process.child().wait_exit());
  EXPECT_TRUE(hog.alive());
}
#endif

// Near a line only because of page cache, the inactive pages of all cgroups are added up again and
// again, in a timer's interrupt.
TEST_F(GuardTest, AddingUpAThousandCgroupsTakesABoundedShareOfACpu) {
  const std::string leaking = scratch_.child("leaking");
  for (int i = 0; i < 1000; ++i) scratch_.child("many/" + std::to_string(i));
  const Hog hog(scratch_, leaking, kCalm);
  const ScratchFilesystem disk(ScratchKind::ext4, mib(256), 64);
  read_into_cache(scratch_, scratch_.child("reading"), disk / "cache");
  arm(list({approve(hog, leaking, 0)}));
  const auto before = guard_->counts();
  const MonotonicTime began = SystemClock().now();
  constexpr std::uint64_t kWalks = 20;
  while (guard_->counts().walks < before.walks + kWalks) {
    ASSERT_LT(SystemClock().now() - began, kPatience);
    sched_yield();
  }
  const auto after = guard_->counts();
  const auto elapsed = static_cast<double>((SystemClock().now() - began).count());
  const auto walked = static_cast<double>(after.walk_ns - before.walk_ns);
  std::printf("%.0f us per walk, %.1f %% of a CPU\n",
              walked / static_cast<double>(after.walks - before.walks) / 1000,
              100 * walked / elapsed);
  // The bound is an eighth; a guest whose CPUs wait for others has longer walks.
  EXPECT_LT(walked / elapsed, 0.5);
  EXPECT_EQ(after.unread, before.unread) << "the subtree was not added up as a whole";
  EXPECT_THAT(reported(ABI_GUARD_CROSSED), IsEmpty());
  EXPECT_TRUE(hog.alive());
}

// A cgroup full of page cache is not short of memory: the kernel drops the cache first.
TEST_F(GuardTest, InactivePageCacheDoesNotCount) {
  const std::string leaking = scratch_.child("leaking");
  const std::string reading = scratch_.child("reading");
  const std::string deep = scratch_.child("reading/deep");
  Hog hog(scratch_, leaking, kCalm);
  arm(list({approve(hog, leaking, 0)}));
  const ScratchFilesystem disk(ScratchKind::ext4, mib(256), 64);
  read_into_cache(scratch_, deep, disk / "cache");
  settle();
  EXPECT_TRUE(hog.alive());
  EXPECT_THAT(reported(ABI_GUARD_CROSSED), IsEmpty());

  const auto seen = guard_->usage(root_->id());
  ASSERT_TRUE(seen.ok()) << seen.error().text();
  EXPECT_TRUE(seen->exact);
  std::istringstream stat(scratch_.read(scratch_.path(), "memory.stat"));
  const std::string wanted = mounts().v1 ? "total_inactive_file" : "inactive_file";
  std::int64_t inactive = -1;
  std::string key;
  for (std::int64_t value = 0; stat >> key >> value;) {
    if (key == wanted) inactive = value;
  }
  // The file may lag: the kernel adds up per-CPU counters only after 64 updates for each CPU
  // (mm/memcontrol.c memcg_vmstats_needs_flush).
  EXPECT_NEAR(static_cast<double>(seen->inactive_file.count), static_cast<double>(inactive),
              static_cast<double>(mib(1).count));
  EXPECT_GE(inactive, kLine.count);

  // Even with the cache, allocated memory counts from its first byte.
  hog.leak(kLine, mib(16));
  expect_killed(hog);
  EXPECT_EQ(wait_reported(ABI_GUARD_KILLED, 1).size(), 1U);
  expect_only_guard_killed();
}

TEST_F(GuardTest, ARemovedCgroupIsNoSubject) {
  const std::string leaking = scratch_.child("leaking");
  const std::string removed = scratch_.child("removed");
  Hog hog(scratch_, leaking, kCalm);
  GuardList gone = list({approve(hog, leaking, 0)});
  gone.subject = open(removed).id();
  gone.memcg = memcg_of(open(removed));
  scratch_.remove_child(removed);
  const auto failed = guard_->arm({&gone, 1});
  ASSERT_TRUE(failed.ok()) << failed.error().text();
  EXPECT_THAT(*failed, ElementsAre(0U));
  EXPECT_FALSE(guard_->armed());
}

TEST_F(GuardTest, TheAddressOfAnotherCgroupIsNoSubject) {
  const std::string leaking = scratch_.child("leaking");
  Hog hog(scratch_, leaking, kCalm);
  GuardList other = list({approve(hog, leaking, 0)});
  other.memcg = memcg_of(open(leaking));
  const auto failed = guard_->arm({&other, 1});
  ASSERT_TRUE(failed.ok()) << failed.error().text();
  EXPECT_THAT(*failed, ElementsAre(0U));
}

// A thread prepares lists while the loop publishes others.
TEST_F(GuardTest, FindsCgroupsAndProcessesWhileListsArePublished) {
  const std::string one = scratch_.child("one");
  const std::string other = scratch_.child("other");
  Hog hog(scratch_, one, kCalm);
  const kernel::CgroupDir workload = open(one);
  const auto expected = guard_->memcg_of(workload.fd(), workload.id());
  ASSERT_TRUE(expected.ok()) << expected.error().text();
  GuardList of_other = list({approve(hog, one, 0)});
  const GuardList of_root = of_other;
  of_other.subject = open(other).id();
  of_other.memcg = memcg_of(open(other));
  std::atomic<bool> stop{false};
  int found = 0;
  std::thread preparation([&] {
    for (; !stop || found == 0; ++found) {
      const auto memcg = guard_->find_memcg(workload.fd(), workload.id());
      const auto process = guard_->identify(hog.pid(), workload.id());
      if (!memcg.ok() || *memcg != expected->address || !process.ok()) break;
    }
    stop = true;
  });
  int published = 0;
  for (; published < 2000 && !stop; ++published) {
    // Each takes the slot of the list before.
    EXPECT_THAT(*guard_->arm({published % 2 == 0 ? &of_other : &of_root, 1}), IsEmpty());
  }
  stop = true;
  preparation.join();
  EXPECT_EQ(published, 2000) << "after " << found << " processes were found";
}

TEST_F(GuardTest, TheNodeHasALineToo) {
  const std::string leaking = scratch_.child("leaking");
  Hog hog(scratch_, leaking, kCalm);
  const auto node = guard_->usage(CgroupId{});
  ASSERT_TRUE(node.ok()) << node.error().text();
  GuardList of_node = list({approve(hog, leaking, 0)}, node->usage - mib(512));
  of_node.subject = CgroupId{};
  of_node.memcg = 0;
  hog.leak(mib(1), mib(16));
  arm(of_node);
  expect_killed(hog);
  const auto killed = wait_reported(ABI_GUARD_KILLED, 1);
  ASSERT_EQ(killed.size(), 1U);
  EXPECT_EQ(killed[0].cgroup, 0U);
}

// Lists are replaced while lines are crossed: every victim was in the valid list.
TEST_F(GuardTest, NeverReadsAPartOfAReplacedList) {
  const std::string leaking = scratch_.child("leaking");
  const std::string calm = scratch_.child("calm");
  Hog hog(scratch_, leaking, kCalm);
  const Hog bystander(scratch_, calm, kCalm);
  const abi_guard_victim target = approve(hog, leaking, 0);
  // Alternates with a list of the bystander process whose line is out of reach. A mix of both lists
  // would kill the bystander.
  const GuardList harmless = list({approve(bystander, calm, 0)}, gib(64));
  const GuardList sharp = list({target});
  hog.leak(kLine + mib(8), mib(16));
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  while (hog.alive() && SystemClock().now() < deadline) {
    for (int i = 0; i < 1000; ++i) arm(i % 2 == 0 ? harmless : sharp);
    arm(sharp);
    settle();
    drain();
  }
  expect_killed(hog);
  EXPECT_TRUE(bystander.alive());
  const auto shots = wait_reported(ABI_GUARD_KILLED, 1);
  EXPECT_GE(shots.size(), 1U) << "although others killed as well";
  for (const abi_guard_report& report : shots) EXPECT_EQ(report.victim.tgid, target.tgid);
  expect_only_guard_killed();
}

}  // namespace
}  // namespace forestall::test
