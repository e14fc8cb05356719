// SPDX-License-Identifier: Apache-2.0
// The kernel's small text formats: parsed completely or rejected.
#include "base/parse.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/go_bool.h"

namespace forestall {
namespace {

TEST(ParseTest, Unsigned) {
  EXPECT_EQ(parse_u64("0"), 0U);
  EXPECT_EQ(parse_u64("007"), 7U);
  EXPECT_EQ(parse_u64("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  for (const std::string_view bad : {"", "-1", "+1", " 1", "1 ", "1\n", "0x1", "1.0", "max", "1e3",
                                     "18446744073709551616", "99999999999999999999999"}) {
    EXPECT_EQ(parse_u64(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_u64(std::string_view("1\0", 2)), std::nullopt) << "a NUL is not an end";
}

TEST(ParseTest, Signed) {
  EXPECT_EQ(parse_i64("-1"), -1);
  EXPECT_EQ(parse_i64("-0"), 0);
  EXPECT_EQ(parse_i64("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_i64("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  for (const std::string_view bad :
       {"", "-", "+1", "--1", "- 1", "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_EQ(parse_i64(bad), std::nullopt) << bad;
  }
}

TEST(ParseTest, GoBool) {
  for (const std::string_view word : {"1", "t", "T", "TRUE", "true", "True"}) {
    EXPECT_EQ(parse_go_bool(word), true) << word;
  }
  for (const std::string_view word : {"0", "f", "F", "FALSE", "false", "False"}) {
    EXPECT_EQ(parse_go_bool(word), false) << word;
  }
  for (const std::string_view bad : {"", "yes", "on", "tRUE", "2", "-1", " true", "no"}) {
    EXPECT_EQ(parse_go_bool(bad), std::nullopt) << bad;
  }
}

TEST(ParseTest, Trim) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(ParseTest, FieldsKeepEmptyOnes) {
  std::string_view text = "a::b";
  EXPECT_EQ(next_field(text, ':'), "a");
  EXPECT_EQ(next_field(text, ':'), "");
  EXPECT_EQ(next_field(text, ':'), "b");
  EXPECT_EQ(text, "");
  EXPECT_EQ(next_field(text, ':'), "");
}

TEST(ParseTest, FieldsAfterATrailingSeparator) {
  std::string_view text = "a:";
  EXPECT_EQ(next_field(text, ':'), "a");
  EXPECT_TRUE(text.empty());
}

TEST(ParseTest, WordsSkipBlanks) {
  std::string_view text = "  MemTotal:\t 16 kB \n";
  EXPECT_EQ(next_word(text), "MemTotal:");
  EXPECT_EQ(next_word(text), "16");
  EXPECT_EQ(next_word(text), "kB");
  EXPECT_EQ(next_word(text), "");
  EXPECT_TRUE(text.empty());
}

TEST(ParseTest, PathIsWithin) {
  struct Case {
    std::string_view path;
    std::string_view ancestor;
    bool within;
  };
  const std::vector<Case> cases{
      {"/a", "/a", true},    {"/a/b", "/a", true}, {"/a/b/c", "/a", true}, {"/", "/", true},
      {"/a", "/", true},     {"/", "/a", false},   {"/ab", "/a", false},   {"/a", "/a/b", false},
      {"/b/a", "/a", false}, {"", "/", false},     {"a", "/", false},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(path_is_within(one.path, one.ancestor), one.within)
        << one.path << " in " << one.ancestor;
  }
}

}  // namespace
}  // namespace forestall
