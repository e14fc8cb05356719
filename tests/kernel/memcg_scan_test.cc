// SPDX-License-Identifier: Apache-2.0
// How the records of a pass add up, and which counters are taken for which.
// tests/integration/memcg_scan_test.cc compares passes with the kernel's files.
#include "kernel/memcg_scan.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernel/memcg_counters.h"

namespace forestall::kernel {
namespace {

using testing::ElementsAre;

abi_memcg memcg_at(std::uint32_t level, std::uint64_t id) {
  abi_memcg record{};
  record.level = level;
  record.cgroup = id;
  record.usage = 1000 * id;
  record.inactive_file = id;
  record.active_file = 2 * id;
  record.counters[ABI_MEMCG_ANON] = static_cast<__s64>(3 * id);
  record.processes = static_cast<__u32>(id);
  record.flags = ABI_MEMCG_PROCESSES | ABI_MEMCG_FILES;
  return record;
}

class SumSubtrees : public testing::Test {
 protected:
  Result<void> sum(const std::vector<abi_memcg>& records, bool anon = true) {
    return sum_subtrees(records, anon, false, parents_, sums_);
  }
  [[nodiscard]] std::vector<std::int64_t> inactive() const {
    std::vector<std::int64_t> all;
    for (const MemcgUsage& each : sums_)
      all.push_back(each.inactive_file.value_or(Bytes{-1}).count);
    return all;
  }

  std::vector<std::uint32_t> parents_;
  std::vector<MemcgUsage> sums_;
};

TEST_F(SumSubtrees, AParentHasItsDescendants) {
  ASSERT_TRUE(sum({memcg_at(0, 1), memcg_at(1, 10), memcg_at(2, 100), memcg_at(2, 200),
                   memcg_at(1, 20), memcg_at(2, 400)})
                  .ok());
  EXPECT_THAT(inactive(), ElementsAre(731, 310, 100, 200, 420, 400));
  EXPECT_EQ(sums_[1].active_file, Bytes{620});
  EXPECT_EQ(sums_[1].anon, Bytes{930});
  EXPECT_EQ(sums_[1].processes, 310U);
  EXPECT_EQ(sums_[1].usage, Bytes{10000}) << "the page counter has them already";
  EXPECT_FALSE(sums_[1].shmem);
}

TEST_F(SumSubtrees, AnIncompleteCountIsUnknownInAllAncestors) {
  std::vector<abi_memcg> records{memcg_at(0, 1), memcg_at(1, 10), memcg_at(2, 100),
                                 memcg_at(1, 20)};
  records[2].flags = 0;
  ASSERT_TRUE(sum(records, false).ok());
  EXPECT_FALSE(sums_[0].processes);
  EXPECT_FALSE(sums_[1].processes);
  EXPECT_FALSE(sums_[2].processes);
  EXPECT_EQ(sums_[3].processes, 20U);
  EXPECT_FALSE(sums_[3].anon);
}

// Less than there are would make a workload seem larger than it is, or smaller.
TEST_F(SumSubtrees, FilePagesThatCouldNotBeReadAreUnknownInAllAncestors) {
  std::vector<abi_memcg> records{memcg_at(0, 1), memcg_at(1, 10), memcg_at(2, 100),
                                 memcg_at(1, 20)};
  records[2].flags = ABI_MEMCG_PROCESSES;
  ASSERT_TRUE(sum(records).ok());
  EXPECT_THAT(inactive(), ElementsAre(-1, -1, -1, 20));
  EXPECT_FALSE(sums_[1].active_file);
  EXPECT_EQ(sums_[3].active_file, Bytes{40});
  EXPECT_EQ(sums_[0].processes, 131U);
}

TEST_F(SumSubtrees, ASumThatIsBelowZeroIsZero) {
  std::vector<abi_memcg> records{memcg_at(0, 1), memcg_at(1, 10)};
  records[0].counters[ABI_MEMCG_ANON] = 50;
  records[1].counters[ABI_MEMCG_ANON] = -20;
  ASSERT_TRUE(sum(records).ok());
  EXPECT_EQ(sums_[0].anon, Bytes{30});
  EXPECT_EQ(sums_[1].anon, Bytes{0});
}

TEST_F(SumSubtrees, WhatIsNoTreeIsRefused) {
  for (const auto& levels :
       std::vector<std::vector<std::uint32_t>>{{1}, {0, 2}, {0, 1, 3}, {0, 0}, {0, 1, 0}}) {
    std::vector<abi_memcg> records;
    for (const std::uint32_t level : levels) records.push_back(memcg_at(level, 1));
    const auto summed = sum(records);
    ASSERT_FALSE(summed.ok());
    EXPECT_EQ(summed.error().code, EPROTO);
    EXPECT_TRUE(sums_.empty());
  }
}

TEST_F(SumSubtrees, ADeepTreeAddsUp) {
  std::vector<abi_memcg> records;
  for (std::uint32_t level = 0; level < 5000; ++level) records.push_back(memcg_at(level, 1));
  records.push_back(memcg_at(1, 1));
  ASSERT_TRUE(sum(records).ok());
  EXPECT_EQ(sums_[0].inactive_file, Bytes{5001});
  EXPECT_EQ(sums_[1].inactive_file, Bytes{4999});
}

// Counters that never move.
TEST(MemcgCountersTest, WithoutACounterThatRisesNoneIsFound) {
  const MemcgCounters found =
      find_memcg_counters([](std::vector<std::int64_t>& counters) { counters.assign(40, 7); });
  EXPECT_FALSE(found.anon);
  EXPECT_FALSE(found.shmem);
  const MemcgCounters none =
      find_memcg_counters([](std::vector<std::int64_t>& counters) { counters.clear(); });
  EXPECT_FALSE(none.anon);
}

// What this process has mapped, exactly: the kernel walks its page tables for it. Takes no memory.
std::int64_t anonymous_pages() {
  static std::array<char, 4096> text;
  const int file = ::open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  if (size <= 0) return 0;
  text[static_cast<std::size_t>(size)] = 0;
  static constexpr char kLabel[] = "\nAnonymous:";
  const char* found = std::strstr(text.data(), kLabel);
  return found == nullptr ? 0 : std::strtol(found + sizeof(kLabel) - 1, nullptr, 10) / 4;
}

// In twelve tries of thirteen another process of the cgroup takes a page.
TEST(MemcgCountersTest, IsFoundAmongProcessesThatTakePages) {
  constexpr std::size_t kAnon = 17, kReadsPerTry = 2, kTriesPerRest = 13;
  std::size_t reads = 0;
  std::int64_t others = 0;
  const MemcgCounters found = find_memcg_counters([&](std::vector<std::int64_t>& counters) {
    const std::size_t attempt = reads++ / kReadsPerTry;
    if (attempt % kTriesPerRest != 0) ++others;
    counters.assign(40, 7);
    counters[kAnon] = anonymous_pages() + others;
  });
  EXPECT_EQ(found.anon, static_cast<std::int32_t>(kAnon));
}

}  // namespace
}  // namespace forestall::kernel
