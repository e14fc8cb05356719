// SPDX-License-Identifier: Apache-2.0
#include "sources/pressure_reader.h"

#include <gtest/gtest.h>

#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using namespace std::chrono_literals;

constexpr const char* kPsi =
    "some avg10=0.00 avg60=0.12 avg300=0.04 total=1234567\n"
    "full avg10=0.00 avg60=0.10 avg300=0.02 total=7654\n";
constexpr const char* kVmstat =
    "nr_free_pages 1\nallocstall_dma 1\nallocstall_normal 20\nallocstall_movable 300\n"
    "pgsteal_kswapd 9\npgscan_anon 40\npgscan_file 2\npgsteal_anon 10\npgsteal_file 5\n";

TEST(PressureReaderTest, ReadsTheKernelsCounters) {
  const MemoryPressure pressure = parse_memory_pressure(kPsi, kVmstat);
  EXPECT_EQ(pressure.some, 1234567us);
  EXPECT_EQ(pressure.full, 7654us);
  EXPECT_EQ(pressure.scanned, 42U);
  EXPECT_EQ(pressure.reclaimed, 15U);
  EXPECT_EQ(pressure.stalls, 321U);
}

TEST(PressureReaderTest, MissingValuesAreUnknown) {
  const MemoryPressure nothing = parse_memory_pressure("", "nr_free_pages 1\n");
  EXPECT_EQ(nothing, MemoryPressure());
  test::TempTree tree;
  PressureReader reader(tree / "no-such-proc");
  EXPECT_EQ(reader.read(from_ns(7)), (MemoryPressure{from_ns(7), {}, {}, {}, {}, {}}));
}

TEST(PressureReaderTest, CountersOfThisHostDoNotGoBack) {
  PressureReader reader;
  const MemoryPressure before = reader.read(from_ns(1));
  const MemoryPressure after = reader.read(from_ns(2));
  ASSERT_TRUE(before.scanned && after.scanned);
  EXPECT_LE(*before.scanned, *after.scanned);
  EXPECT_LE(*before.stalls, *after.stalls);
  EXPECT_LE(before.some, after.some);
}

}  // namespace
}  // namespace forestall::sources
