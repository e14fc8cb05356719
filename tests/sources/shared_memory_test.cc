// SPDX-License-Identifier: Apache-2.0
#include "sources/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "sources/walk_order.h"
#include "support/child.h"
#include "support/drop_capability.h"

namespace forestall::sources {
namespace {

using test::Child;
using ::testing::ElementsAre;

std::vector<ProcessSample> processes(const std::vector<pid_t>& pids) {
  std::vector<ProcessSample> samples;
  for (const pid_t pid : pids) {
    samples.emplace_back().id = {pid, 1};
    samples.back().order = static_cast<std::uint64_t>(samples.size()) * 10;
  }
  return samples;
}

std::vector<std::uint64_t> reported(std::vector<ProcessSample> samples,
                                    std::vector<MemoryOwner> owners, const MemoryOrder& compare) {
  for (auto& owner : owners) owner.thread = samples[owner.sample].id.pid;
  report_shared_memory(samples, owners, compare);
  std::vector<std::uint64_t> ids;
  for (const auto& sample : samples) ids.push_back(sample.memory_id);
  return ids;
}

constexpr MemoryLayout kOne{1, 2, 3};
constexpr MemoryLayout kOther{1, 2, 4};

constexpr int kGone = -1;
constexpr int kForbidden = -2;

// Compares by the address space given for each pid.
MemoryOrder spaces(std::map<pid_t, int> of) {
  return [of](pid_t a, pid_t b) -> Result<std::strong_ordering> {
    if (of.at(a) == kGone || of.at(b) == kGone) return Error{ESRCH, "gone"};
    if (of.at(a) == kForbidden || of.at(b) == kForbidden) return Error{EPERM, "not permitted"};
    return of.at(a) <=> of.at(b);
  };
}

TEST(SharedMemory, ThoseThatShareHaveOneId) {
  const auto ids = reported(processes({10, 20, 30, 40}),
                            {{0, 0, kOne}, {1, 0, kOne}, {2, 0, kOne}, {3, 0, kOne}},
                            spaces({{10, 5}, {20, 3}, {30, 5}, {40, 3}}));
  EXPECT_THAT(ids, ElementsAre(10, 20, 10, 20));
}

TEST(SharedMemory, UnlikeLayoutsAreNotEvenCompared) {
  const auto never = [](pid_t, pid_t) -> Result<std::strong_ordering> {
    ADD_FAILURE();
    return Error{ESRCH, "gone"};
  };
  EXPECT_THAT(reported(processes({10, 20}), {{0, 0, kOne}, {1, 0, kOther}}, never),
              ElementsAre(10, 20));
}

TEST(SharedMemory, AnUnreadableResultIsUnknown) {
  EXPECT_THAT(reported(processes({10, 20}), {{0, 0, {}}, {1, 0, {}}}, spaces({})),
              ElementsAre(0, 0));
  // The first has died: the others are still reported.
  const auto ids = reported(processes({10, 20, 30}), {{0, 0, kOne}, {1, 0, kOne}, {2, 0, kOne}},
                            spaces({{10, kGone}, {20, 7}, {30, 7}}));
  EXPECT_EQ(ids[1], ids[2]);
  EXPECT_EQ(ids[1], 20U);
}

TEST(SharedMemory, AProcessThatMayNotBeComparedIsUnknown) {
  const std::vector<MemoryOwner> all{{0, 0, kOne}, {1, 0, kOne}, {2, 0, kOne}};
  const auto ids_with = [&](int first, int second, int third) {
    return reported(processes({10, 20, 30}), all, spaces({{10, first}, {20, second}, {30, third}}));
  };
  EXPECT_THAT(ids_with(kForbidden, kForbidden, kForbidden), ElementsAre(0, 0, 0));
  EXPECT_THAT(ids_with(kForbidden, 7, 7), ElementsAre(0, 20, 20)) << "the first one as well";
  EXPECT_THAT(ids_with(7, kForbidden, 7), ElementsAre(10, 0, 10)) << "it has not exited";
  EXPECT_THAT(ids_with(kGone, kForbidden, 7), ElementsAre(0, 0, 30));
}

TEST(SharedMemory, WithoutTheCapabilityTheKernelGivesNoAnswer) {
  // Neither the parent nor the sibling has lost it, so the kernel permits the child neither.
  const Child sibling([] {
    for (;;) pause();
    return 0;
  });
  Child child([&] {
    if (!test::drop_capability(CAP_SYS_PTRACE)) return 1;
    const auto compared = kcmp_memory(getpid(), sibling.pid());
    if (compared || compared.error().code != EPERM) return 2;
    const auto ids = reported(processes({getppid(), sibling.pid(), getpid()}),
                              {{0, 0, kOne}, {1, 0, kOne}, {2, 0, kOne}}, kcmp_memory);
    const auto self = static_cast<std::uint64_t>(getpid());
    return ids == std::vector<std::uint64_t>{0, 0, self} ? 0 : 3;
  });
  ASSERT_TRUE(child.wait_exit());
  const int status = child.reap();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SharedMemory, AnOrderThatContradictsItselfDoesNoHarm) {
  std::uint32_t state = 1;
  const MemoryOrder random = [&](pid_t, pid_t) -> Result<std::strong_ordering> {
    state = state * 1664525 + 1013904223;
    switch (state >> 30) {
      case 0: return std::strong_ordering::less;
      case 1: return std::strong_ordering::greater;
      case 2: return std::strong_ordering::equal;
      default: return Error{((state >> 29) & 1) != 0 ? ESRCH : EPERM, "no answer"};
    }
  };
  std::vector<ProcessSample> samples;
  std::vector<MemoryOwner> owners;
  for (pid_t pid = 1; pid <= 2000; ++pid) {
    owners.push_back({samples.size(), pid, kOne});
    samples.emplace_back().id.pid = pid;
  }
  report_shared_memory(samples, owners, random);
}

TEST(SharedMemory, ThisKernelCompares) {
  EXPECT_EQ(kcmp_memory(getpid(), getpid()).value(), std::strong_ordering::equal);
  const auto parent = kcmp_memory(getpid(), getppid());
  ASSERT_TRUE(parent.ok()) << parent.error().text();
  EXPECT_NE(*parent, std::strong_ordering::equal);
  pid_t gone = 0;
  {
    const Child child([] { return 0; });
    gone = child.pid();
  }
  EXPECT_EQ(kcmp_memory(getpid(), gone).error().code, ESRCH);
}

TEST(WalkOrder, ValuesAreHandedOutAnew) {
  auto samples = processes({10, 20, 30, 40});  // orders 10, 20, 30, 40
  EXPECT_TRUE(take_walk_order(std::vector<pid_t>{7, 40, 10, 20}, samples, {0, 1, 3}));
  EXPECT_EQ(samples[3].order, 10U);
  EXPECT_EQ(samples[0].order, 20U);
  EXPECT_EQ(samples[1].order, 40U);
  EXPECT_EQ(samples[2].order, 30U);
}

TEST(WalkOrder, EqualValuesAreTakenApart) {
  auto samples = processes({10, 20});
  samples[1].order = samples[0].order;
  EXPECT_TRUE(take_walk_order(std::vector<pid_t>{20, 10}, samples, {0, 1}));
  EXPECT_LT(samples[1].order, samples[0].order);
}

TEST(WalkOrder, AllOfALongWalkMayTie) {
  constexpr pid_t kProcesses = 4000;
  std::vector<pid_t> walk;
  std::vector<pid_t> pids;
  std::vector<std::size_t> which;
  for (pid_t pid = 1; pid <= kProcesses; ++pid) {
    pids.push_back(pid);
    walk.push_back(kProcesses + 1 - pid);
    which.push_back(which.size());
  }
  auto samples = processes(pids);
  EXPECT_TRUE(take_walk_order(walk, samples, which));
  EXPECT_TRUE(std::ranges::is_sorted(samples, std::ranges::greater(), &ProcessSample::order));
  // A process that the walk returned twice keeps its first place.
  samples = processes({10, 20});
  EXPECT_TRUE(take_walk_order(std::vector<pid_t>{20, 10, 20}, samples, {0, 1}));
  EXPECT_LT(samples[1].order, samples[0].order);
}

TEST(WalkOrder, AMissingProcessLeavesTheOrderUnchanged) {
  auto samples = processes({10, 20});
  const auto before = samples;
  EXPECT_FALSE(take_walk_order(std::vector<pid_t>{20}, samples, {0, 1}));
  EXPECT_EQ(samples, before);
}

}  // namespace
}  // namespace forestall::sources
