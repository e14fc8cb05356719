// SPDX-License-Identifier: Apache-2.0
#include "sources/held_workload.h"

#include <gtest/gtest.h>

namespace forestall::sources {
namespace {

kernel::MemcgUsage passed() {
  kernel::MemcgUsage usage;
  usage.usage = Bytes{100};
  usage.inactive_file = Bytes{30};
  usage.processes = 2;
  return usage;
}

TEST(ReadingOfAPass, IsThatOfTheWorkload) {
  const auto reading = reading_of(passed());
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->usage, Bytes{100});
  EXPECT_EQ(reading->inactive_file, Bytes{30});
  EXPECT_EQ(reading->processes, 2U);
  EXPECT_TRUE(reading->from_pass);
}

TEST(ReadingOfAPass, WithUnknownFilePagesTheFilesAreRead) {
  auto usage = passed();
  usage.inactive_file.reset();
  EXPECT_FALSE(reading_of(usage));
}

TEST(ReadingOfAPass, OfARemovedCgroupTheFilesAreRead) {
  auto usage = passed();
  usage.removed = true;
  EXPECT_FALSE(reading_of(usage));
}

TEST(ReadingOfAPass, ProcessesMayBeUnknown) {
  auto usage = passed();
  usage.processes.reset();
  ASSERT_TRUE(reading_of(usage));
  EXPECT_FALSE(reading_of(usage)->processes);
}

TEST(KindsOfAPass, FilePagesAreThoseOfBothLists) {
  auto usage = passed();
  usage.active_file = Bytes{12};
  usage.anon = Bytes{40};
  EXPECT_EQ(kinds_of(usage), (MemoryKinds{Bytes{40}, Bytes{42}, std::nullopt, std::nullopt}));
  usage.inactive_file.reset();
  usage.shmem = Bytes{5};
  EXPECT_EQ(kinds_of(usage), (MemoryKinds{Bytes{40}, std::nullopt, Bytes{5}, std::nullopt}));
}

}  // namespace
}  // namespace forestall::sources
