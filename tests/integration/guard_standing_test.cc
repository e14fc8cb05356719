// SPDX-License-Identifier: Apache-2.0
// The guard's standing list on the running kernel: which workload it selects when memory runs
// short long after the list was made. Runs on the host (memcg v1) and in the VMs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "guard_fixture.h"
#include "kernel/guard.h"
#include "support/child.h"

namespace forestall::test {
namespace {

using kernel::StandingGuardList;
using ::testing::SizeIs;

class GuardStandingTest : public GuardFixture {
 protected:
  // A workload with one process.
  struct Pod {
    std::string path;
    std::unique_ptr<Hog> hog;
    Bytes request{0};
    std::int32_t priority = 0;
    bool whole = false;
  };

  Pod start(const std::string& name, Bytes memory) {
    Pod pod{scratch_.child(name), nullptr, {}, 0, false};
    pod.hog = std::make_unique<Hog>(scratch_, pod.path, memory);
    return pod;
  }

  void add(const Pod& pod, Bytes working_set) {
    const kernel::CgroupDir directory = open(pod.path);
    const auto memcg = guard_->memcg_of(directory.fd(), directory.id());
    ASSERT_TRUE(memcg.ok()) << memcg.error().text();
    abi_standing_workload workload{};
    workload.memcg = memcg->address;
    workload.held = static_cast<__u64>(memcg->held.count);
    workload.cgroup = directory.id().inode;
    workload.working_set = static_cast<__u64>(working_set.count);
    workload.request = static_cast<__u64>(pod.request.count);
    workload.priority = pod.priority;
    workload.first = static_cast<__u16>(standing_.processes.size());
    workload.count = 1;
    workload.flags = pod.whole ? ABI_STANDING_WHOLE : 0;
    const auto index = static_cast<std::uint32_t>(standing_.workloads.size());
    standing_.processes.push_back(approve(*pod.hog, pod.path, index));
    standing_.workloads.push_back(workload);
  }

  void stand(bool by_growth = true) {
    standing_.subject = root_->id();
    standing_.memcg = root_memcg_;
    standing_.line = kLine;
    standing_.usage = usage();
    standing_.limit = kLimit;
    standing_.expires = SystemClock().now() + kPatience;
    standing_.by_growth = by_growth;
    const auto stood = guard_->stand(standing_);
    ASSERT_TRUE(stood.ok()) << stood.error().text();
  }

  // Of the whole scratch cgroup.
  [[nodiscard]] Bytes usage() const { return scratch_.usage(scratch_.path()); }

  // Leaks until the guard has acted, at a distance from the limit.
  void expect_no_victim() {
    ASSERT_THAT(wait_reported(ABI_GUARD_NO_VICTIM, 1), SizeIs(1));
    settle();
    EXPECT_THAT(reported(ABI_GUARD_KILLED), ::testing::IsEmpty());
  }

  StandingGuardList standing_;
};

// The victim is not the process that runs.
class GuardStandingOthersTest : public GuardStandingTest {
 protected:
  void SetUp() override {
    if (!guard_->reaches_others()) {
      GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                      "host and in the guest of 7.2";
    }
  }

