// SPDX-License-Identifier: Apache-2.0
#include "intake/cgroup_glob.h"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <random>

namespace forestall::test {
namespace {

using intake::may_lie_within;

TEST(CgroupGlob, WellFormed) {
  for (const std::string_view glob :
       {"/", "/a", "/a/b.slice", "/*", "/a?/[bc]*/d", "/...", "/a b"}) {
    EXPECT_TRUE(intake::check_glob(glob).ok()) << glob;
  }
  EXPECT_FALSE(intake::check_glob("/" + std::string(4095, 'a')).ok());
  EXPECT_TRUE(intake::check_cgroup_path("/kubelet").ok());
  EXPECT_FALSE(intake::check_cgroup_path("/a?").ok());
}

TEST(CgroupGlob, Within) {
  EXPECT_TRUE(may_lie_within("/a", "/a"));
  EXPECT_TRUE(may_lie_within("/a/b/c", "/a"));
  EXPECT_TRUE(may_lie_within("/a/b", "/"));
  EXPECT_TRUE(may_lie_within("/a/*", "/a/b*"));
  EXPECT_TRUE(may_lie_within("/x*/c", "/*y"));
  EXPECT_TRUE(may_lie_within("/a?c", "/ab?"));
  EXPECT_TRUE(may_lie_within("/[ab]", "/c"));  // errs towards true
  EXPECT_FALSE(may_lie_within("/a", "/a/b"));
  EXPECT_FALSE(may_lie_within("/a", "/b"));
  EXPECT_FALSE(may_lie_within("/ab*", "/ac*"));
  EXPECT_FALSE(may_lie_within("/a?", "/a"));
  EXPECT_FALSE(may_lie_within("/a*b", "/a*c"));
  EXPECT_FALSE(may_lie_within("/", "/a"));
}

// Against the definition: two patterns over {a, b} overlap exactly if some text of up to 8
// characters (enough for patterns of 4) matches both by fnmatch, which is used at run time.
TEST(CgroupGlob, AgreesWithFnmatch) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == 8) break;
    texts.push_back(texts[i] + 'a');
    texts.push_back(texts[i] + 'b');
  }
  std::mt19937 random(1);  // NOLINT: the same patterns in every run
  const auto pattern = [&] {
    std::string text;
    for (auto length = 1 + random() % 4; length > 0; --length) text += "ab?*"[random() % 4];
    return text;
  };
  int met = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::string a = pattern(), b = pattern();
    bool expected = false;
    for (const std::string& text : texts) {
      if (text.empty()) continue;  // no part of a path is empty
      expected = expected || (fnmatch(a.c_str(), text.c_str(), FNM_PATHNAME) == 0 &&
                              fnmatch(b.c_str(), text.c_str(), FNM_PATHNAME) == 0);
    }
    met += expected ? 1 : 0;
    ASSERT_EQ(may_lie_within("/" + a, "/" + b), expected) << a << " " << b;
  }
  EXPECT_GT(met, 200);
  EXPECT_LT(met, 1800);
}

}  // namespace
}  // namespace forestall::test
