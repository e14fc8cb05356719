// SPDX-License-Identifier: Apache-2.0
// Objects of a list, and the text around them, whatever the sizes of the pieces.
#include "text/list_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forestall::text {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Split {
  std::vector<std::string> items;  // "INDEX@LINE:COLUMN TEXT"
  std::string frame;
  bool found = false;
  std::string problem;
};

Split split(const std::string& text, std::size_t piece = 1, std::size_t bytes_max = 1 << 20) {
  Split result;
  ListSplitter splitter(
      "items", bytes_max, [&] { result.items.clear(); },
      [&](const ListItem& item) -> Result<void> {
        result.items.push_back(std::to_string(item.index) + "@" + std::to_string(item.line) + ":" +
                               std::to_string(item.column) + " " + std::string(item.text));
        return {};
      });
  Result<void> added;
  for (std::size_t at = 0; at < text.size() && added; at += piece) {
    added = splitter.add(std::string_view(text).substr(at, piece));
  }
  if (added) added = splitter.end();
  if (!added) result.problem = added.error().text();
  result.frame = splitter.frame();
  result.found = splitter.found();
  return result;
}

TEST(ListSplitter, PassesEachObjectAndKeepsTheFrame) {
  const std::string text =
      "{\"a\": [{}],\n \"items\": [{\"b\": {}},\n  7, {\"c\": [1]}], \"kind\": \"L\"}";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, text.size()}) {
    const Split result = split(text, piece);
    EXPECT_THAT(result.items, ElementsAre("0@2:12 {\"b\": {}}", "2@3:6 {\"c\": [1]}"));
    EXPECT_EQ(result.frame, "{\"a\": [{}],\n \"items\": [{},\n  7, {}], \"kind\": \"L\"}");
    EXPECT_TRUE(result.found);
  }
}

TEST(ListSplitter, StringsHideBracesQuotesAndKeys) {
  const Split result = split(R"({"x": "items", "items": [{"s": "}]\"\\", "items": [{}]}]})");
  EXPECT_THAT(result.items, ElementsAre(R"(0@1:26 {"s": "}]\"\\", "items": [{}]})"));
}

TEST(ListSplitter, OnlyTheListOfTheOutermostObjectCounts) {
  for (const std::string text : {R"({"a": {"items": [{}]}})", R"([{"items": [{}]}])",
                                 R"({"items": {"a": [{}]}})", R"({"b": ["items", [{}]]})", "tru"}) {
    const Split result = split(text);
    EXPECT_THAT(result.items, IsEmpty()) << text;
    EXPECT_EQ(result.frame, text);
    EXPECT_FALSE(result.found) << text;
  }
}

TEST(ListSplitter, TheLastOfARepeatedListCounts) {
  EXPECT_THAT(split(R"({"items": [{"a": 1}, {}], "items": [{"b": 2}]})").items,
              ElementsAre(R"(0@1:37 {"b": 2})"));
}

TEST(ListSplitter, PassesOnAnObjectThatIsNotClosed) {
  EXPECT_THAT(split(R"({"items": [{"a": )").items, ElementsAre(R"(0@1:12 {"a": )"));
}

TEST(ListSplitter, BoundsOneObjectAndTheFrame) {
  const std::size_t mib = 1 << 20;
  const std::string filler(mib, ' ');
  EXPECT_EQ(split("{\"items\": [{}, {" + filler, 4096, mib).problem, "items[1]: larger than 1 MiB");
  EXPECT_EQ(split("{" + filler, 4096, mib).problem,
            "the text outside of items is larger than 1 MiB");
}

}  // namespace
}  // namespace forestall::text
