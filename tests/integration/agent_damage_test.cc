// SPDX-License-Identifier: Apache-2.0
// Memory that no candidate holds: the real agent must not kill calm neighbours for it, and must
// still stop several real leaks before the kernel acts. Runs on this host (v1) and in the VMs.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "integration/bpf_events.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/scratch_filesystem.h"

namespace forestall::test::agent_damage_test {
namespace {

using testing::HasSubstr;

constexpr Bytes kLimit = mib(256);
constexpr Bytes kThreshold = mib(64);
constexpr Bytes kCalm = mib(16);
// Past the threshold, and far from where the kernel's OOM killer would act.
constexpr Bytes kPastThreshold = kLimit - kThreshold + mib(8);

// A watched cgroup with calm workloads "calm0" to "calm2" within their requests, and a tenant.
class Neighbourhood {
 public:
  explicit Neighbourhood(const std::string& calm_request = "32Mi") : calm_request_(calm_request) {
    scratch.limit(scratch.path(), kLimit);
    for (const char* name : {"calm0", "calm1", "calm2"}) {
      calm_.push_back(std::make_unique<Hog>(scratch, scratch.child(name), kCalm));
    }
  }

  [[nodiscard]] std::string config() const {
    return fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 20s\n"
        "watch: [{{cgroup: {0}, available: {1}Mi}}]\nworkloads:\n"
        "  - {{cgroup: {0}/calm*, memoryRequest: {2}}}\n  - {{cgroup: {0}/tenant*}}\n",
        scratch.path(), kThreshold.count >> 20, calm_request_);
  }
  [[nodiscard]] Bytes used() const { return scratch.usage(scratch.path()); }
  [[nodiscard]] int calm_alive() const {
    return static_cast<int>(
        std::ranges::count_if(calm_, [](const auto& hog) { return hog->alive(); }));
  }
  [[nodiscard]] std::uint64_t oom_kills() const { return scratch.oom_kills(scratch.path()); }

  ScratchCgroup scratch;
  std::string tenant = scratch.child("tenant");
  std::string outside = scratch.child("outside");

 private:
  std::string calm_request_;
  std::vector<std::unique_ptr<Hog>> calm_;
};

bool fill(void* memory, Bytes size) {
  if (memory == MAP_FAILED) return false;
  memset(memory, 1, static_cast<std::size_t>(size.count));
  return true;
}

// Touches shared memory in a process of the tenant, which then exits: it stays charged there.
bool leave_behind(const Neighbourhood& around, const std::function<bool()>& touch) {
  Child owner([&] {
    around.scratch.add(around.tenant, getpid());
    return touch() ? 0 : 1;
  });
  return owner.wait_exit() && owner.reap() == 0;
}

// A System V segment, which outlives every process until it is removed.
class Segment {
 public:
  explicit Segment(Bytes size)
      : size_(size),
        id_(shmget(IPC_PRIVATE, static_cast<std::size_t>(size.count), IPC_CREAT | 0600)) {}
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() { shmctl(id_, IPC_RMID, nullptr); }

  [[nodiscard]] bool touch() const { return fill(shmat(id_, nullptr, 0), size_); }