  // `leaking` grows by `amount`, and `victim` dies in its place.
  static void expect_killed_instead(const Pod& leaking, const Pod& victim, Bytes amount) {
    leaking.hog->grow(amount);
    expect_killed(*victim.hog);
    ASSERT_TRUE(leaking.hog->wait_grown());
    EXPECT_TRUE(leaking.hog->alive());
  }
};

TEST_F(GuardStandingTest, KillsTheWorkloadThatGrew) {
  const Pod calm = start("calm", mib(24));
  const Pod leaking = start("leaking", kCalm);
  add(calm, mib(24));
  add(leaking, kCalm);
  stand();
  const pid_t pid = leaking.hog->pid();
  leaking.hog->leak(kLine, mib(16));
  expect_killed(*leaking.hog);
  const auto killed = wait_reported(ABI_GUARD_KILLED, 1);
  ASSERT_THAT(killed, SizeIs(1));
  EXPECT_EQ(killed[0].victim.tgid, pid);
  EXPECT_EQ(killed[0].slot, static_cast<__u32>(ABI_GUARD_STANDING));
  EXPECT_EQ(killed[0].cgroup, root_->id().inode);
  EXPECT_TRUE(calm.hog->alive());
  expect_only_guard_killed();
}

TEST_F(GuardStandingOthersTest, AWorkloadAboveItsRequestPrecedesOneThatGrewWithinIts) {
  Pod leaking = start("leaking", kCalm);
  const Pod above = start("above", mib(24));
  leaking.request = kLimit;
  add(leaking, kCalm);
  add(above, mib(24));
  stand();
  expect_killed_instead(leaking, above, kLine);
}

TEST_F(GuardStandingOthersTest, TheLowerPriorityIsFirst) {
  Pod leaking = start("leaking", kCalm);
  const Pod low = start("low", mib(16));
  leaking.priority = 1000;
  add(leaking, kCalm);
  add(low, mib(16));
  stand();
  expect_killed_instead(leaking, low, kLine);
}

TEST_F(GuardStandingOthersTest, WithoutGrowthTheLargerIsFirst) {
  const Pod leaking = start("leaking", kCalm);
  const Pod large = start("large", mib(48));
  add(leaking, kCalm);
  add(large, mib(48));
  stand(/*by_growth=*/false);
  expect_killed_instead(leaking, large, mib(16));
}

TEST_F(GuardStandingTest, SparesAllWhileEachIsWithinItsRequest) {
  Pod leaking = start("leaking", kCalm);
  Pod calm = start("calm", mib(24));
  leaking.request = calm.request = kLimit;
  add(leaking, kCalm);
  add(calm, mib(24));
  stand();
  leaking.hog->grow(kLine);
  expect_no_victim();
  ASSERT_TRUE(leaking.hog->wait_grown());
  EXPECT_TRUE(leaking.hog->alive());
  EXPECT_TRUE(calm.hog->alive());
}

TEST_F(GuardStandingTest, SparesAllWhenMemoryWentToWhatIsNotListed) {
  const Pod unlisted = start("unlisted", kCalm);
  const Pod calm = start("calm", mib(24));
  add(calm, mib(24));
  stand();
  unlisted.hog->grow(kLine);
  expect_no_victim();
  ASSERT_TRUE(unlisted.hog->wait_grown());
  EXPECT_TRUE(calm.hog->alive());
}

TEST_F(GuardStandingTest, AFirstThatMayNotBeKilledSparesTheOthers) {
  const Pod leaking = start("leaking", kCalm);
  const Pod calm = start("calm", mib(24));
  add(leaking, kCalm);
  add(calm, mib(24));
  standing_.workloads[0].count = 0;
  stand();
  leaking.hog->grow(kLine);
  expect_no_victim();
  ASSERT_TRUE(leaking.hog->wait_grown());
  EXPECT_TRUE(leaking.hog->alive());
  EXPECT_TRUE(calm.hog->alive());
}

TEST_F(GuardStandingTest, WaitsForTheMemoryOfARegularKill) {
  const std::string first = scratch_.child("first");
  Hog other(scratch_, first, kCalm);
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  arm(list({approve(other, first, 0)}, mib(40)));
  stand();
  other.leak(mib(40), mib(1));
  expect_killed(other);
  leaking.hog->grow(kLine);
  ASSERT_TRUE(leaking.hog->wait_grown());
  settle();
  EXPECT_THAT(reported(ABI_GUARD_KILLED), SizeIs(1));
  EXPECT_TRUE(leaking.hog->alive());
}

TEST_F(GuardStandingTest, ACrossingWithoutAVictimDoesNotSpendIt) {
  const Pod unlisted = start("unlisted", kCalm);
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  unlisted.hog->grow(kLine);
  expect_no_victim();
  leaking.hog->leak(kLine + mib(16), mib(16));
  expect_killed(*leaking.hog);
  EXPECT_TRUE(unlisted.hog->alive());
}

// Its parent counts that growth: counted twice, it would outweigh what is not listed.
TEST_F(GuardStandingTest, ANestedWorkloadsGrowthCountsOnce) {
  const Pod nested = start("nested", kCalm);
  const Pod unlisted = start("unlisted", kCalm);
  add(nested, kCalm);
  standing_.workloads[0].flags |= ABI_STANDING_NESTED;
  stand();
  nested.hog->grow(mib(40));
  ASSERT_TRUE(nested.hog->wait_grown());
  unlisted.hog->grow(mib(24));
  expect_no_victim();
  EXPECT_TRUE(nested.hog->alive());
}

TEST_F(GuardStandingTest, AFiredOneIsNotReplacedBeforeItsReportIsRead) {
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  EXPECT_FALSE(guard_->standing_has_fired());
  leaking.hog->leak(kLine, mib(16));
  expect_killed(*leaking.hog);
  EXPECT_TRUE(guard_->standing_has_fired());
  const auto again = guard_->stand(standing_);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, EBUSY);
  guard_->withdraw_standing();
  EXPECT_TRUE(guard_->standing_has_fired()) << "nor is it forgotten";
  EXPECT_THAT(reported(ABI_GUARD_KILLED), SizeIs(1));
  EXPECT_TRUE(guard_->stand(standing_).ok());
}

TEST_F(GuardStandingTest, APostponedOneDoesNotFire) {
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  guard_->decide_until(SystemClock().now() + kPatience);
  leaking.hog->grow(kLine);
  ASSERT_TRUE(leaking.hog->wait_grown());
  settle();
  drain();
  EXPECT_THAT(reports_, ::testing::IsEmpty());
  EXPECT_TRUE(leaking.hog->alive());
  // A signal needs a task with memory of its own to be sent from: this one runs.
  leaking.hog->leak(mib(1), mib(1));
  guard_->decide_until(SystemClock().now());
  expect_killed(*leaking.hog);
}

// An agent that ends decides no more, but the memory of the last victim may still come back.
TEST_F(GuardStandingTest, TheEndOfTheLoopEndsNoWaitForAKill) {
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  guard_->postpone_standing(SystemClock().now() + kPatience);
  guard_->decide_until(SystemClock().now() + kPatience);
  guard_->postpone_standing(SystemClock().now());
  guard_->decide_until(MonotonicTime());
  leaking.hog->grow(kLine);
  ASSERT_TRUE(leaking.hog->wait_grown());
  settle();
  drain();
  EXPECT_THAT(reports_, ::testing::IsEmpty());
  EXPECT_TRUE(leaking.hog->alive());
}

TEST_F(GuardStandingTest, KillsAProcessThatIsYoungerThanTheListInAWholeWorkload) {
  Pod leaking = start("leaking", kCalm);
  const Pod calm = start("calm", mib(24));
  leaking.whole = true;
  add(leaking, kCalm);
  add(calm, mib(24));
  stand();
  Hog young(scratch_, leaking.path, kCalm);
  young.leak(kLine, mib(16));
  expect_killed(young);
  EXPECT_TRUE(calm.hog->alive());
  expect_only_guard_killed();
}

TEST_F(GuardStandingOthersTest, SparesAYoungerProcessOfAWorkloadThatMayNotBeKilledAsAWhole) {
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  Hog young(scratch_, leaking.path, kCalm);
  young.grow(kLine);
  expect_killed(*leaking.hog);
  ASSERT_TRUE(young.wait_grown());
  settle();
  EXPECT_TRUE(young.alive());
}

// A process that is spared keeps the crossing open, and the calm one keeps running.
TEST_F(GuardStandingTest, ACrossingThatIsOverBeforeASignalDoesNotCount) {
  if (guard_->reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals any process at once; runs in the guests "
                    "of 6.1 and 6.12";
  }
  const Pod sleeping = start("sleeping", mib(48));
  const Pod growing = start("growing", kCalm);
  add(sleeping, mib(48));
  add(growing, kCalm);
  stand(/*by_growth=*/false);
  growing.hog->grow(mib(24));
  ASSERT_THAT(wait_reported(ABI_GUARD_CROSSED, 1), SizeIs(1));
  ASSERT_TRUE(growing.hog->wait_grown());
  ASSERT_EQ(::kill(growing.hog->pid(), SIGKILL), 0);
  ASSERT_TRUE(growing.hog->child().wait_exit());
  ASSERT_THAT(wait_reported(ABI_GUARD_GIVEN_UP, 1), SizeIs(1));
  sleeping.hog->grow(mib(1));
  ASSERT_TRUE(sleeping.hog->wait_grown());
  settle();
  EXPECT_TRUE(sleeping.hog->alive()) << "memory was back before it ran";
  // The list is not spent.
  sleeping.hog->leak(kLine, mib(16));
  expect_killed(*sleeping.hog);
}

TEST_F(GuardStandingTest, ALimitThatWasChangedSinceDisarmsIt) {
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  scratch_.limit(scratch_.path(), kLimit + mib(64));
  leaking.hog->grow(kLine);
  ASSERT_TRUE(leaking.hog->wait_grown());
  settle();
  drain();
  EXPECT_THAT(reports_, ::testing::IsEmpty());
  EXPECT_TRUE(leaking.hog->alive());
  const auto other = guard_->stand(standing_);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, EAGAIN);
}

