// SPDX-License-Identifier: Apache-2.0
// Quantities against apimachinery (pkg/api/resource/quantity.go): each row is a text and its
// results of ParseQuantity, Value and the canonical form.
#include "model/quantity.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace forestall {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

struct Accepted {
  std::string text;
  std::int64_t value;  // rounded up, away from zero
  std::string canonical;
};

void check(const std::vector<Accepted>& rows) {
  for (const Accepted& row : rows) {
    const auto quantity = parse_quantity(row.text);
    ASSERT_TRUE(quantity.ok()) << '"' << row.text << "\": " << quantity.error().text();
    EXPECT_EQ(quantity->value(), row.value) << row.text;
    EXPECT_EQ(quantity->bytes(), Bytes{row.value}) << row.text;
    EXPECT_EQ(quantity->text(), row.canonical) << row.text;
    const auto again = parse_quantity(quantity->text());
    ASSERT_TRUE(again.ok()) << row.text << " printed as " << quantity->text();
    EXPECT_EQ(*again, *quantity) << row.text << " printed as " << quantity->text();
  }
}

TEST(QuantityTest, EverySuffix) {
  check({{"7", 7, "7"},
         {"7n", 1, "7n"},
         {"7u", 1, "7u"},
         {"7m", 1, "7m"},
         {"7k", 7'000, "7k"},
         {"7M", 7'000'000, "7M"},
         {"7G", 7'000'000'000, "7G"},
         {"7T", 7'000'000'000'000, "7T"},
         {"7P", 7'000'000'000'000'000, "7P"},
         {"7E", 7'000'000'000'000'000'000, "7E"},
         {"7Ki", 7LL << 10, "7Ki"},
         {"7Mi", 7LL << 20, "7Mi"},
         {"7Gi", 7LL << 30, "7Gi"},
         {"7Ti", 7LL << 40, "7Ti"},
         {"7Pi", 7LL << 50, "7Pi"},
         {"7Ei", 7LL << 60, "7Ei"}});
}

TEST(QuantityTest, DecimalExponents) {
  check({{"1e3", 1'000, "1e3"},
         {"1E3", 1'000, "1e3"},
         {"1E", 1'000'000'000'000'000'000, "1E"},  // a single E is exa
         {"1e+3", 1'000, "1e3"},
         {"1e-3", 1, "1e-3"},
         {"1e0", 1, "1"},
         {"12e-1", 2, "1200e-3"},
         {"1e14", 100'000'000'000'000, "100e12"},
         {"1.5e3", 1'500, "1500"},
         {"0.5e0", 1, "500e-3"},
         {"1e007", 10'000'000, "10e6"},
         {"0e999999999", 0, "0"},
         {"1e21", kMax, "1e21"},
         {"1E-2147483647", 1, "1e-9"}});
}

TEST(QuantityTest, FormsOfTheNumber) {
  check({{"0", 0, "0"},
         {"00", 0, "0"},
         {"007", 7, "7"},
         {"+7", 7, "7"},
         {"1.", 1, "1"},
         {"1.Gi", 1LL << 30, "1Gi"},
         {".5", 1, "500m"},
         {"0.5", 1, "500m"},
         {"-.5", -1, "-500m"},
         {"1.500", 2, "1500m"},
         {"100.035k", 100'035, "100035"},
         {"18446744073709551616", kMax, "18446744073709551616"},
         {"1.2345", 2, "1234500u"}});
}

TEST(QuantityTest, ValuesRoundUpAwayFromZero) {
  check({{"0.1", 1, "100m"},
         {"-0.1", -1, "-100m"},
         {"1.0000000001", 2, "1000000001n"},
         {"-1.5", -2, "-1500m"},
         {"1.05Gi", 1'127'428'916, "1127428915200m"},
         {"-1.05Gi", -1'127'428'916, "-1127428915200m"}});
}

TEST(QuantityTest, FinerThanNanoRoundsUp) {
  check({{"0.9n", 1, "1n"},
         {"3.001n", 1, "4n"},
         {"-3.001n", -1, "-4n"},
         {"3.000n", 1, "3n"},
         {"1e-30", 1, "1e-9"},
         {"0.0000000001", 1, "1n"},
         {"0.00000012345", 1, "124n"},
         {"0.000000000001Ki", 1, "2n"}});
}

TEST(QuantityTest, BinaryQuantitiesPrintTheLargestExactPower) {
  check({{"1.5Gi", 1'610'612'736, "1536Mi"},
         {"1024Mi", 1LL << 30, "1Gi"},
         {"1000Ki", 1'024'000, "1000Ki"},
         {"0.5Ki", 512, "512"},                 // below 1024: decimal
         {"100.035Ki", 102'436, "102435840m"},  // not whole: decimal
         {"0.0005Ki", 1, "512m"},
         {"0Mi", 0, "0"},
         {"0.0Mi", 0, "0"},
         {"-2Ki", -2'048, "-2Ki"}});
}

TEST(QuantityTest, DecimalQuantitiesPrintPowersOfAThousand) {
  check({{"2000", 2'000, "2k"},
         {"2048", 2'048, "2048"},
         {"1000M", 1'000'000'000, "1G"},
         {"50k", 50'000, "50k"},
         {"0.0005k", 1, "500m"},
         {"1000E", kMax, "1e21"},  // SI has no letter above E
         {"-2000", -2'000, "-2k"}});
}

TEST(QuantityTest, BinaryValuesAreCappedDecimalOnesAreNot) {
  check({{"8Ei", kMax, "9223372036854775807"},
         {"-8Ei", -kMax, "-9223372036854775807"},
         {"9223372036854775807Ki", kMax, "9223372036854775807"},
         {"99999999999999999999999999999999999999999999Mi", kMax, "9223372036854775807"},
         {"7.9999999999999999999999Ei", kMax, "9223372036854775807"},
         {"12E", kMax, "12E"},
         {"-12E", kMin, "-12E"}});
}

TEST(QuantityTest, BeyondOneHundredTwentyEightBitsSaturates) {
  const auto huge = parse_quantity("1e100");
  const auto largest = parse_quantity("170141183460469231731687303715");
  ASSERT_TRUE(huge.ok());
  ASSERT_TRUE(largest.ok());
  EXPECT_EQ(huge->value(), kMax);
  EXPECT_GT(*huge, *largest);
  EXPECT_EQ(parse_quantity("-1e2147483647")->value(), kMin);
}

TEST(QuantityTest, NumbersWithoutDigits) {
  // apimachinery accepts these on its int64 path ...
  check({{".", 0, "0"},
         {"-", 0, "0"},
         {"+", 0, "0"},
         {"Ki", 0, "0"},
         {"-Ti", 0, "0"},
         {"m", 0, "0"},
         {"e3", 0, "0"},
         {".n", 0, "0"}});
  // ... and refuses them on its big-number path.
  for (const std::string text : {"Pi", "-Ei", ".Pi", "e-10", "+E-99"}) {
    const auto quantity = parse_quantity(text);
    ASSERT_FALSE(quantity.ok()) << text;
    EXPECT_EQ(quantity.error().text(), "unable to parse numeric part of quantity") << text;
  }
}

TEST(QuantityTest, WrongFormat) {
  for (const std::string text : {"", " 1", "1 ", "1,5", "0x10", "1.2.3", "1.1.M", "aoeu", "0.1am",
                                 "1KB", "1MI", "1e1e1", "1e3.5", "1K1K", "1\n", "1\xC2\xB5"}) {
    const auto quantity = parse_quantity(text);
    ASSERT_FALSE(quantity.ok()) << text;
    EXPECT_EQ(quantity.error().text(),
              "quantities must match the regular expression "
              "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
        << text;
  }
}

TEST(QuantityTest, WrongSuffix) {
  for (const std::string text :
       {"1K", "1i", "1ki", "0.1mi", "1Mi2", "1e", "1e+", "1e-", "1+1", "1-", "1ee1", "1kk",
        "1e2147483648", "1e-2147483648", "1e4294967297", "1e99999999999999999999", "-3.01i", "--1",
        "+-1"}) {
    const auto quantity = parse_quantity(text);
    ASSERT_FALSE(quantity.ok()) << text;
    EXPECT_EQ(quantity.error().text(), "unable to parse quantity's suffix") << text;
  }
}

TEST(QuantityTest, ComparesByValueNotByForm) {
  EXPECT_EQ(*parse_quantity("1Ki"), *parse_quantity("1024"));
  EXPECT_EQ(*parse_quantity("0.5"), *parse_quantity("500m"));
  EXPECT_LT(*parse_quantity("100.1"), *parse_quantity("101"));  // although both have value 101
  EXPECT_LT(*parse_quantity("-1"), *parse_quantity("1n"));
}

TEST(QuantityTest, BinaryQuantityOfBytes) {
  EXPECT_EQ(binary_quantity({0}), "0");
  EXPECT_EQ(binary_quantity({1023}), "1023");
  EXPECT_EQ(binary_quantity({1000}), "1k");
  EXPECT_EQ(binary_quantity({1024}), "1Ki");
  EXPECT_EQ(binary_quantity({1025}), "1025");
  EXPECT_EQ(binary_quantity({1572864}), "1536Ki");
  EXPECT_EQ(binary_quantity({-(1LL << 30)}), "-1Gi");
  EXPECT_EQ(binary_quantity({kMax}), "9223372036854775807");
  EXPECT_EQ(binary_quantity({kMin}), "-8Ei");
}

// Every parsed value prints as text that parses to the same value and prints the same.
TEST(QuantityTest, CanonicalFormsAreFixedPoints) {
  std::mt19937_64 random(1);
  const std::vector<std::string> suffixes{"",   "n",  "u",  "m",  "k",   "M", "G",
                                          "Ki", "Mi", "Gi", "e3", "e-7", "E5"};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = random() % 4 == 0 ? "-" : "";
    text += std::to_string(random() % 1'000'000);
    if (random() % 2 == 0) text += "." + std::to_string(random() % 100'000'000'000);
    text += suffixes[random() % suffixes.size()];
    const auto once = parse_quantity(text);
    ASSERT_TRUE(once.ok()) << text;
    const auto twice = parse_quantity(once->text());
    ASSERT_TRUE(twice.ok()) << text << " printed as " << once->text();
    EXPECT_EQ(*once, *twice) << text;
    EXPECT_EQ(once->text(), twice->text()) << text;
  }
}

}  // namespace
}  // namespace forestall
