// SPDX-License-Identifier: Apache-2.0
#include "text/json_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::text {
namespace {

constexpr JsonDialect kRelaxed{.comments = true, .trailing_commas = true};

std::string problem_of(std::string_view text, const JsonDialect& dialect = {}) {
  std::vector<Diagnostic> problems;
  const auto root = parse_json(text, dialect, 1, problems);
  if (root) return "none";
  if (problems.empty()) return "no problem reported";
  return std::to_string(problems[0].at.line) + ":" + std::to_string(problems[0].at.column) + ": " +
         problems[0].message;
}

TEST(JsonTree, ValuesKeepTheirPositionsAndNumbersTheirText) {
  std::vector<Diagnostic> problems;
  const auto root =
      parse_json("{\n  \"a\": [1.50, true],\n\t\"b\\u00e9\\n\": {\"c\": null}}", {}, 7, problems);
  ASSERT_TRUE(root);
  const JsonNode& list = *root->find("a");
  EXPECT_EQ(list.at, (Position{8, 8}));
  EXPECT_EQ(list.items[0].text, "1.50");
  EXPECT_TRUE(list.items[1].flag);
  EXPECT_EQ(root->members[1].at, (Position{9, 2}));
  EXPECT_EQ(root->members[1].key, "b\xC3\xA9\n");
  EXPECT_EQ(root->members[1].value.find("c")->kind, JsonNode::Kind::null);
  EXPECT_EQ(root->find("c"), nullptr);
}

TEST(JsonTree, SurrogatePairsAreOneCharacter) {
  std::vector<Diagnostic> problems;
  const auto root = parse_json(R"("\ud83d\ude00\/")", {}, 1, problems);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->text, "\xF0\x9F\x98\x80/");
}

TEST(JsonTree, CommentsAndTrailingCommasBelongToADialect) {
  constexpr std::string_view kText = "// x\n[1, /* y\n */ 2,] // z";
  EXPECT_EQ(problem_of(kText, kRelaxed), "none");
  EXPECT_EQ(problem_of(kText), "1:1: invalid JSON: expected a value");
  EXPECT_EQ(problem_of("[1,]"), "1:3: invalid JSON: a comma before ']'");
  EXPECT_EQ(problem_of("[1,,]", kRelaxed), "1:4: invalid JSON: expected a value");
  EXPECT_EQ(problem_of("[1 /* 2]", kRelaxed), "1:4: the comment is not closed");
}

TEST(JsonTree, MistakesHaveTheirPosition) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "1:1: invalid JSON: the text ends early"},
      {"{\"a\": 1, \"a\": 2}", "1:10: the key 'a' occurs twice"},
      {"{\"a\" 1}", "1:6: invalid JSON: expected ':' after the key"},
      {"{a: 1}", "1:2: invalid JSON: expected a key in double quotes"},
      {"[1 2]", "1:4: invalid JSON: expected ',' or ']'"},
      {"[1", "1:3: invalid JSON: the text ends early"},
      {"[01]", "1:2: invalid JSON: malformed number '01'"},
      {"\"a", "1:1: invalid JSON: a string is not closed"},
      {"\"\\x\"", "1:2: invalid JSON: unknown escape in a string"},
      {"\"\\ud800\"", "1:2: invalid JSON: half of a surrogate pair"},
      {"\"a\nb\"", "1:3: invalid JSON: control character in a string"},
      {"\"\xC3\xA9\" x", "1:5: invalid JSON: text after the end of the document"},
      {"\"\xFF\"", "1:2: invalid JSON: not UTF-8"},
      {"nul", "1:1: invalid JSON: expected a value"}};
  for (const auto& [text, problem] : cases) EXPECT_EQ(problem_of(text), problem) << text;
  EXPECT_THAT(problem_of(std::string(200, '[')), testing::HasSubstr("too many levels"));
}

}  // namespace
}  // namespace forestall::text
