// SPDX-License-Identifier: Apache-2.0
// Which cgroups are selected out of trees that a tenant makes large.
#include "sources/rule_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace forestall::test {
namespace {

using kernel::CgroupVersion;
using rulesets::Item;
using rulesets::Items;
using sources::RuleSelection;

class Tree final : public sources::CgroupLister {
 public:
  void add(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
    if (parent != "/" && !children_.contains(parent)) add(parent);
    if (children_.try_emplace(path).second) children_[parent].push_back(path.substr(slash + 1));
  }
  void add_many(const std::string& parent, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add(parent + "/m" + std::to_string(i));
  }

  bool exists(const std::string& path) override { return children_.contains(path); }
  std::vector<std::string> children(const std::string& path) override {
    ++listed;
    return children_.at(path);
  }

  std::size_t listed = 0;

 private:
  std::map<std::string, std::vector<std::string>> children_{{"/", {}}};
};

rulesets::RuleNeed candidates_below(const std::string& name, Items items = Item::candidate) {
  return {.cgroups = {{{name}}}, .items = items, .descend = true};
}

class RuleSelectionTest : public ::testing::Test {
 protected:
  void select(const std::vector<rulesets::RuleNeed>& needs) {
    selection_.select(needs);
    EXPECT_LE(selected(), RuleSelection::kCgroupsMax);
  }
  [[nodiscard]] std::size_t selected() const { return selection_.selected().size(); }
  [[nodiscard]] bool has(const std::string& path) const {
    return selection_.selected().contains(path);
  }
  [[nodiscard]] bool whole(const std::string& path) const {
    return selection_.selected().at(path).whole;
  }

  Tree tree_;
  RuleSelection selection_{tree_, CgroupVersion::v2};
};

// Two patterns: 4,096 cgroups each.
TEST_F(RuleSelectionTest, OneTopDoesNotUseUpTheShareOfAnother) {
  for (const char* part : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    tree_.add_many("/large/" + std::string(part), 500);
    tree_.add_many("/other/" + std::string(part), 400);
  }
  select({candidates_below("large"), candidates_below("other")});
  EXPECT_TRUE(has("/large/h/m499"));
  EXPECT_FALSE(whole("/large/h"));
  EXPECT_TRUE(whole("/large/i"));
  EXPECT_FALSE(has("/large/i/m0"));
  for (const auto& [path, each] : selection_.selected()) {
    EXPECT_FALSE(each.whole && path.starts_with("/other")) << path;
  }
  EXPECT_TRUE(has("/other/i/m399"));
  EXPECT_FALSE(selection_.incomplete());
}

TEST_F(RuleSelectionTest, WhatATopLeavesIsForThoseAfterIt) {
  tree_.add_many("/small", 10);
  for (const char* part : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    tree_.add_many("/large/" + std::string(part), 500);
  }
  select({candidates_below("small"), candidates_below("large")});
  EXPECT_TRUE(has("/large/i/m499"));
  EXPECT_FALSE(whole("/large/i"));
}

TEST_F(RuleSelectionTest, WhatIsSelectedForAnotherRulesetIsNoWhole) {
  for (const char* part : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    tree_.add_many("/top/" + std::string(part), 500);
  }
  rulesets::RuleNeed inner = candidates_below("top", Item::swap);
  inner.cgroups[0].components.emplace_back("i");
  select({candidates_below("top"), inner});
  EXPECT_FALSE(whole("/top/i"));
  ASSERT_TRUE(has("/top/i/m0"));
  const Items items = selection_.selected().at("/top/i/m0").items;
  EXPECT_TRUE(items.has(Item::swap));
  EXPECT_TRUE(items.has(Item::candidate));
  EXPECT_FALSE(selection_.selected().at("/top/a/m0").items.has(Item::swap));
}

TEST_F(RuleSelectionTest, ALongChainOfLargeCgroupsEnds) {
  std::string path = "/deep";
  std::string last;
  for (std::size_t i = 1; i <= RuleSelection::kLargeMax + 10; ++i) {
    path += "/x";
    if (i == RuleSelection::kLargeMax) last = path;
  }
  tree_.add_many(path, RuleSelection::kDescendantsMax + 1);
  select({candidates_below("deep")});
  ASSERT_TRUE(has(last));
  EXPECT_TRUE(whole(last));
  EXPECT_FALSE(has(last + "/x"));
}

// Two cgroups: a half each.
TEST_F(RuleSelectionTest, ListsABoundedNumberOfDirectories) {
  for (std::size_t i = 0; i < 50; ++i) {
    tree_.add_many("/top/t" + std::to_string(i), RuleSelection::kDescendantsMax);
  }
  tree_.add("/other/a/b");
  select({candidates_below("top"), candidates_below("other")});
  EXPECT_LE(tree_.listed, RuleSelection::kListedMax);
  EXPECT_TRUE(has("/top/t0/m0"));
  EXPECT_TRUE(whole("/top/t49"));
  EXPECT_TRUE(has("/other/a/b"));
  EXPECT_FALSE(whole("/other"));
}

// Its cgroups match the pattern, as many as the limit. Others keep their shares.
TEST_F(RuleSelectionTest, ManyTopsOfATenantTakeFromEachOther) {
  tree_.add_many("/slice/tenant", 4200);
  for (std::size_t i = 0; i < 10; ++i) {
    const std::string name = "/slice/calm/c" + std::to_string(i);
    tree_.add_many(name, 100);
  }
  rulesets::RuleNeed need = candidates_below("slice");
  need.cgroups[0].components = {"slice", "*", "*"};
  select({need});
  for (std::size_t i = 0; i < 10; ++i) {
    const std::string name = "/slice/calm/c" + std::to_string(i);
    EXPECT_FALSE(whole(name));
    EXPECT_TRUE(has(name + "/m99"));
  }
}

TEST_F(RuleSelectionTest, NamedCgroupsBeyondTheLimitMakeItIncomplete) {
  tree_.add_many("/many", RuleSelection::kCgroupsMax + 1);
  rulesets::RuleNeed need{.cgroups = {{{"many", "*"}}}, .items = Item::usage};
  selection_.select({need});
  EXPECT_TRUE(selection_.incomplete());
}

TEST_F(RuleSelectionTest, ProtectionIsReadOfSiblingsAndAncestors) {
  tree_.add("/a/b/named");
  tree_.add("/a/b/sibling");
  tree_.add("/a/other/below");
  rulesets::RuleNeed need{.cgroups = {{{"a", "b", "named"}}}, .items = Item::protection};
  select({need});
  for (const char* path : {"/a", "/a/b", "/a/b/sibling", "/a/other"}) {
    ASSERT_TRUE(has(path)) << path;
    EXPECT_TRUE(selection_.selected().at(path).items.has(Item::protection)) << path;
  }
  EXPECT_TRUE(has("/"));
  EXPECT_FALSE(has("/a/other/below"));
}

}  // namespace
}  // namespace forestall::test
