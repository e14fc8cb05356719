// SPDX-License-Identifier: Apache-2.0
// Thinned lines stay correct: no extreme is lost, nothing unknown becomes known.
#include "picture/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace forestall::picture {
namespace {

using testing::ElementsAre;

std::vector<std::optional<std::int64_t>> column(const internal::Table& table, int line) {
  std::vector<std::optional<std::int64_t>> values(static_cast<std::size_t>(table.at_us_size()));
  for (const internal::Run& run : table.lines(line).runs()) {
    std::size_t at = run.first();
    for (const std::int64_t value : run.values()) values.at(at++) = value;
  }
  return values;
}

internal::Table reported(const ThinnedTable& table) {
  internal::Table out;
  table.put(out);
  return out;
}

TEST(PictureTableTest, OmitsUnknownValues) {
  ThinnedTable table(Thinning::each_line, 100);
  table.add_row(10);
  const std::size_t a = table.add_line("a");  // later than the first row
  for (std::int64_t at = 20; at <= 60; at += 10) {
    table.add_row(at);
    if (at != 40) table.set(a, at);
  }
  const internal::Table out = reported(table);
  EXPECT_THAT(out.at_us(), ElementsAre(10, 20, 30, 40, 50, 60));
  ASSERT_EQ(out.lines(0).runs_size(), 2);
  EXPECT_EQ(out.lines(0).runs(0).first(), 1U);
  EXPECT_THAT(out.lines(0).runs(0).values(), ElementsAre(20, 30));
  EXPECT_EQ(out.lines(0).runs(1).first(), 4U);
  EXPECT_THAT(out.lines(0).runs(1).values(), ElementsAre(50, 60));
}

// A line that continued over a gap would show values that were never read.
TEST(PictureTableTest, ThinningKeepsGaps) {
  for (const Thinning thinning : {Thinning::each_line, Thinning::sum}) {
    ThinnedTable table(thinning, 100'000);
    table.add_line("value");
    for (std::int64_t i = 0; i < 10'000; ++i) {
      if (i == 5000) table.break_lines(i * 1000 - 500);
      if (i == 5000) table.break_lines(i * 1000 - 400);
      table.add_row(i * 1000);
      table.set(0, i);
    }
    table.thin(500, {}, 0);
    const internal::Table out = reported(table);
    EXPECT_LE(out.at_us_size(), 520);
    ASSERT_EQ(out.lines(0).runs_size(), 2);
    const internal::Run& before = out.lines(0).runs(0);
    EXPECT_EQ(before.values(before.values_size() - 1), 4999);
    EXPECT_EQ(out.lines(0).runs(1).values(0), 5000);
  }
}

TEST(PictureTableTest, ThinningKeepsTheExtremesOfEveryLineInTheirOrder) {
  ThinnedTable table(Thinning::each_line, 100'000);
  table.add_line("up");
  table.add_line("spikes");
  for (std::int64_t i = 0; i < 10'000; ++i) {
    table.add_row(i * 1000);
    table.set(0, i);
    table.set(1, i == 5555 ? 1'000'000 : i == 5556 ? -7 : 100);
  }
  table.thin(500, {}, 0);
  const internal::Table out = reported(table);
  EXPECT_LE(out.at_us_size(), 520);
  EXPECT_EQ(out.rows_read(), 10'000U);
  const auto up = column(out, 0);
  EXPECT_TRUE(std::ranges::is_sorted(up));
  EXPECT_EQ(up.front(), 0);
  EXPECT_EQ(up.back(), 9999);
  const auto spikes = column(out, 1);
  const auto most = std::find(spikes.begin(), spikes.end(), 1'000'000);
  const auto least = std::find(spikes.begin(), spikes.end(), -7);
  ASSERT_NE(most, spikes.end());
  ASSERT_NE(least, spikes.end());
  EXPECT_EQ(least - most, 1);
}

TEST(PictureTableTest, RowsNearAKillStayAsTheyAre) {
  ThinnedTable table(Thinning::each_line, 100'000);
  table.add_line("a");
  for (std::int64_t i = 0; i < 10'000; ++i) {
    table.add_row(i * 1000);
    table.set(0, i % 7);
  }
  const std::vector<std::int64_t> kills{5'000'000};
  table.thin(1000, kills, 50'000);
  const internal::Table out = reported(table);
  EXPECT_LT(out.at_us_size(), 1300);
  for (std::int64_t at = 4'951'000; at < 5'050'000; at += 1000) {
    ASSERT_NE(std::ranges::find(out.at_us(), at), out.at_us().end()) << at;
  }
}

TEST(PictureTableTest, StackedLinesKeepWholeRows) {
  ThinnedTable table(Thinning::sum, 100'000);
  table.add_line("a");
  table.add_line("b");
  std::mt19937 dice(1);
  std::int64_t greatest = 0;
  for (std::int64_t i = 0; i < 5000; ++i) {
    const auto a = static_cast<std::int64_t>(dice() % 1000);
    table.add_row(i);
    table.set(0, a);
    table.set(1, 2 * a + 1);
    greatest = std::max(greatest, 3 * a + 1);
  }
  table.thin(100, {}, 0);
  const internal::Table out = reported(table);
  const auto a = column(out, 0);
  const auto b = column(out, 1);
  std::int64_t most = 0;
  for (std::size_t row = 0; row < a.size(); ++row) {
    EXPECT_EQ(*b[row], 2 * *a[row] + 1) << "two rows were mixed";
    most = std::max(most, *a[row] + *b[row]);
  }
  EXPECT_EQ(most, greatest);
}

TEST(PictureTableTest, ItNeverHoldsMoreThanItsBound) {
  ThinnedTable table(Thinning::each_line, 64);
  table.add_line("a");
  for (std::int64_t i = 0; i < 100'000; ++i) {
    table.add_row(i);
    table.set(0, i == 17 ? -1 : i);
    ASSERT_LE(table.rows(), 64U);
  }
  EXPECT_EQ(table.rows_read(), 100'000U);
  const auto values = column(reported(table), 0);
  EXPECT_NE(std::find(values.begin(), values.end(), -1), values.end())
      << "the least of all was thinned away";
}

TEST(PictureTableTest, AClockThatIsSetBackDoesNotTurnTimeAround) {
  ThinnedTable table(Thinning::each_line, 64);
  table.add_line("a");
  for (const std::int64_t at : {5, 9, 3, 10}) table.add_row(at);
  EXPECT_THAT(reported(table).at_us(), ElementsAre(5, 9, 9, 10));
}

TEST(PictureTableTest, LaterRowsAreSentAlone) {
  ThinnedTable table(Thinning::each_line, 64);
  table.add_line("a");
  for (std::int64_t at = 0; at < 10; ++at) {
    table.add_row(at);
    table.set(0, at);
  }
  internal::Table out;
  table.put(out, 6);
  EXPECT_THAT(out.at_us(), ElementsAre(7, 8, 9));
  EXPECT_EQ(out.lines(0).runs(0).first(), 0U);
  EXPECT_THAT(out.lines(0).runs(0).values(), ElementsAre(7, 8, 9));
}

}  // namespace
}  // namespace forestall::picture
