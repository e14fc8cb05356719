// SPDX-License-Identifier: Apache-2.0
#include "intake/amounts.h"

#include <gtest/gtest.h>

namespace forestall::test {
namespace {

using namespace std::chrono_literals;

std::optional<Limit> limit(std::string_view text) {
  const auto parsed = intake::parse_threshold_limit(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.error().text();
  return parsed.ok() ? *parsed : std::nullopt;
}

// The amounts that kubelet accepts (pkg/kubelet/eviction/helpers.go parseThresholdStatement()).
TEST(ThresholdLimit, KubeletsGrammar) {
  EXPECT_EQ(limit("100Mi"), Limit::bytes(mib(100)));
  EXPECT_EQ(limit("1.05Gi")->quantity->value(), 1127428916);  // rounds up
  EXPECT_EQ(limit("1.5Gi")->quantity->text(), "1536Mi");
  EXPECT_EQ(limit("2000")->quantity->text(), "2k");
  EXPECT_EQ(limit("0.1")->quantity->text(), "100m");  // exact: only its value rounds up
  EXPECT_EQ(limit("0.1")->quantity->value(), 1);
  EXPECT_EQ(limit("1e6"), Limit::bytes({1'000'000}));
  EXPECT_EQ(limit("0%"), std::nullopt);
  EXPECT_EQ(limit("100%"), std::nullopt);
  EXPECT_EQ(limit("0.0%"), Limit::share(0));
  EXPECT_EQ(limit("100.0%"), Limit::share(1));
  EXPECT_EQ(limit("1e1%"), Limit::share(0.1F));
  EXPECT_EQ(limit("+5%"), Limit::share(0.05F));
  EXPECT_EQ(limit("5%%"), Limit::share(0.05F));  // all trailing '%' are removed
  EXPECT_EQ(limit(".5%"), Limit::share(0.005F));
  EXPECT_EQ(limit("7.%"), Limit::share(0.07F));
  // Too small for 32 bits is 0 in Go, too large is an error.
  EXPECT_EQ(limit("1e-60%"), Limit::share(0));
  EXPECT_EQ(limit("1e-999%"), Limit::share(0));
  EXPECT_EQ(limit("." + std::string(60, '0') + "1%"), Limit::share(0));
  for (const std::string_view bad :
       {"", "%", "%%", " 5%", "5 %", "0x1p4%", "NaN%", "inf%", "-1%", "100.001%", "+-5%", "--5%",
        "1e99%", "0", "-0.5", "0.0", "1,5%"}) {
    EXPECT_FALSE(intake::parse_threshold_limit(bad).ok()) << bad;
  }
}

TEST(ThresholdLimit, MinimumReclaim) {
  EXPECT_EQ(*intake::parse_minimum_reclaim("0"), Limit::bytes({0}));
  EXPECT_EQ(*intake::parse_minimum_reclaim("250%"), Limit::share(2.5F));
  EXPECT_EQ(*intake::parse_minimum_reclaim("100%"), Limit::share(1));
  for (const std::string_view bad : {"0%", "-1%", "-1", "inf%", "x"}) {
    EXPECT_FALSE(intake::parse_minimum_reclaim(bad).ok()) << bad;
  }
}

TEST(Amounts, Bytes) {
  EXPECT_EQ(*intake::parse_bytes("0"), Bytes{0});
  EXPECT_EQ(*intake::parse_positive_bytes("1k"), Bytes{1000});
  EXPECT_FALSE(intake::parse_positive_bytes("0").ok());
  EXPECT_FALSE(intake::parse_bytes("5%").ok());
}

TEST(Amounts, MeantSpellings) {
  for (const auto& [written, meant] :
       std::initializer_list<std::pair<std::string, std::string>>{{"100MB", "100M"},
                                                                  {"100MiB", "100Mi"},
                                                                  {"100mib", "100Mi"},
                                                                  {"100 Mi", "100Mi"},
                                                                  {"64K", "64k"},
                                                                  {"64ki", "64Ki"},
                                                                  {"1_000", "1000"},
                                                                  {"2gb", "2G"}}) {
    const auto parsed = intake::parse_bytes(written);
    ASSERT_FALSE(parsed.ok()) << written;
    EXPECT_EQ(parsed.error().text(),
              "'" + written + "' is not an amount; did you mean '" + meant + "'?");
  }
  for (const std::string_view hopeless : {"B", "i", "b", " ", "1Xi", "e", "1e"}) {
    const auto parsed = intake::parse_bytes(hopeless);
    ASSERT_FALSE(parsed.ok()) << hopeless;
    EXPECT_EQ(parsed.error().text().find("did you mean"), std::string::npos) << hopeless;
  }
}

TEST(Amounts, Doubts) {
  EXPECT_FALSE(intake::doubt_amount("100Mi"));
  EXPECT_FALSE(intake::doubt_amount("1000m"));  // exactly one
  EXPECT_FALSE(intake::doubt_amount("0.5%"));
  EXPECT_FALSE(intake::doubt_amount("nonsense"));
  EXPECT_TRUE(intake::doubt_amount("100m"));
  EXPECT_TRUE(intake::doubt_amount("0.5"));
}

TEST(Amounts, DurationBoundsAreIncluded) {
  EXPECT_EQ(*intake::parse_duration_within("10ms", 10ms, 1min), 10ms);
  EXPECT_EQ(*intake::parse_duration_within("1m", 10ms, 1min), 1min);
  EXPECT_FALSE(intake::parse_duration_within("9.999999ms", 10ms, 1min).ok());
  EXPECT_FALSE(intake::parse_duration_within("1m0.000000001s", 10ms, 1min).ok());
}

}  // namespace
}  // namespace forestall::test
