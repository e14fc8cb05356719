// SPDX-License-Identifier: Apache-2.0
#include "rulesets/cgroup_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::rulesets {
namespace {

struct GlobCase {
  const char* pattern;
  const char* name;
  bool matches;
};

TEST(CgroupPattern, ComponentsAreGlobs) {
  const GlobCase cases[] = {{"*", "a", true},
                            {"*", ".a", false},
                            {".*", ".a", true},
                            {"?", "a", true},
                            {"?", "", false},
                            {"a?", "a", false},
                            {"a*b*c", "axxbyyc", true},
                            {"a*b*c", "axxb", false},
                            {"[ab]x", "bx", true},
                            {"[!ab]x", "bx", false},
                            {"[^ab]x", "cx", true},
                            {"[a-c]", "b", true},
                            {"[a-c]", "d", false},
                            {"[]]", "]", true},
                            {"[a", "[a", true},
                            {"[[:digit:]]x", "1x", true},
                            {"[[:digit:]]x", "ax", false},
                            {"[[:digit:]a]", "a", true},
                            {"[![:alpha:]]", "1", true},
                            {"[\\]]", "]", true},
                            {"[a\\-z]", "b", false},
                            {"[a\\-z]", "-", true},
                            {"{a}b", "ab", true},
                            {"{}", "{}", true},
                            {"\\*", "*", true},
                            {"\\*", "a", false},
                            {"a.slice", "a.slice", true},
                            {"", "", true}};
  for (const GlobCase& each : cases) {
    EXPECT_EQ(component_matches(each.pattern, each.name), each.matches)
        << each.pattern << " " << each.name;
  }
  const std::string many = std::string(40, 'a');
  EXPECT_FALSE(component_matches("*a*a*a*a*a*a*a*a*a*a*b", many));
}

std::vector<std::string> matched(std::string_view patterns) {
  RuleObservation observed;
  for (const char* path : {"/", "/a", "/a/x", "/a/y", "/b", "/b/x"}) {
    observed.cgroups.emplace_back().path = path;
  }
  std::vector<std::string> paths;
  for (const Cgroup* each : matching(parse_cgroup_patterns(patterns), observed)) {
    paths.push_back(each->path);
  }
  return paths;
}

TEST(CgroupPattern, ListsMatchEachCgroupOnce) {
  using testing::ElementsAre;
  EXPECT_THAT(matched("a/*,*/x"), ElementsAre("/a/x", "/a/y", "/b/x"));
  EXPECT_THAT(matched("/"), ElementsAre("/"));
  EXPECT_THAT(matched("/a/"), ElementsAre("/a"));
  EXPECT_THAT(matched(""), ElementsAre());
  EXPECT_THAT(matched("a, b"), ElementsAre("/a"));  // blanks are not trimmed
}

TEST(CgroupPattern, HooksMatchAncestorsAndDescendants) {
  const auto matches = [](std::string_view pattern, std::string_view path) {
    return hook_matches(parse_cgroup_patterns(pattern), path);
  };
  EXPECT_TRUE(matches("/", "/a/b"));
  EXPECT_TRUE(matches("a", "/a/b"));
  EXPECT_TRUE(matches("a/b/c", "/a/b"));
  EXPECT_TRUE(matches("*/b", "/a/b/c"));
  EXPECT_FALSE(matches("a/c", "/a/b"));
  EXPECT_FALSE(matches("a/[b]", "/a/b"));  // other characters are literal
  EXPECT_FALSE(matches("", "/a"));
}

}  // namespace
}  // namespace forestall::rulesets
