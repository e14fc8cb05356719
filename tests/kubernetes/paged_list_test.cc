// SPDX-License-Identifier: Apache-2.0
// A list in pages: the requests, and what the sink gets if a page fails.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "kubernetes/list_watch.h"
#include "text/json_value.h"

namespace forestall::kubernetes {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFirstPage = "/api/v1/pods?limit=2";
constexpr const char* kWhole = "/api/v1/pods";

// The names of the objects, in order; " | " where a list begins, "." where it ends.
class NameSink final : public ObjectSink {
 public:
  void list_begins() override { names += '|'; }
  Result<void> listed(const text::JsonValue& object) override {
    names += TRY(object.text("name"));
    return {};
  }
  void list_ends() override { names += '.'; }
  Result<void> changed(ChangeType, const text::JsonValue&) override { return {}; }

  std::string names;
};

std::string page_of(const std::string& names, const std::string& next, int version = 10) {
  std::string items;
  for (const char each : names) {
    items += fmt::format(R"({}{{"name":"{}"}})", items.empty() ? "" : ",", each);
  }
  return fmt::format(
      R"({{"kind":"PodList","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})",
      version, next, items);
}

class PagedListTest : public ::testing::Test {
 protected:
  // The next request, when it is due.
  std::string request() {
    if (watch_.due() > now_) now_ = watch_.due();
    return watch_.next(now_).value_or("none");
  }
  void reply(const std::string& body, int code = 200,
             const std::optional<Error>& failure = std::nullopt) {
    watch_.head({code, "", ""}, now_);
    const bool more = watch_.body(body, now_);
    watch_.end(more ? failure : Error{ECANCELED, "cancelled"}, now_);
  }
  void cut(const std::string& body) { reply(body, 200, Error{ECONNRESET, "cut"}); }
  static std::string next_page(const std::string& name) {
    return kFirstPage + ("&continue=" + name);
  }

  NameSink sink_;
  ListWatch watch_{"/api/v1/pods", "", sink_, [] { return 0.0; }, {.newest = true, .page = 2}};
  MonotonicTime now_ = from_ns(1'000'000'000'000);
};

TEST_F(PagedListTest, IsCompleteAfterItsLastPage) {
  const MonotonicTime begun = now_;
  EXPECT_EQ(request(), kFirstPage);
  now_ += seconds(20);
  reply(page_of("ab", "p&2"));
  EXPECT_FALSE(watch_.state().complete);
  EXPECT_EQ(watch_.state().listing, begun);
  EXPECT_EQ(request(), next_page("p%262"));
  now_ += seconds(20);
  reply(page_of("cd", "p3"));
  EXPECT_EQ(request(), next_page("p3"));
  reply(page_of("e", "", 99));
  EXPECT_EQ(sink_.names, "|abcde.");
  EXPECT_EQ(watch_.state().confirmed, begun) << "each page is of the first one's state";
  EXPECT_EQ(watch_.state().list_took, Duration(seconds(40)));
  EXPECT_EQ(watch_.state().listing, std::nullopt);
  EXPECT_EQ(watch_.state().lists, 1U);
  EXPECT_THAT(request(), HasSubstr("watch=1&allowWatchBookmarks=true&resourceVersion=10&"))
      << "of the first page: no change after it is missed";
}

TEST_F(PagedListTest, HasAPageWithoutObjects) {
  EXPECT_EQ(request(), kFirstPage);
  reply(page_of("", "p2"));
  EXPECT_EQ(request(), next_page("p2"));
  reply(page_of("", ""));
  EXPECT_EQ(sink_.names, "|.");
}

TEST_F(PagedListTest, RequestsAPageAgainThatMayHaveSuccess) {
  EXPECT_EQ(request(), kFirstPage);
  reply(page_of("ab", "p2"));
  for (const int code : {500, 429, 503}) {
    EXPECT_EQ(request(), next_page("p2"));
    reply("{}", code);
  }
  EXPECT_EQ(request(), next_page("p2"));
  reply(page_of("cd", "p3"));
  EXPECT_EQ(request(), next_page("p3"));
  cut(page_of("ef", "").substr(0, 90));
  EXPECT_EQ(request(), next_page("p3"));
  reply(page_of("ef", ""));
  EXPECT_EQ(sink_.names, "|abcdeef.") << "a sink replaces an object by a later one of its name";
  EXPECT_EQ(watch_.state().lists, 1U);
}

TEST_F(PagedListTest, BeginsAgainAfterRepeatedFailuresOfAPage) {
  EXPECT_EQ(request(), kFirstPage);
  reply(page_of("ab", "p2"));
  for (int i = 0; i < ListWatch::kPageFailuresMax; ++i) {
    EXPECT_EQ(request(), next_page("p2"));
    cut("");
  }
  EXPECT_EQ(request(), kFirstPage);
  EXPECT_EQ(watch_.state().lists, 2U);
  reply(page_of("x", ""));
  EXPECT_EQ(sink_.names, "|ab|x.");
}

// A list of a large cluster may take longer than the server keeps the state of its first page.
TEST_F(PagedListTest, IsWholeAfterItsStateExpired) {
  EXPECT_EQ(request(), kFirstPage);
  reply(page_of("ab", "p2"));
  EXPECT_EQ(request(), next_page("p2"));
  reply(R"({"kind":"Status","reason":"Expired","code":410})", 410);
  EXPECT_EQ(request(), kWhole);
  reply(page_of("abc", ""));
  EXPECT_EQ(sink_.names, "|ab|abc.");
  watch_.list_now();
  EXPECT_EQ(request(), kFirstPage);
}

