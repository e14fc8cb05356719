// SPDX-License-Identifier: Apache-2.0
#include "intake/wall_time.h"

#include <gtest/gtest.h>

namespace forestall::intake {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kTime = 1'741'947'072 * kSecond;  // 2025-03-14T10:11:12Z

TEST(WallTime, IsReadInRfc3339AndInShorterForms) {
  EXPECT_EQ(parse_wall_time("2025-03-14T10:11:12Z"), kTime);
  EXPECT_EQ(parse_wall_time("2025-03-14t10:11:12z"), kTime);
  EXPECT_EQ(parse_wall_time("2025-03-14T11:41:12+01:30"), kTime);
  EXPECT_EQ(parse_wall_time("2025-03-14T08:11:12-02:00"), kTime);
  EXPECT_EQ(parse_wall_time("2025-03-14T10:11:12.25Z"), kTime + kSecond / 4);
  EXPECT_EQ(parse_wall_time("2025-03-14T10:11:12.123456789Z"), kTime + 123'456'789);
  EXPECT_EQ(parse_wall_time("2025-03-14 10:11:12"), kTime);
  EXPECT_EQ(parse_wall_time("2025-03-14 10:11"), kTime - 12 * kSecond);
  EXPECT_EQ(parse_wall_time("2025-03-14"), kTime - (10 * 3600 + 11 * 60 + 12) * kSecond);
}

TEST(WallTime, OfNoCalendarIsRefused) {
  for (const char* text : {"",
                           "2025",
                           "2025-03",
                           "2025-3-14",
                           "2025-02-29",
                           "2025-04-31",
                           "2025-00-01",
                           "2025-13-01",
                           "2025-03-14T",
                           "2025-03-14T10",
                           "2025-03-14T24:00",
                           "2025-03-14T10:60",
                           "2025-03-14T10:11:61",
                           "2025-03-14T10:11:12.",
                           "2025-03-14T10:11:12.1234567890Z",
                           "2025-03-14T10:11:12+1",
                           "2025-03-14T10:11:12 ",
                           " 2025-03-14",
                           "2025-03-14T10:11:12ZZ",
                           "2025-03-14x10:11",
                           "-025-03-14",
                           "+025-03-14",
                           "yesterday",
                           "10:11"}) {
    EXPECT_FALSE(parse_wall_time(text)) << text;
  }
  EXPECT_TRUE(parse_wall_time("2024-02-29"));
}

TEST(WallTime, OutsideOfTheRangeIsClamped) {
  EXPECT_EQ(parse_wall_time("9999-12-31"), INT64_MAX);
  EXPECT_EQ(parse_wall_time("0001-01-01"), INT64_MIN);
}

TEST(WallTime, ADurationIsBeforeNow) {
  EXPECT_EQ(parse_time("10m", kTime).value(), kTime - 600 * kSecond);
  EXPECT_EQ(parse_time("1h30m", kTime).value(), kTime - 5400 * kSecond);
  EXPECT_EQ(parse_time("2025-03-14T10:11:12Z", 0).value(), kTime);
  for (const char* text : {"soon", "-10m", "10", ""}) {
    EXPECT_EQ(parse_time(text, kTime).error().message,
              "expected a time before now like 10m or 2h, or a time like 2025-03-14T10:11:12Z or "
              "'2025-03-14 10:11' (UTC), found '" +
                  std::string(text) + "'");
  }
}

TEST(WallTime, TextIsThatOfTheLog) {
  EXPECT_EQ(wall_time_text(kTime + 56'700'000), "2025-03-14T10:11:12.056Z");
  EXPECT_EQ(wall_time_text(-1), "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace forestall::intake