// Read twice, it is in the working set, and that reaches the line. The kernel would take it back.
TEST_F(GuardStandingTest, SparesAllWhenTheMemoryIsPageCacheInUse) {
  const Pod reader = start("reader", kCalm);
  const Pod calm = start("calm", mib(24));
  add(reader, kCalm);
  add(calm, mib(24));
  const ScratchFilesystem disk(ScratchKind::ext4, mib(256), 64);
  stand();
  read_into_cache(scratch_, reader.path, disk / "cache");
  read_into_cache(scratch_, reader.path, disk / "cache");
  settle();
  if (reported(ABI_GUARD_NO_VICTIM).empty()) {
    GTEST_SKIP() << "not applicable: this kernel's LRU keeps the file inactive; runs on this host";
  }
  expect_no_victim();
  EXPECT_TRUE(reader.hog->alive());
  EXPECT_TRUE(calm.hog->alive());
}

TEST_F(GuardStandingTest, PageCacheIsNoGrowth) {
  const Pod reader = start("reader", mib(8));
  const Pod leaking = start("leaking", kCalm);
  add(reader, mib(8));
  add(leaking, kCalm);
  stand();
  const ScratchFilesystem disk(ScratchKind::ext4, mib(256), 64);
  read_into_cache(scratch_, reader.path, disk / "cache");
  leaking.hog->leak(kLine, mib(16));
  expect_killed(*leaking.hog);
  EXPECT_TRUE(reader.hog->alive());
}

TEST_F(GuardStandingTest, AnExpiredOneDoesNotFire) {
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  standing_.expires = SystemClock().now();
  ASSERT_TRUE(guard_->stand(standing_).ok());
  leaking.hog->grow(kLine);
  ASSERT_TRUE(leaking.hog->wait_grown());
  settle();
  drain();
  EXPECT_THAT(reports_, ::testing::IsEmpty());
  EXPECT_TRUE(leaking.hog->alive());
}

}  // namespace
}  // namespace forestall::test