 private:
  Bytes size_;
  int id_;
};

// A process in the tenant's cgroup that fills a segment and then grows until the agent kills it.
Child tenant_with(const Neighbourhood& around, const Segment& segment, Bytes own) {
  return Child([&around, &segment, own] {
    around.scratch.add(around.tenant, getpid());
    if (!segment.touch()) return 1;
    void* memory = mmap(nullptr, static_cast<std::size_t>(own.count), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!fill(memory, own)) return 1;
    return pause();
  });
}

std::optional<v1::Record> wait_reason(AgentRun& agent, v1::Decision::Reason reason) {
  return agent.wait_record(
      [&](const v1::Record& record) { return record.decision().reason() == reason; });
}

TEST(AgentDamage, AHogOutsideOfTheWorkloadsCostsNoCalmNeighbour) {
  const Neighbourhood around;
  Hog hog(around.scratch, around.outside, mib(8));
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.grow(kPastThreshold - around.used());
  const auto held = wait_reason(agent, v1::Decision::WITHIN_REQUESTS);
  ASSERT_TRUE(held) << agent.process().log();
  EXPECT_GT(held->decision().damage().outside_bytes(), mib(100).count);
  EXPECT_GT(held->observation().kinds().anon_bytes(), mib(100).count);
  EXPECT_EQ(held->decision().considered_size(), 4);
  EXPECT_EQ(around.calm_alive(), 3);
  EXPECT_EQ(around.oom_kills(), 0U);
}

// Without requests each neighbour may be killed; that the hog takes what they free ends it.
TEST(AgentDamage, AHogOutsideTakesFewNeighboursWithoutRequests) {
  const Neighbourhood around("0");
  Hog hog(around.scratch, around.outside, mib(8));
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.leak(kPastThreshold - around.used(), mib(64));
  ASSERT_TRUE(hog.child().wait_exit()) << "the kernel kills the largest process";
  EXPECT_GE(around.calm_alive(), 1) << agent.process().log();
  EXPECT_TRUE(
      agent.process().wait_for_log("reason=held-by-no-candidate", SystemClock().now() + kPatience))
      << agent.process().log();
}

TEST(AgentDamage, MemoryLeftInAMemfdCostsNoCalmNeighbour) {
  const Neighbourhood around;
  const UniqueFd memfd(memfd_create("left", MFD_CLOEXEC));
  ASSERT_TRUE(memfd);
  const Bytes size = kPastThreshold - around.used();
  ASSERT_TRUE(leave_behind(around, [&] {
    if (ftruncate(memfd.get(), size.count) != 0) return false;
    return fill(mmap(nullptr, static_cast<std::size_t>(size.count), PROT_READ | PROT_WRITE,
                     MAP_SHARED, memfd.get(), 0),
                size);
  }));
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto held = wait_reason(agent, v1::Decision::WITHIN_REQUESTS);
  ASSERT_TRUE(held) << agent.process().log();
  EXPECT_GT(held->decision().damage().left_behind_bytes(), mib(100).count);
  EXPECT_GT(held->observation().kinds().shmem_bytes(), mib(100).count);
  EXPECT_EQ(around.calm_alive(), 3);
}

// Writes to a new file of a mounted filesystem until the neighbourhood uses `until`.
bool write_until(const Neighbourhood& around, const std::string& path, Bytes until) {
  const std::string piece(1 << 20, 'x');
  const UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  while (around.used() < until) {
    if (write(file.get(), piece.data(), piece.size()) < 0) return false;
  }
  return true;
}

// Calls `one` with the directory and the names 0, 1, ... until the neighbourhood uses `amount`
// more, which is then the kernel's memory: nothing here allocates.
bool repeat_until(const Neighbourhood& around, Bytes amount, const std::string& directory,
                  const std::function<void(int, const char*)>& one) {
  constexpr int kMost = 1'000'000;
  const UniqueFd opened(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Bytes before = around.used();
  for (int i = 0; i < kMost; ++i) {
    if (i % 1024 == 0 && around.used() >= before + amount) return true;
    std::array<char, 16> name{};
    std::to_chars(name.begin(), name.end() - 1, i);
    one(opened.get(), name.data());
  }
  return false;
}

TEST(AgentDamage, AFileInAMountedTmpfsCostsNoCalmNeighbour) {
  const Neighbourhood around;
  const ScratchFilesystem tmpfs(ScratchKind::tmpfs, kLimit, 64);
  ASSERT_TRUE(
      leave_behind(around, [&] { return write_until(around, tmpfs / "file", kPastThreshold); }));
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto held = wait_reason(agent, v1::Decision::WITHIN_REQUESTS);
  ASSERT_TRUE(held) << agent.process().log();
  EXPECT_GT(held->decision().damage().left_behind_bytes(), mib(100).count);
  EXPECT_GT(held->observation().kinds().shmem_bytes(), mib(100).count);
  EXPECT_EQ(around.calm_alive(), 3);
  EXPECT_EQ(around.oom_kills(), 0U);
}

// Inodes and dentries of a tmpfs live as long as its files: nothing frees this slab.
TEST(AgentDamage, InodesOfAMountedTmpfsCostNoCalmNeighbour) {
  const Neighbourhood around;
  const ScratchFilesystem tmpfs(ScratchKind::tmpfs, kLimit, 1'000'000);
  ASSERT_TRUE(leave_behind(around, [&] {
    const bool made = repeat_until(around, mib(32), tmpfs / "", [](int fd, const char* name) {
      const UniqueFd file(openat(fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    });
    return made && write_until(around, tmpfs / "file", kPastThreshold);
  }));
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto held = wait_reason(agent, v1::Decision::WITHIN_REQUESTS);
  ASSERT_TRUE(held) << agent.process().log();
  EXPECT_GT(held->observation().kinds().kernel_bytes(), mib(24).count);
  EXPECT_EQ(around.calm_alive(), 3);
  EXPECT_EQ(around.oom_kills(), 0U);
}

// Names that do not exist are remembered as dentries, charged to the cgroup that looked them up.
TEST(AgentDamage, NegativeDentriesOfADeadTenantAreReclaimed) {
  const Neighbourhood around;
  const ScratchFilesystem tmpfs(ScratchKind::tmpfs, kLimit, 64);
  const ScratchFilesystem disk(ScratchKind::ext4, mib(8), 64);
  ASSERT_TRUE(leave_behind(around, [&] {
    struct stat status {};
    const bool made = repeat_until(around, mib(32), disk / "", [&](int fd, const char* name) {
      (void)fstatat(fd, name, &status, 0);
    });
    return made && write_until(around, tmpfs / "file", kPastThreshold);
  }));
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(agent.process().wait_for_log("event=left-behind ", SystemClock().now() + kPatience))
      << agent.process().log();
  EXPECT_LT(around.used(), kLimit - kThreshold) << agent.process().log();
  EXPECT_EQ(around.calm_alive(), 3);
  EXPECT_EQ(around.oom_kills(), 0U);
}

// Active page cache counts as used: it is in the working set.
bool map_and_touch(const std::string& path, Bytes size) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // The kernel activates pages that were used twice.
  for (int i = 0; i < 3; ++i) {
    void* memory =
        mmap(nullptr, static_cast<std::size_t>(size.count), PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return false;
    const auto* bytes = static_cast<const volatile char*>(memory);
    for (std::int64_t at = 0; at < size.count; at += 4096) (void)bytes[at];
    munmap(memory, static_cast<std::size_t>(size.count));
  }
  return true;
}

TEST(AgentDamage, WhatADeadTenantLeavesBehindIsReclaimedBeforeANeighbourPays) {
  const Neighbourhood around;
  const Bytes size = kPastThreshold - around.used();
  const CacheFile file(size);
  ASSERT_TRUE(leave_behind(around, [&] { return map_and_touch(file.path(), size); }));
  ASSERT_GT(around.scratch.usage(around.tenant), mib(100));
  const std::string statistics = around.scratch.read(around.tenant, "memory.stat");
  if (statistics.find("\nactive_file 0\n") != std::string::npos) {
    GTEST_SKIP() << "not applicable: the multi-gen LRU keeps cache inactive that was used twice, "
                    "which is available memory; runs on kernels without it, as in the VM test 6.12 "
                    "v2";
  }
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(agent.process().wait_for_log("event=left-behind ", SystemClock().now() + kPatience))
      << agent.process().log() << statistics;
  EXPECT_LT(around.scratch.usage(around.tenant), mib(8)) << agent.process().log();
  EXPECT_EQ(around.calm_alive(), 3);
  EXPECT_EQ(around.oom_kills(), 0U);
}

TEST(AgentDamage, AVictimThatLeavesASegmentBehindIsTheOnlyOne) {
  const Neighbourhood around;
  const Segment segment(kPastThreshold - around.used());
  ASSERT_TRUE(leave_behind(around, [&] { return segment.touch(); }));
  Hog hog(around.scratch, around.tenant, mib(20));
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto killed = agent.wait_kill();
  ASSERT_TRUE(killed) << agent.process().log();
  EXPECT_EQ(killed->outcome().victim().path(), around.tenant);
  EXPECT_EQ(killed->outcome().state(), v1::KillProgress::RELEASED);
  EXPECT_GT(killed->outcome().left_behind().total_bytes(), mib(100).count);
  EXPECT_GT(killed->outcome().left_behind().kinds().shmem_bytes(), mib(100).count);
  EXPECT_LT(killed->outcome().freed_bytes(), mib(40).count);
  const auto held = wait_reason(agent, v1::Decision::KILLS_FREED_LITTLE);
  ASSERT_TRUE(held) << agent.process().log();
  EXPECT_EQ(held->decision().damage().kills(), 1U);
  EXPECT_EQ(around.calm_alive(), 3);
  EXPECT_EQ(around.oom_kills(), 0U);
}

TEST(AgentDamage, ATenantThatRestartsAndLeavesMemoryBehindDiesAlone) {
  const Neighbourhood around;
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  std::vector<std::unique_ptr<Segment>> segments;
  for (int round = 0; round < 3; ++round) {
    segments.push_back(std::make_unique<Segment>(mib(50)));
    const Bytes own = kPastThreshold - around.used() - mib(50);
    const Child tenant = tenant_with(around, *segments.back(), std::max(own, mib(2)));
    const auto answer = agent.wait_record([](const v1::Record& record) {
      return record.has_outcome() || record.decision().reason() == v1::Decision::KILLS_FREED_LITTLE;
    });
    ASSERT_TRUE(answer) << agent.process().log();
    if (answer->has_outcome()) {
      EXPECT_EQ(answer->outcome().victim().path(), around.tenant);
    }
    ASSERT_EQ(around.calm_alive(), 3) << agent.process().log();
  }
  EXPECT_EQ(around.oom_kills(), 0U);
}

TEST(AgentDamage, FourLeaksAtOnceEndBeforeTheKernelActs) {
  Neighbourhood around;
  std::vector<std::unique_ptr<Hog>> leaks;
  for (const char* name : {"tenant0", "tenant1", "tenant2", "tenant3"}) {
    const std::string path = around.scratch.child(name);
    leaks.push_back(std::make_unique<Hog>(around.scratch, path, mib(8)));
  }
  AgentRun agent(around.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  for (const auto& leak : leaks) leak->leak(mib(16), mib(16));
  for (const auto& leak : leaks) EXPECT_TRUE(leak->child().wait_exit()) << agent.process().log();
  EXPECT_EQ(around.oom_kills(), 0U) << agent.process().log();
  EXPECT_EQ(around.calm_alive(), 3);
}

}  // namespace
}  // namespace forestall::test::agent_damage_test
