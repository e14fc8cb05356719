// SPDX-License-Identifier: Apache-2.0
// The parts of the page. browser_test.py tests it in a browser.
#include "page/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace forestall::page {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(ReportPageTest, NothingInThePictureEndsItsElement) {
  const std::string page =
      report_page(R"({"a":"</script><script>alert(1)</script><!--","b":"x&y"})");
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, HasSubstr(R"("\u003c/script\u003e\u003cscript\u003ealert(1))"));
  EXPECT_THAT(page, HasSubstr(R"("b":"x\u0026y")"));
}

TEST(ReportPageTest, EveryScriptAndStyleIsInThePolicyByItsHash) {
  const std::string page = report_page("{}");
  // The picture's element is not an executable script.
  const std::size_t scripts = count(page, "<script>");
  const std::size_t styles = count(page, "<style>");
  EXPECT_EQ(count(page, "<script"), scripts + 1);
  EXPECT_EQ(count(page, "</script>"), scripts + 1) << "a script's text ends its element";
  const auto begin = page.find("content=\"default-src 'none'");
  const auto policy = page.substr(begin, page.find("\">", begin) - begin);
  EXPECT_EQ(count(policy, "'sha256-"), scripts + styles);
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_THAT(policy, Not(HasSubstr("http")));
}

TEST(ReportPageTest, ContainsNoExternalReferences) {
  const std::string page = report_page("{}");
  for (const std::string_view what : {" src=", " href=", "url(", "@import", "onclick="}) {
    EXPECT_EQ(count(page, what), 0U) << what;
  }
}

TEST(ReportPageTest, TheLivePageRefersToItsPartsAndHasNoScriptInside) {
  const auto parts = assets();
  ASSERT_EQ(parts.front().path, "");
  const std::string_view markup = parts.front().text;
  EXPECT_EQ(count(markup, "<script>"), 0U);
  EXPECT_EQ(count(markup, "<style"), 0U);
  std::set<std::string_view> paths;
  for (const Asset& part : parts) {
    EXPECT_TRUE(paths.insert(part.path).second) << part.path;
    EXPECT_FALSE(part.text.empty()) << part.path;
    if (part.path.empty()) continue;
    EXPECT_EQ(count(markup, "\"" + std::string(part.path) + "\""), 1U) << part.path;
  }
  EXPECT_THAT(std::string(live_policy()), Not(HasSubstr("unsafe")));
}

}  // namespace
}  // namespace forestall::page
