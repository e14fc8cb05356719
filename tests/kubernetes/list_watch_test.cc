// SPDX-License-Identifier: Apache-2.0
// The order and the times of requests after each kind of answer, and what reaches the sink.
// Answers are those that were recorded from a kube-apiserver.
#include "kubernetes/list_watch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "text/json_value.h"

namespace forestall::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kExpired =
    R"({"type":"ERROR","object":{"kind":"Status","status":"Failure",)"
    R"x("message":"too old resource version: 1 (460)","reason":"Expired","code":410}})x"
    "\n";
constexpr const char* kBookmark =
    R"({"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":)"
    R"({"resourceVersion":"545","creationTimestamp":null},"spec":{"containers":null}}})"
    "\n";

std::string object(const std::string& uid, int version) {
  return fmt::format(R"({{"metadata":{{"uid":"{}","resourceVersion":"{}"}}}})", uid, version);
}

std::string list(const std::vector<std::string>& uids, int version) {
  std::string items;
  for (const std::string& uid : uids) items += (items.empty() ? "" : ",") + object(uid, version);
  return fmt::format(R"({{"kind":"PodList","metadata":{{"resourceVersion":"{}"}},"items":[{}]}})",
                     version, items);
}

std::string event(const std::string& type, const std::string& uid, int version) {
  return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object(uid, version));
}

class LoggingSink final : public ObjectSink {
 public:
  void list_begins() override { log.emplace_back("begin"); }
  Result<void> listed(const text::JsonValue& object) override { return note("listed", object); }
  void list_ends() override { log.emplace_back("end"); }
  Result<void> changed(ChangeType type, const text::JsonValue& object) override {
    constexpr const char* kNames[] = {"added", "modified", "deleted"};
    return note(kNames[static_cast<int>(type)], object);
  }

  std::vector<std::string> log;

 private:
  Result<void> note(const std::string& what, const text::JsonValue& object) {
    const text::JsonValue metadata = TRY(object.at("metadata"));
    const std::string uid = TRY(metadata.text("uid"));
    if (uid == "refused") return error("refused by the sink");
    log.push_back(what + ' ' + uid);
    return {};
  }
};

struct Answer {
  ResponseHead head;
  std::string body;
  Duration lasts = Duration::zero();
  std::optional<Error> failure = std::nullopt;
};

Answer ok(const std::string& body, Duration lasts = Duration::zero()) {
  return {{200, "", ""}, body, lasts};
}
Answer refused(int code, const std::string& retry_after = "",
               const std::string& body = R"({"kind":"Status"})") {
  return {{code, retry_after, ""}, body};
}
Answer cut(const std::string& body, Duration lasts = Duration::zero()) {
  return {{200, "", ""}, body, lasts, Error{ECONNRESET, "the connection was cut"}};
}

// Plays answers, each to the request that follows the one before.
class Play {
 public:
  explicit Play(std::size_t piece = 7) : piece_(piece) {}

  // "MILLISECONDS list VERSION" or "MILLISECONDS watch VERSION" of each request, and of the next.
  std::vector<std::string> requests(const std::vector<Answer>& answers) {
    std::vector<std::string> all;
    for (const Answer& answer : answers) {
      all.push_back(request());
      reply(answer);
    }
    all.push_back(request());
    return all;
  }
  std::string request() {
    auto query = watch.next(now);
    if (!query) {
      EXPECT_FALSE(watch.next(watch.due() - Duration(1)));
      now = std::max(now, watch.due());
      query = watch.next(now);
    }
    return name(query);
  }
  void reply(const Answer& answer) {
    if (answer.head.code != 0) watch.head(answer.head, now);
    now += answer.lasts;
    std::string_view rest = answer.body;
    bool more = true;
    while (more && !rest.empty()) {
      more = watch.body(rest.substr(0, piece_), now);
      rest.remove_prefix(std::min(piece_, rest.size()));
    }
    watch.end(more ? answer.failure : Error{ECANCELED, "cancelled"}, now);
  }

  LoggingSink sink;
  ListWatch watch{"/api/v1/pods", "spec.nodeName=n1", sink, [] { return 0.0; }};
  MonotonicTime now = from_ns(1'000'000'000'000);

