// SPDX-License-Identifier: Apache-2.0
// Anchors, aliases and merge keys. What is refused: tests/data/config/refused.txt.
#include "text/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "text/json_writer.h"
#include "text/yaml_json.h"

namespace forestall::text {
namespace {

// The tree as JSON, or the first problem.
std::string read(std::string_view text, RepeatedKeys repeated = RepeatedKeys::refuse) {
  std::vector<Diagnostic> problems;
  const auto tree = parse_yaml(text, problems, repeated);
  if (!problems.empty()) {
    return std::to_string(problems[0].at.line) + ":" + std::to_string(problems[0].at.column) +
           ": " + problems[0].message;
  }
  if (!tree) return "no problem reported";
  JsonWriter out(JsonLayout::one_line);
  write_json(*tree, out);
  return std::move(out).take();
}

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(YamlTree, AnAliasIsACopyOfItsAnchor) {
  EXPECT_EQ(read("a: &x {p: 1}\nb: *x\nc: [*x, &y q]\nd: *y"),
            R"({"a":{"p":1},"b":{"p":1},"c":[{"p":1},"q"],"d":"q"})");
  // An anchor of an empty value, of a key, and one that is defined again.
  EXPECT_EQ(read("a: &x\nb: *x\n&k c: *k\nd: &x 2\ne: *x"),
            R"({"a":null,"b":null,"c":"c","d":2,"e":2})");
  EXPECT_EQ(read("a: &k c\n*k : 1"), R"({"a":"c","c":1})");
}

TEST(YamlTree, ACopyHasThePositionsOfItsAnchor) {
  std::vector<Diagnostic> problems;
  const auto tree = parse_yaml("a: &x\n  p: 1\nb: *x", problems);
  ASSERT_TRUE(tree);
  const YamlNode& copy = tree->entries.at(1).value;
  EXPECT_EQ(copy.entries.at(0).at, (Position{2, 3}));
  EXPECT_EQ(copy.entries.at(0).value.at, (Position{2, 6}));
}

TEST(YamlTree, GivenKeysComeBeforeMergedOnesAndEarlierMapsFirst) {
  const std::string base = "x: &x {p: 1, q: 1}\ny: &y {q: 2, r: 2}\n";
  const std::string read_of_base = R"({"x":{"p":1,"q":1},"y":{"q":2,"r":2},"z":)";
  EXPECT_EQ(read(base + "z: {<<: *x, p: 3}"), read_of_base + R"({"p":3,"q":1}})");
  EXPECT_EQ(read(base + "z: {p: 3, <<: *x}"), read_of_base + R"({"p":3,"q":1}})");
  EXPECT_EQ(read(base + "z: {<<: [*y, *x]}"), read_of_base + R"({"q":2,"r":2,"p":1}})");
  EXPECT_EQ(read(base + "z: {<<: {s: 4}}"), read_of_base + R"({"s":4}})");
  // In quotes it is a key as any other.
  EXPECT_EQ(read(R"({"<<": {"s": 4}})"), R"({"<<":{"s":4}})");
}

TEST(YamlTree, OfTwoMergeKeysOneIsRefusedOrBothCount) {
  const std::string text = "{<<: {p: 1}, <<: {q: 2}}";
  EXPECT_EQ(read(text), "1:14: key '<<' was already given in line 1");
  EXPECT_EQ(read(text, RepeatedKeys::replace), R"({"p":1,"q":2})");
}

TEST(YamlTree, AliasesThatMultiplyAreRefused) {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char each = 'b'; each <= 'i'; ++each) {
    const std::string before(1, static_cast<char>(each - 1));
    bomb += std::string(1, each) + ": &" + each + " [" + repeated("*" + before + ", ", 9) + "]\n";
  }
  EXPECT_THAT(read(bomb),
              testing::EndsWith("more than 100000 values, with copies for anchors and aliases"));
  const std::string large = "a: &a " + repeated("x", 1 << 19) + "\nb: [";
  EXPECT_THAT(read(large + repeated("*a, ", 17) + "]"),
              testing::EndsWith("anchors and aliases make more than 8 MiB of copies"));
  EXPECT_EQ(read(large + repeated("*a, ", 10) + "]").substr(0, 7), R"({"a":"x)");
}

TEST(YamlTree, AnchorsInEachOtherCountAsTheirCopies) {
  const std::string nested = repeated("&a [", 30) + repeated("x, ", 5000) + repeated("]", 30);
  EXPECT_THAT(read(nested), testing::HasSubstr("more than 100000 values"));
}

TEST(YamlTree, ACopyMayNotBeTooDeep) {
  const std::string deep = "a: &a " + repeated("[", 30) + repeated("]", 30) + "\n";
  EXPECT_THAT(read(deep + "b: *a"), testing::StartsWith("{"));
  EXPECT_EQ(read(deep + "b: [[*a]]"), "2:6: nested more than 32 deep");
}

TEST(YamlTree, AKeyIsNoCopyOfAMap) {
  EXPECT_EQ(read("a: &a {}\n*a : 1"), "2:1: a key must be a plain word, not a map or list");
}

}  // namespace
}  // namespace forestall::text
