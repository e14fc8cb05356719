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
  };

  Pod start(const std::string& name, Bytes memory) {
    Pod pod{scratch_.child(name), nullptr, {}, 0};
    pod.hog = std::make_unique<Hog>(scratch_, pod.path, memory);
    return pod;
  }

  void add(const Pod& pod, Bytes working_set) {
    const kernel::CgroupDir directory = open(pod.path);
    const auto memcg = guard_->memcg_of(directory.fd(), directory.id());
    ASSERT_TRUE(memcg.ok()) << memcg.error().text();
    abi_standing_workload workload{};
    workload.memcg = *memcg;
    workload.cgroup = directory.id().inode;
    workload.working_set = static_cast<__u64>(working_set.count);
    workload.request = static_cast<__u64>(pod.request.count);
    workload.priority = pod.priority;
    workload.first = static_cast<__u16>(standing_.processes.size());
    workload.count = 1;
    const auto index = static_cast<std::uint32_t>(standing_.workloads.size());
    standing_.processes.push_back(approve(*pod.hog, pod.path, index));
    standing_.workloads.push_back(workload);
  }

  void stand(bool by_growth = true) {
    standing_.subject = root_->id();
    standing_.subject_fd = root_->fd();
    standing_.line = kLine;
    standing_.usage = usage();
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

TEST_F(GuardStandingTest, AWorkloadAboveItsRequestPrecedesOneThatGrewWithinIts) {
  Pod leaking = start("leaking", kCalm);
  const Pod above = start("above", mib(24));
  leaking.request = kLimit;
  if (!guard_->reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  add(leaking, kCalm);
  add(above, mib(24));
  stand();
  leaking.hog->grow(kLine);
  expect_killed(*above.hog);
  ASSERT_TRUE(leaking.hog->wait_grown());
  EXPECT_TRUE(leaking.hog->alive());
}

TEST_F(GuardStandingTest, TheLowerPriorityIsFirst) {
  Pod leaking = start("leaking", kCalm);
  const Pod low = start("low", mib(16));
  leaking.priority = 1000;
  if (!guard_->reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  add(leaking, kCalm);
  add(low, mib(16));
  stand();
  leaking.hog->grow(kLine);
  expect_killed(*low.hog);
  ASSERT_TRUE(leaking.hog->wait_grown());
  EXPECT_TRUE(leaking.hog->alive());
}

TEST_F(GuardStandingTest, WithoutGrowthTheLargerIsFirst) {
  const Pod leaking = start("leaking", kCalm);
  const Pod large = start("large", mib(48));
  if (!guard_->reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  add(leaking, kCalm);
  add(large, mib(48));
  stand(/*by_growth=*/false);
  leaking.hog->grow(mib(16));
  expect_killed(*large.hog);
  ASSERT_TRUE(leaking.hog->wait_grown());
  EXPECT_TRUE(leaking.hog->alive());
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

TEST_F(GuardStandingTest, StandsBackWhileARegularListIsInForce) {
  const std::string idle = scratch_.child("idle");
  const Hog other(scratch_, idle, kCalm);
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  arm(list({approve(other, idle, 0)}, kLimit));
  leaking.hog->grow(kLine);
  ASSERT_TRUE(leaking.hog->wait_grown());
  settle();
  drain();
  EXPECT_THAT(reports_, ::testing::IsEmpty());
  EXPECT_TRUE(leaking.hog->alive());
  // Without it the line, which is crossed already, fires.
  leaking.hog->leak(mib(1), mib(1));
  ASSERT_TRUE(guard_->arm({}).ok());
  expect_killed(*leaking.hog);
}

TEST_F(GuardStandingTest, APostponedOneDoesNotFire) {
  const Pod leaking = start("leaking", kCalm);
  add(leaking, kCalm);
  stand();
  guard_->postpone_standing(SystemClock().now() + kPatience);
  leaking.hog->grow(kLine);
  ASSERT_TRUE(leaking.hog->wait_grown());
  settle();
  drain();
  EXPECT_THAT(reports_, ::testing::IsEmpty());
  EXPECT_TRUE(leaking.hog->alive());
  // A signal needs a task with memory of its own to be sent from: this one runs.
  leaking.hog->leak(mib(1), mib(1));
  guard_->postpone_standing(SystemClock().now());
  expect_killed(*leaking.hog);
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