 private:
  std::string name(const std::optional<std::string>& query) {
    if (!query) return "none";
    const auto ms = std::chrono::duration_cast<milliseconds>(now - from_ns(1'000'000'000'000));
    const std::size_t at = query->find("resourceVersion=");
    const std::string version = at == std::string::npos ? "newest" : query->substr(at + 16);
    const bool is_watch = query->find("watch=1") != std::string::npos;
    return fmt::format("{} {} {}", ms.count(), is_watch ? "watch" : "list",
                       version.substr(0, version.find('&')));
  }
  const std::size_t piece_;
};

const std::vector<Answer> kListed = {ok(list({"a"}, 10))};

// The requests after a first list, which is at 0.
std::vector<std::string> after_list(const std::vector<Answer>& answers) {
  Play play;
  EXPECT_EQ(play.request(), "0 list 0");
  play.reply(kListed.front());
  return play.requests(answers);
}

TEST(ListWatch, RequestsOneNodesPodsAndBookmarks) {
  Play play;
  EXPECT_EQ(play.watch.next(play.now),
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&resourceVersion=0");
  play.reply(ok(list({}, 10)));
  EXPECT_EQ(play.watch.next(play.now),
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&watch=1&allowWatchBookmarks=true"
            "&resourceVersion=10&timeoutSeconds=240");
}

TEST(ListWatch, PassesOnTheListAndEachChange) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{100'000}}) {
    Play play(piece);
    play.requests(
        {ok(list({"a", "b"}, 10)), ok(event("ADDED", "c", 11) + event("MODIFIED", "a", 12) +
                                      kBookmark + event("DELETED", "b", 546))});
    EXPECT_THAT(play.sink.log, ElementsAre("begin", "listed a", "listed b", "end", "added c",
                                           "modified a", "deleted b"));
    EXPECT_TRUE(play.watch.state().complete);
  }
}

TEST(ListWatch, TakesAListWithoutItems) {
  for (const char* items : {"[]", "null"}) {
    Play play;
    play.requests({ok(fmt::format(
        R"({{"kind":"PodList","metadata":{{"resourceVersion":"1"}},"items":{}}})", items))});
    EXPECT_THAT(play.sink.log, ElementsAre("begin", "end")) << items;
  }
}

TEST(ListWatch, ResumesFromTheLastVersion) {
  EXPECT_THAT(after_list({ok(event("ADDED", "c", 11), seconds(300)), ok(kBookmark, seconds(300)),
                          ok("", seconds(300))}),
              ElementsAre("0 watch 10", "300000 watch 11", "600000 watch 545", "900000 watch 545"));
}

TEST(ListWatch, WaitsLongerEachTimeIfWatchesEndAtOnce) {
  EXPECT_THAT(after_list({ok(""), ok(kBookmark), ok(""), ok("", seconds(5)), ok("")}),
              ElementsAre("0 watch 10", "400 watch 10", "1200 watch 545", "2800 watch 545",
                          "7800 watch 545", "8200 watch 545"));
}

TEST(ListWatch, ListsAgainWhenTheVersionExpired) {
  const std::string body = R"({"kind":"Status","reason":"Expired","message":"old","code":410})";
  // After 410 the version of the old list is of no use either.
  EXPECT_THAT(after_list({ok(kExpired), ok(list({}, 20)), refused(410, "", body), ok(list({}, 30)),
                          ok(kExpired)}),
              ElementsAre("0 watch 10", "400 list newest", "400 watch 20", "1200 list newest",
                          "1200 watch 30", "2800 list newest"));
}

TEST(ListWatch, RequestsTheNewestListIfTheServerIsBehind) {
  Play play;
  const std::string late =
      R"({"kind":"Status","reason":"Timeout","code":504,"details":{"retryAfterSeconds":1}})";
  EXPECT_THAT(play.requests({refused(504, "1", late), ok(list({}, 5))}),
              ElementsAre("0 list 0", "1000 list newest", "1000 watch 5"));
}

