// SPDX-License-Identifier: Apache-2.0
// Durations against Go's time.ParseDuration and Duration.String: rules and error texts.
#include "model/duration.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace forestall {
namespace {

using namespace std::chrono_literals;

TEST(DurationTest, Accepted) {
  struct Row {
    std::string text;
    Duration duration;
  };
  const std::vector<Row> rows{
      {"0", 0ns},
      {"-0", 0ns},
      {"+0", 0ns},
      {"0s", 0ns},
      {"5s", 5s},
      {"+5s", 5s},
      {"-5s", -5s},
      {"5.s", 5s},
      {".5s", 500ms},
      {"5.6s", 5600ms},
      {"1.00s", 1s},
      {"10ns", 10ns},
      {"11us", 11us},
      {"12\u00b5s", 12us},
      {"12\u03bcs", 12us},
      {"13ms", 13ms},
      {"15m", 15min},
      {"16h", 16h},
      {"-1.5h", -90min},
      {"2h45m", 2h + 45min},
      {"10.5s4m", 4min + 10500ms},  // any order
      {"1s1s", 2s},                 // and any number of times
      {"1h2m3s4ms5us6ns", 1h + 2min + 3s + 4ms + 5us + 6ns},
      {"0.3333333333333333333h", 20min},   // more digits than a double holds
      {"0.100000000000000000000h", 6min},  // more digits than 63 bits hold
      {"0.3ns", 0ns},                      // cut off, not rounded
      {"1.9ns", 1ns},
      {"9007199254740993ns", Duration(9007199254740993)},
      {"9223372036854775807ns", Duration::max()},
      {"9223372036854775.807us", Duration::max()},
      {"-9223372036854775808ns", Duration::min()},
  };
  for (const Row& row : rows) {
    const auto duration = parse_duration(row.text);
    ASSERT_TRUE(duration.ok()) << row.text << ": " << duration.error().text();
    EXPECT_EQ(*duration, row.duration) << row.text;
  }
}

TEST(DurationTest, Refused) {
  struct Row {
    std::string text;
    std::string error;
  };
  const std::vector<Row> rows{
      {"", R"(time: invalid duration "")"},
      {"-", R"(time: invalid duration "-")"},
      {"+", R"(time: invalid duration "+")"},
      {".", R"(time: invalid duration ".")"},
      {"-.s", R"(time: invalid duration "-.s")"},
      {"s", R"(time: invalid duration "s")"},
      {"--5s", R"(time: invalid duration "--5s")"},
      {" 5s", R"(time: invalid duration " 5s")"},
      {"1h-5m", R"(time: unknown unit "h-" in duration "1h-5m")"},
      {"3", R"(time: missing unit in duration "3")"},
      {"00", R"(time: missing unit in duration "00")"},
      {"1.2.3s", R"(time: missing unit in duration "1.2.3s")"},
      {"1h2", R"(time: missing unit in duration "1h2")"},
      {"5S", R"(time: unknown unit "S" in duration "5S")"},
      {"5 s", R"(time: unknown unit " s" in duration "5 s")"},
      {"1d", R"(time: unknown unit "d" in duration "1d")"},
      {"5s ", R"(time: unknown unit "s " in duration "5s ")"},
      {"1e3s", R"(time: unknown unit "e" in duration "1e3s")"},
      {"3000000h", R"(time: invalid duration "3000000h")"},
      {"9223372036854775808ns", R"(time: invalid duration "9223372036854775808ns")"},
      {"9223372036854775809ns", R"(time: invalid duration "9223372036854775809ns")"},
      {"-9223372036854775809ns", R"(time: invalid duration "-9223372036854775809ns")"},
      {"9223372036854775.808us", R"(time: invalid duration "9223372036854775.808us")"},
      {"9223372036s854ms775us808ns", R"(time: invalid duration "9223372036s854ms775us808ns")"},
      {"99999999999999999999s", R"(time: invalid duration "99999999999999999999s")"},
      {"5\"s", R"(time: unknown unit "\"s" in duration "5\"s")"},
      {"5\xC3\xA9", R"(time: unknown unit "\xc3\xa9" in duration "5\xc3\xa9")"},
      {"5s\n", R"(time: unknown unit "s\x0a" in duration "5s\x0a")"},
  };
  for (const Row& row : rows) {
    const auto duration = parse_duration(row.text);
    ASSERT_FALSE(duration.ok()) << row.text;
    EXPECT_EQ(duration.error().text(), row.error);
  }
}

TEST(DurationTest, Printed) {
  struct Row {
    Duration duration;
    std::string text;
  };
  const std::vector<Row> rows{
      {0ns, "0s"},
      {1ns, "1ns"},
      {999ns, "999ns"},
      {1us, "1\u00b5s"},
      {1100ns, "1.1\u00b5s"},
      {2200us, "2.2ms"},
      {500ms, "500ms"},
      {3300ms, "3.3s"},
      {90s, "1m30s"},
      {1min, "1m0s"},
      {1h, "1h0m0s"},
      {4min + 5001ms, "4m5.001s"},
      {5h + 6min + 7001ms, "5h6m7.001s"},
      {8min + 1ns, "8m0.000000001s"},
      {-90s, "-1m30s"},
      {-1ns, "-1ns"},
      {Duration::max(), "2562047h47m16.854775807s"},
      {Duration::min(), "-2562047h47m16.854775808s"},
  };
  for (const Row& row : rows) EXPECT_EQ(to_string(row.duration), row.text);
}

TEST(DurationTest, PrintedFormsReadBack) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20'000; ++i) {
    // Whole microseconds below a day, which Go's double represents exactly.
    const Duration duration =
        std::chrono::microseconds(static_cast<std::int64_t>(random() % 86'400'000'000));
    const auto again = parse_duration(to_string(duration));
    ASSERT_TRUE(again.ok()) << to_string(duration);
    EXPECT_EQ(*again, duration) << to_string(duration);
  }
}

TEST(Brief, HasThreeSignificantDigits) {
  EXPECT_EQ(brief(Duration(10'896'317'920)), "10.9s");
  EXPECT_EQ(brief(Duration(-10'896'317'920)), "-10.9s");
  EXPECT_EQ(brief(Duration(999'600'000)), "1s");
  EXPECT_EQ(brief(Duration(1'234'567)), "1.23ms");
  EXPECT_EQ(brief(Duration(123'456)), "123\u00b5s");
  EXPECT_EQ(brief(Duration(65'432'100'000)), "1m5.4s");
  EXPECT_EQ(brief(Duration(3'725'600'000'000)), "1h2m6s") << "never rounded to minutes";
  EXPECT_EQ(brief(Duration(999)), "999ns");
  EXPECT_EQ(brief(Duration(0)), "0s");
  EXPECT_EQ(brief(Duration::max()), "2562047h47m16s");
}

TEST(Offset, HasMillisecondsAtTheSamePlace) {
  EXPECT_EQ(offset(Duration(10'896'317'920)), "+10.896s");
  EXPECT_EQ(offset(Duration(11'000'000'000)), "+11.000s");
  EXPECT_EQ(offset(Duration(119'999'600'000)), "+2m0.000s");
  EXPECT_EQ(offset(Duration(3'600'050'000'000)), "+1h0m0.050s");
  EXPECT_EQ(offset(Duration(-1'500'000'000)), "-1.500s");
  EXPECT_EQ(offset(Duration(0)), "+0.000s");
}

}  // namespace
}  // namespace forestall