TEST_F(PagedListTest, HasPagesAgainAfterAWholeListFailed) {
  EXPECT_EQ(request(), kFirstPage);
  reply(page_of("ab", "p2"));
  EXPECT_EQ(request(), next_page("p2"));
  reply("{}", 410);
  EXPECT_EQ(request(), kWhole);
  cut("");
  EXPECT_EQ(request(), kFirstPage);
}

TEST_F(PagedListTest, BeginsAgainAfterAPageThatCannotBeUsed) {
  for (const std::string& page :
       {page_of("cd", "p2"), std::string("garbage"), page_of("c", std::string(5'000, 'x')),
        std::string(R"({"kind":"PodList","metadata":{},"items":[]})")}) {
    ListWatch watch("/api/v1/pods", "", sink_, [] { return 0.0; }, {.newest = true, .page = 2});
    const auto reply_to = [&](const std::string& body) {
      watch.head({200, "", ""}, now_);
      const bool more = watch.body(body, now_);
      watch.end(more ? std::nullopt : std::optional(Error{ECANCELED, "cancelled"}), now_);
    };
    EXPECT_EQ(watch.next(now_), kFirstPage);
    reply_to(page_of("ab", "p2"));
    EXPECT_EQ(watch.next(now_), next_page("p2"));
    EXPECT_EQ(watch.state().problem, "");
    reply_to(page);
    EXPECT_THAT(watch.state().problem, HasSubstr("the list cannot be used")) << page;
    EXPECT_FALSE(watch.state().complete);
    now_ = watch.due();
    EXPECT_EQ(watch.next(now_), kFirstPage) << page;
  }
}

// The limit is that of the list, and not of each page. Pages would be too slow again.
TEST_F(PagedListTest, IsWholeAfterPagesThatAreTooSlow) {
  const MonotonicTime begun = now_;
  EXPECT_EQ(request(), kFirstPage);
  int pages = 0;
  while (!watch_.overdue(now_) && pages < 100) {
    now_ += seconds(25);
    reply(page_of("a", "p" + std::to_string(pages++)));
    ASSERT_THAT(request(), HasSubstr("&continue=p"));
  }
  EXPECT_EQ(now_ - begun, Duration(seconds(125)));
  watch_.end_overdue(now_);
  EXPECT_EQ(watch_.state().problem, "not complete after 125 s");
  EXPECT_EQ(request(), kWhole);
  now_ += seconds(20);
  reply(page_of("a", ""));
  EXPECT_TRUE(watch_.state().complete);
}

TEST_F(PagedListTest, HasPagesAgainAfterAWholeListThatIsTooSlow) {
  EXPECT_EQ(request(), kFirstPage);
  reply(page_of("ab", "p2"));
  EXPECT_EQ(request(), next_page("p2"));
  reply("{}", 410);
  EXPECT_EQ(request(), kWhole);
  now_ += seconds(120);
  watch_.end_overdue(now_);
  EXPECT_EQ(request(), kFirstPage);
}

// Else some failures in hundreds of pages take longer than a list may.
TEST_F(PagedListTest, WaitsAsShortAfterTheFirstFailureOfEachPage) {
  EXPECT_EQ(request(), kFirstPage);
  reply(page_of("a", "p0"));
  for (int i = 0; i < 20; ++i) {
    const std::string name = "p" + std::to_string(i);
    EXPECT_EQ(request(), next_page(name));
    reply("{}", 500);
    EXPECT_LE(watch_.due() - now_, Backoff::kFirst) << name;
    EXPECT_EQ(request(), next_page(name));
    reply(page_of("a", "p" + std::to_string(i + 1)));
  }
}

TEST_F(PagedListTest, WaitsLongerAfterEachFailureOfAList) {
  Duration last = Duration::zero();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(request(), kFirstPage);
    reply(page_of("a", "p2"));
    EXPECT_EQ(request(), next_page("p2"));
    reply(R"({"kind":"Status","reason":"Forbidden","code":403})", 403);
    EXPECT_GT(watch_.due() - now_, last);
    last = watch_.due() - now_;
  }
}

// What a list without pages needs is too long for a page.
TEST_F(PagedListTest, HasALimitOfItsOwnForThePagesSilence) {
  ListWatch watch("/api/v1/pods", "", sink_, [] { return 0.0; },
                  {.silence = seconds(100), .newest = true, .page = 2});
  const auto reply_to = [&](const std::string& body, int code) {
    watch.head({code, "", ""}, now_);
    EXPECT_TRUE(watch.body(body, now_));
    watch.end(std::nullopt, now_);
  };
  EXPECT_EQ(watch.next(now_), kFirstPage);
  EXPECT_EQ(watch.due() - now_, Duration(seconds(30)));
  reply_to(page_of("ab", "p2"), 200);
  EXPECT_EQ(watch.next(now_), next_page("p2"));
  EXPECT_EQ(watch.due() - now_, Duration(seconds(30)));
  reply_to("{}", 410);
  now_ = watch.due();
  EXPECT_EQ(watch.next(now_), kWhole);
  EXPECT_EQ(watch.due() - now_, Duration(seconds(100)));
}

TEST_F(PagedListTest, BeginsAgainAtOnceForItsOwner) {
  for (const bool between : {false, true}) {
    EXPECT_EQ(request(), kFirstPage);
    reply(page_of("ab", "p2"));
    if (!between) {
      EXPECT_EQ(request(), next_page("p2"));
    }
    now_ += seconds(1);
    watch_.list_now();
    EXPECT_EQ(watch_.overdue(now_), !between);
    if (!between) watch_.end_overdue(now_);
  }
  EXPECT_EQ(request(), kFirstPage);
  EXPECT_EQ(watch_.state().listing, now_);
}

}  // namespace
}  // namespace forestall::kubernetes