// As kube-apiserver answers a version that it cannot read, for example after a restored backup.
TEST(ListWatch, RequestsTheNewestListIfTheServerFailsWithAVersion) {
  Play play;
  EXPECT_THAT(play.requests({refused(500), ok(list({}, 5))}),
              ElementsAre("0 list 0", "400 list newest", "400 watch 5"));
}

TEST(ListWatch, KeepsALimitedPartOfTheServersMessage) {
  Play play;
  const std::string kind = "A\\n" + std::string(100'000, 'x');
  (void)play.requests({ok(R"({"kind":")" + kind + R"(","metadata":{"resourceVersion":"1"}})")});
  EXPECT_THAT(play.watch.state().problem, HasSubstr("the list cannot be used"));
  EXPECT_LT(play.watch.state().problem.size(), 600U);
}

TEST(ListWatch, WaitsAsLongAsTheServerRequests) {
  Play play;
  EXPECT_THAT(play.requests({refused(429, "5", "Too many requests, please try again later."),
                             refused(429), refused(503, "900")}),
              ElementsAre("0 list 0", "5000 list 0", "5800 list 0", "65800 list 0"));
}

TEST(ListWatch, RepeatsA401OnceAtOnceBecauseTheTokenIsReadAgain) {
  EXPECT_THAT(after_list({refused(401), refused(401), refused(401)}),
              ElementsAre("0 watch 10", "0 watch 10", "400 watch 10", "1200 watch 10"));
}

// Else the copy would be that of the last list, and become older.
TEST(ListWatch, ListsAgainIfTheWatchIsRefused) {
  for (const int code : {403, 404, 405, 422}) {
    Play play;
    EXPECT_THAT(play.requests({kListed.front(), refused(code), ok(list({"b"}, 20)), refused(code),
                               ok(list({"c"}, 30)), refused(code)}),
                ElementsAre("0 list 0", "0 watch 10", "400 list 10", "400 watch 20", "1200 list 20",
                            "1200 watch 30", "2800 list 30"))
        << code;
    EXPECT_EQ(play.watch.state().lists, 4U);
    EXPECT_THAT(play.sink.log, ElementsAre("begin", "listed a", "end", "begin", "listed b", "end",
                                           "begin", "listed c", "end"));
  }
}

// A list costs the server more than a watch.
TEST(ListWatch, WatchesAgainIfAProxyRefuses) {
  for (const int code : {403, 405, 422}) {
    EXPECT_THAT(after_list({refused(code, "", "<html>Log in</html>"), ok("", seconds(9))}),
                ElementsAre("0 watch 10", "400 watch 10", "9400 watch 10"))
        << code;
  }
}

TEST(ListWatch, WatchesAgainIfTheServerIsOverloadedOrFails) {
  for (const int code : {429, 408, 500, 502, 503, 301, 204}) {
    EXPECT_THAT(after_list({refused(code), refused(code), ok("", seconds(9)), refused(code)}),
                ElementsAre("0 watch 10", "400 watch 10", "1200 watch 10", "10200 watch 10",
                            "10600 watch 10"))
        << code;
  }
}

TEST(ListWatch, ListsAgainAfterFiveFailedWatches) {
  const Answer lost{{}, "", Duration::zero(), Error{ECONNREFUSED, "connect"}};
  EXPECT_THAT(after_list({lost, lost, lost, lost, lost, ok(list({}, 11))}),
              ElementsAre("0 watch 10", "400 watch 10", "1200 watch 10", "2800 watch 10",
                          "6000 watch 10", "12400 list 10", "12400 watch 11"));
}

TEST(ListWatch, DropsAnEventThatWasCut) {
  const std::string whole = event("ADDED", "c", 11);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    for (const bool clean : {false, true}) {
      Play play;
      const std::string part = whole.substr(0, size);
      const auto requests =
          play.requests({kListed.front(), clean ? ok(part, seconds(9)) : cut(part, seconds(9))});
      EXPECT_EQ(requests.back(), "9400 watch 10") << size;
      EXPECT_THAT(play.sink.log, ElementsAre("begin", "listed a", "end"));
      EXPECT_FALSE(play.watch.state().problem.empty());
    }
  }
}

TEST(ListWatch, ListsAgainAfterWhatCannotBeUsed) {
  for (const std::string& line :
       {std::string("garbage\n"), std::string("{}\n"), std::string("\n"), std::string("null\n"),
        std::string("{\"type\":\"ADDED\"}\n"), std::string("{\"type\":\"ADDED\",\"object\":7}\n"),
        event("ADDED", "c", 11).replace(2, 4, "kind"), event("RENAMED", "c", 11),
        event("ADDED", "refused", 11), event("ADDED", "c", 11).replace(10, 5, "TSIL"),
        std::string("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"uid\":\"c\"}}}\n"),
        std::string("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{}}}\n"),
        std::string("\0\xff\xfe\n", 4)}) {
    Play play;
    const auto requests = play.requests({kListed.front(), ok(line + event("ADDED", "d", 12))});
    EXPECT_EQ(requests.back(), "400 list 10") << line;
    EXPECT_THAT(play.sink.log, ElementsAre("begin", "listed a", "end")) << line;
    EXPECT_THAT(play.watch.state().problem, HasSubstr("cannot be used")) << line;
  }
}

TEST(ListWatch, KeepsTheLastListWhileALaterOneFails) {
  const std::string whole = list({"x", "y"}, 20);
  std::vector<std::string> bad = {"",
                                  "[]",
                                  "{}",
                                  "nonsense",
                                  whole + "}",
                                  whole + whole,
                                  R"({"kind":"Pod","metadata":{"resourceVersion":"1"}})",
                                  R"({"kind":"PodList","metadata":{},"items":[]})",
                                  R"({"kind":"PodList","metadata":{"resourceVersion":"1"},)"
                                  R"("items":[1]})",
                                  R"({"kind":"PodList","metadata":{"resourceVersion":"1"},)"
                                  R"("items":{}})",
                                  list({"x", "refused"}, 20)};
  for (std::size_t size = 1; size < whole.size(); ++size) bad.push_back(whole.substr(0, size));
  for (const std::string& body : bad) {
    Play play;
    const auto requests = play.requests({kListed.front(), ok(kExpired), ok(body)});
    EXPECT_EQ(requests.back(), "1200 list newest") << body;
    EXPECT_EQ(std::ranges::count(play.sink.log, "end"), 1) << body;
  }
}

TEST(ListWatch, BoundsALine) {
  Play play(std::size_t{1} << 16);
  const std::string endless(ListWatch::kObjectBytesMax + 1, ' ');
  EXPECT_EQ(play.requests({kListed.front(), ok(endless)}).back(), "400 list 10");
  EXPECT_THAT(play.watch.state().problem, HasSubstr("more than 4194304 bytes"));
}

TEST(ListWatch, BoundsARefusalAndStillReadsItsCode) {
  Play play(std::size_t{1} << 16);
  EXPECT_EQ(play.requests({refused(410, "", std::string(1 << 20, 'x'))}).back(), "400 list newest");
  EXPECT_LT(play.watch.state().problem.size(), 600U);
}

TEST(ListWatch, EscapesAVersionThatIsNoNumber) {
  Play play;
  EXPECT_EQ(play.request(), "0 list 0");
  play.reply(ok(R"({"kind":"PodList","metadata":{"resourceVersion":"1&watch=0#"},"items":[]})"));
  EXPECT_THAT(play.watch.next(play.now).value_or(""), HasSubstr("=1%26watch%3D0%23&"));
  Play second;
  EXPECT_EQ(second.request(), "0 list 0");
  second.reply(
      ok(fmt::format(R"({{"kind":"PodList","metadata":{{"resourceVersion":"{}"}},"items":[]}})",
                     std::string(1000, '1'))));
  EXPECT_EQ(second.request(), "400 list 0");
}

TEST(ListWatch, IsOverdueWithoutBytes) {
  Play play;
  play.requests({kListed.front()});
  play.watch.head({200, "", ""}, play.now);
  EXPECT_TRUE(play.watch.state().connected);
  EXPECT_FALSE(play.watch.overdue(play.now + ListWatch::kWatchSilence - Duration(1)));
  EXPECT_TRUE(play.watch.overdue(play.now + ListWatch::kWatchSilence));
  EXPECT_TRUE(play.watch.body(kBookmark, play.now + seconds(90)));
  EXPECT_FALSE(play.watch.overdue(play.now + ListWatch::kWatchSilence));
}

// A server that sends bookmarks without end, and one that sends a byte now and then.
TEST(ListWatch, EndsWhatTheServerDoesNotEnd) {
  Play watch;
  watch.requests({kListed.front()});
  watch.watch.head({200, "", ""}, watch.now);
  int bookmarks = 0;
  for (; !watch.watch.overdue(watch.now) && bookmarks < 1000; ++bookmarks) {
    ASSERT_TRUE(watch.watch.body(kBookmark, watch.now));
    watch.now += seconds(1);
  }
  EXPECT_EQ(bookmarks, 340);
  Play list;
  EXPECT_EQ(list.request(), "0 list 0");
  list.watch.head({200, "", ""}, list.now);
  while (!list.watch.overdue(list.now)) {
    ASSERT_TRUE(list.watch.body(" ", list.now));
    list.now += seconds(1);
  }
  list.watch.end_overdue(list.now);
  EXPECT_EQ(list.watch.state().problem, "not complete after 120 s");
  EXPECT_TRUE(list.watch.state().overdue);
  EXPECT_EQ(list.request(), "120400 list 0");
  list.now += seconds(30);
  list.watch.end_overdue(list.now);
  EXPECT_EQ(list.watch.state().problem, "the API server does not answer");
}

// What is on it may have been read right after the request.
TEST(ListWatch, ConfirmsAListAtItsBegin) {
  Play play;
  EXPECT_EQ(play.request(), "0 list 0");
  const MonotonicTime begun = play.now;
  play.reply(ok(list({"a"}, 10), seconds(20)));
  EXPECT_EQ(play.watch.state().confirmed, begun);
  EXPECT_EQ(play.watch.state().list_took, Duration(seconds(20)));
}

TEST(ListWatch, ReportsWhenTheServerLastConfirmedTheCopy) {
  Play play;
  EXPECT_EQ(play.watch.state().confirmed, std::nullopt);
  EXPECT_EQ(play.request(), "0 list 0");
  play.reply(refused(403, "", R"({"kind":"Status","message":"pods is forbidden"})"));
  EXPECT_EQ(play.watch.state().problem, "403: pods is forbidden");
  EXPECT_FALSE(play.watch.state().complete);
  play.requests({kListed.front()});
  const MonotonicTime listed = play.now;
  EXPECT_EQ(play.watch.state().confirmed, listed);
  EXPECT_EQ(play.watch.state().problem, "");
  play.reply(cut(kBookmark, seconds(60)));
  EXPECT_EQ(play.watch.state().confirmed, listed + seconds(60));
  EXPECT_THAT(play.watch.state().problem, HasSubstr("the connection was cut"));
  EXPECT_FALSE(play.watch.state().connected);
  EXPECT_EQ(play.watch.state().failures, 2U);
}

TEST(ListWatch, EndsAListByItsOwnersLimits) {
  LoggingSink sink;
  const ListLimits limits{.silence = seconds(180), .longest = seconds(300)};
  ListWatch watch(
      "/api/v1/pods", "", sink, [] { return 0.0; }, limits);
  const MonotonicTime begun = from_ns(0);
  ASSERT_TRUE(watch.next(begun));
  EXPECT_FALSE(watch.overdue(begun + seconds(180) - Duration(1)));
  EXPECT_TRUE(watch.overdue(begun + seconds(180)));
  watch.head({200, "", ""}, begun + seconds(170));
  EXPECT_FALSE(watch.overdue(begun + seconds(300) - Duration(1)));
  EXPECT_TRUE(watch.overdue(begun + seconds(300)));
}

// Such as an API server that serves an older version of a kind.
TEST(ListWatch, ListsUnderAnotherPathAfterTheSameDelay) {
  Play play;
  EXPECT_EQ(play.request(), "0 list 0");
  play.reply(refused(404));
  EXPECT_EQ(play.watch.state().refused_code, 404);
  play.watch.set_path("/api/v0/pods");
  EXPECT_FALSE(play.watch.next(play.now)) << "no loop of requests";
  EXPECT_EQ(play.watch.next(play.now + milliseconds(400)),
            "/api/v0/pods?fieldSelector=spec.nodeName%3Dn1&resourceVersion=0");
}

TEST(ListWatch, ReportsWhichRequestWasRefused) {
  Play play;
  play.requests({kListed.front(), refused(403)});
  EXPECT_EQ(play.watch.state().verb, "watch");
  EXPECT_EQ(play.watch.state().refused_code, 403);
  play.reply(cut("", seconds(9)));
  EXPECT_EQ(play.watch.state().refused_code, 0);
}

TEST(ListWatch, ListsAgainIfItsOwnerRequestsIt) {
  Play play;
  play.requests({kListed.front()});
  play.watch.head({200, "", ""}, play.now);
  EXPECT_TRUE(play.watch.body(event("ADDED", "b", 11), play.now));
  play.watch.list_again();
  EXPECT_FALSE(play.watch.body(event("ADDED", "c", 12), play.now)) << "but this change counts";
  play.watch.end(Error{ECANCELED, "cancelled"}, play.now);
  EXPECT_THAT(play.requests({ok(list({"a", "b", "c"}, 12)), ok(kBookmark, seconds(9))}),
              ElementsAre("400 list 12", "400 watch 12", "9400 watch 545"));
  EXPECT_THAT(play.sink.log, ElementsAre("begin", "listed a", "end", "added b", "added c", "begin",
                                         "listed a", "listed b", "listed c", "end"));
  EXPECT_EQ(play.watch.state().failures, 0U);
}

// A watch that is late, or a list of before, is of no use to an owner that needs the present state.
TEST(ListWatch, ListsAtOnceInPlaceOfAWatchOrAList) {
  Play play;
  play.requests({kListed.front()});
  play.watch.head({200, "", ""}, play.now);
  EXPECT_FALSE(play.watch.overdue(play.now));
  for (const char* request : {"7000 list 10", "8000 list 10"}) {
    play.now += seconds(request[0] == '7' ? 7 : 1);
    play.watch.list_now();
    EXPECT_TRUE(play.watch.overdue(play.now));
    EXPECT_LE(play.watch.due(), play.now);
    play.watch.end_overdue(play.now);
    EXPECT_FALSE(play.watch.state().overdue) << "its owner ended it";
    EXPECT_EQ(play.request(), request);
    EXPECT_EQ(play.watch.state().listing, play.now);
    EXPECT_FALSE(play.watch.overdue(play.now));
  }
  play.reply(ok(list({"b"}, 20)));
  EXPECT_EQ(play.watch.state().listed, play.now);
  EXPECT_EQ(play.watch.state().listing, std::nullopt);
  EXPECT_EQ(play.request(), "8000 watch 20");
  EXPECT_EQ(play.watch.state().failures, 0U);
}

TEST(ListWatch, ListsAtOnceOnlyAfterTheDelayOfAFailure) {
  Play play;
  play.requests({kListed.front()});
  play.reply(refused(429, "5"));
  play.watch.list_now();
  EXPECT_EQ(play.request(), "5000 list 10");
}

// A list of the cache may be older than what happened before its request.
TEST(ListWatch, RequestsTheNewestStateForAnOwnerThatNeedsIt) {
  LoggingSink sink;
  ListWatch watch("/api/v1/pods", "", sink, [] { return 0.0; }, {.newest = true});
  const MonotonicTime now = from_ns(0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(watch.next(now), "/api/v1/pods");
    watch.head({200, "", ""}, now);
    EXPECT_TRUE(watch.body(list({"a"}, 10), now));
    watch.end(std::nullopt, now);
    watch.list_now();
  }
}

TEST(ListWatch, IgnoresBytesWithoutARequest) {
  Play play;
  EXPECT_FALSE(play.watch.body(list({"a"}, 1), play.now));
  play.watch.end(std::nullopt, play.now);
  EXPECT_THAT(play.sink.log, IsEmpty());
}

}  // namespace
}  // namespace forestall::kubernetes
