// SPDX-License-Identifier: Apache-2.0
// Which Events the API server receives, and when.
#include "cluster/event_series.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/annotation_events.h"
#include "cluster/status_answer.h"

namespace forestall::cluster {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

ClusterEvent evicted(const std::string& uid) {
  ClusterEvent event;
  event.subject = {"Pod", "shop", "web-" + uid, uid};
  event.reason = "Evicted";
  event.message = "The node was low on resource: memory. ";
  event.annotations = {{"offending_containers", "app"},
                       {"offending_containers_usage", "190Mi"},
                       {"starved_resource", "memory"}};
  return event;
}

class EventSeriesTest : public ::testing::Test {
 protected:
  // The next request within `longest`, answered by `code`; empty: none.
  std::string play(Duration longest, int code, const std::string& body = kStatusAnswer) {
    const MonotonicTime end = now_ + longest;
    for (;;) {
      const auto due = events_.due();
      if (!due || *due > end) break;
      now_ = std::max(now_, *due);
      const auto request = events_.next(now_);
      if (!request) continue;
      last_ = request->http;
      events_.answered(request->key, {code, "", ""}, body,
                       code == 0 ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt, now_);
      return last_.method;
    }
    now_ = end;
    return "";
  }
  std::size_t requests_within(Duration longest, int code = 201) {
    const MonotonicTime end = now_ + longest;
    std::size_t count = 0;
    while (now_ < end && !play(end - now_, code).empty()) ++count;
    return count;
  }

  MonotonicTime now_ = from_ns(1'000'000'000'000);
  kubernetes::OutgoingRequest last_;
  Duration clock_set_ = {};  // how far the wall clock was set
  EventSeries events_{
      "node-1", [this] { return 1'764'093'600 + to_ns(now_ + clock_set_) / 1'000'000'000 - 1000; },
      [] { return 0.0; }};
};

TEST_F(EventSeriesTest, ReportsAnEvictionAsTheKubeletDoes) {
  events_.add(evicted("u"), "7 1.2 u", now_);
  EXPECT_FALSE(events_.next(now_)) << "the eviction's request comes first";
  EXPECT_EQ(play(seconds(1), 201), "POST");
  EXPECT_EQ(last_.target, "/api/v1/namespaces/shop/events");
  EXPECT_THAT(last_.body, HasSubstr(R"("annotations":{"offending_containers":"app",)"
                                    R"("offending_containers_usage":"190Mi",)"
                                    R"("starved_resource":"memory"}})"));
  EXPECT_THAT(last_.body,
              HasSubstr(R"("involvedObject":{"kind":"Pod","apiVersion":"v1","namespace":"shop",)"
                        R"("name":"web-u","uid":"u"},"reason":"Evicted",)"
                        R"("message":"The node was low on resource: memory.")"));
  EXPECT_THAT(last_.body, HasSubstr(R"("lastTimestamp":"2025-11-25T18:00:00Z","count":1)"));
  EXPECT_THAT(last_.body, HasSubstr(R"("source":{"component":"forestall","host":"node-1"})"));
  EXPECT_EQ(play(minutes(60), 201), "") << "once";
}

TEST_F(EventSeriesTest, ReportsAKillOnceWhenItIsReportedAgain) {
  events_.add(evicted("u"), "7 1.2 u", now_);
  EXPECT_EQ(play(seconds(1), 201), "POST");
  events_.add(evicted("u"), "7 1.2 u", now_);
  EXPECT_EQ(play(minutes(60), 201), "");
}

// A process that started again makes the object of the same name again.
TEST_F(EventSeriesTest, NamesTheObjectAfterTheKill) {
  EventSeries other(
      "node-1", [] { return 5; }, [] { return 0.0; });
  std::vector<std::string> keys;
  for (EventSeries* each : {&events_, &other}) {
    each->add(evicted("u"), "7 1.2 u", now_);
    keys.push_back(each->next(now_ + EventSeries::kFirstDelay)->key);
  }
  EXPECT_EQ(keys[0], keys[1]);
  other.answered(keys[1], {409, "", ""}, R"({"kind":"Status","reason":"AlreadyExists"})", {}, now_);
  EXPECT_FALSE(other.due());
  EXPECT_EQ(other.dropped(), 0U);
}

TEST_F(EventSeriesTest, CountsWhatHappensAgain) {
  events_.add(evicted("u"), "", now_);
  EXPECT_EQ(play(seconds(1), 201), "POST");
  for (int i = 0; i < 1'000; ++i) events_.add(evicted("u"), "", now_);
  EXPECT_EQ(play(seconds(30), 200), "PATCH");
  EXPECT_THAT(last_.body, HasSubstr(R"({"count":1001,"lastTimestamp":")"));
  EXPECT_EQ(last_.content_type, "application/merge-patch+json");
  EXPECT_THAT(last_.target, HasSubstr("/api/v1/namespaces/shop/events/forestall."));
}

// A tenant's process is killed at its own limit a thousand times a second.
TEST_F(EventSeriesTest, SendsAFewRequestsForAPodThatIsKilledWithoutEnd) {
  std::size_t requests = 0;
  for (int second = 0; second < 3'600; ++second) {
    for (int i = 0; i < 10; ++i) events_.add(evicted("u"), "", now_);
    requests += requests_within(seconds(1));
  }
  EXPECT_LT(requests, 20U);
  EXPECT_GT(requests, 10U);
}

// A tenant's pods are made and killed without end, each under another name.
TEST_F(EventSeriesTest, CombinesWhatHappensToManyPods) {
  std::size_t requests = 0;
  std::size_t made = 0;
  for (int second = 0; second < 600; ++second) {
    for (int i = 0; i < 10; ++i) events_.add(evicted(std::to_string(made++)), "", now_);
    requests += requests_within(seconds(1));
  }
  EXPECT_LT(requests, EventSeries::kBurst + 600U / 15 + 15U);
  EXPECT_EQ(events_.dropped(), 0U) << "they are counted in the node's Event";
  for (int i = 0; i < 20 && last_.target.find("/namespaces/default/") == std::string::npos; ++i) {
    events_.add(evicted(std::to_string(made++)), "", now_);
    events_.add(evicted(std::to_string(made++)), "", now_);
    play(minutes(5), 201);
  }
  EXPECT_THAT(last_.target, HasSubstr("/api/v1/namespaces/default/events"));
  EXPECT_THAT(last_.body, HasSubstr("(combined from similar events): Pod shop/web-"));
}

TEST_F(EventSeriesTest, AreBoundedWhileTheServerIsAway) {
  for (int i = 0; i < 10'000; ++i) {
    events_.add(evicted(std::to_string(i)), "", now_);
    now_ += seconds(16);
    (void)events_.next(now_);
  }
  EXPECT_GT(events_.dropped(), 0U);
  EXPECT_LT(events_.dropped(), 10'000U);
}

TEST_F(EventSeriesTest, AreSentAgainAfterAFailure) {
  events_.add(evicted("u"), "", now_);
  const MonotonicTime begin = now_;
  for (const int code : {0, 500, 429, 401}) EXPECT_EQ(play(minutes(1), code), "POST") << code;
  EXPECT_THAT(events_.problem(), HasSubstr("401"));
  EXPECT_EQ(play(minutes(1), 201), "POST");
  EXPECT_GT(now_ - begin, seconds(5)) << "with a back-off";
  EXPECT_EQ(events_.problem(), "");
  EXPECT_FALSE(events_.due());
}

TEST_F(EventSeriesTest, AreDroppedAfterTenMinutes) {
  events_.add(evicted("u"), "", now_);
  EXPECT_LT(requests_within(minutes(60), 500), 60U);
  EXPECT_EQ(events_.dropped(), 1U);
  EXPECT_FALSE(events_.due());
}

// Its namespace is being removed. The tenant's processes are killed all the same.
TEST_F(EventSeriesTest, AreNotSentAgainAtOnceIfTheyAreForbidden) {
  std::size_t requests = 0;
  for (int second = 0; second < 600; ++second) {
    events_.add(evicted("u"), "", now_);
    while (!play(seconds(1), 403, R"({"kind":"Status","reason":"Forbidden"})").empty()) ++requests;
  }
  EXPECT_LT(requests, 10U);
  EXPECT_GT(events_.dropped(), 0U);
}

TEST_F(EventSeriesTest, AreNeitherDelayedNorRepeatedIfTheClockIsSet) {
  for (const Duration set : {Duration(-hours(5)), Duration(hours(9))}) {
    SCOPED_TRACE(set.count());
    const std::string uid = std::to_string(set.count());
    events_.add(evicted(uid), "7 1.2 " + uid, now_);
    clock_set_ += set;
    EXPECT_EQ(play(seconds(1), 201), "POST");
    events_.add(evicted(uid), "7 1.2 " + uid, now_);
    EXPECT_EQ(play(minutes(1), 201), "") << "the same kill";
    events_.add(evicted(uid), "8 1.2 " + uid, now_);
    clock_set_ -= set;
    EXPECT_EQ(play(seconds(10), 200), "PATCH");
    EXPECT_THAT(last_.body, HasSubstr(R"("count":2)"));
    EXPECT_EQ(play(minutes(60), 201), "");
  }
}

TEST_F(EventSeriesTest, ALastTimeIsNeverBeforeTheFirst) {
  events_.add(evicted("u"), "", now_);
  EXPECT_EQ(play(seconds(1), 201), "POST");
  EXPECT_THAT(last_.body, HasSubstr(R"("firstTimestamp":"2025-11-25T18:00:00Z")"));
  clock_set_ = -hours(5);
  events_.add(evicted("u"), "", now_);
  EXPECT_EQ(play(minutes(1), 200), "PATCH");
  EXPECT_THAT(last_.body, HasSubstr(R"("lastTimestamp":"2025-11-25T18:00:00Z")"));
  clock_set_ = hours(5);
  events_.add(evicted("u"), "", now_);
  EXPECT_EQ(play(minutes(1), 200), "PATCH");
  EXPECT_THAT(last_.body, HasSubstr(R"("lastTimestamp":"2025-11-25T23:00:)"));
}

TEST_F(EventSeriesTest, AreSentAgainIfAProxyRefusesThem) {
  for (const int code : {403, 404}) {
    events_.add(evicted("u"), "", now_);
    EXPECT_EQ(play(minutes(5), code, "<html>no</html>"), code == 403 ? "POST" : "PATCH");
    EXPECT_EQ(play(minutes(1), 201), code == 403 ? "POST" : "PATCH");
  }
  EXPECT_EQ(events_.dropped(), 0U);
}

TEST_F(EventSeriesTest, AreSentAgainIfAProxyAcceptsThem) {
  for (const char* body : {"", "<html>Log in</html>", "[]", "{}", R"({"kind":"Status"})"}) {
    events_.add(evicted(body), "", now_);
    EXPECT_EQ(play(seconds(1), 200, body), "POST") << body;
    EXPECT_NE(events_.problem(), "");
    EXPECT_EQ(play(minutes(1), 201, R"({"kind":"Event"})"), "POST") << body;
    EXPECT_EQ(events_.problem(), "");
    EXPECT_EQ(play(minutes(1), 200), "");
  }
  EXPECT_EQ(events_.dropped(), 0U);
}

// The Event does not exist, so an increase of its count would be lost.
TEST_F(EventSeriesTest, AConflictThatIsNoEventOfTheSameNameIsSentAgain) {
  events_.add(evicted("u"), "", now_);
  EXPECT_EQ(play(seconds(1), 409, "<html>Conflict</html>"), "POST");
  EXPECT_EQ(play(minutes(1), 201), "POST");
}

// The server removes Events after an hour.
TEST_F(EventSeriesTest, MakesANewObjectIfTheServerHasRemovedIt) {
  events_.add(evicted("u"), "", now_);
  EXPECT_EQ(play(seconds(1), 201), "POST");
  events_.add(evicted("u"), "", now_);
  EXPECT_EQ(play(minutes(1), 404, R"({"kind":"Status","code":404})"), "PATCH");
  EXPECT_EQ(play(minutes(1), 201), "POST");
  EXPECT_THAT(last_.body, HasSubstr(R"("count":1)"));
}

// A status that lists the same for a long time, as of annotations without effect.
class OfferedEventsTest : public ::testing::Test {
 protected:
  static constexpr Duration kInterval = seconds(5);  // of the status

  static ClusterEvent event_of(int number) {
    ClusterEvent event = evicted(std::to_string(number));
    event.reason = "AnnotationWithoutEffect";
    return event;
  }
  // Answers each request by `code`; returns what was posted.
  std::vector<std::string> offer_for(Duration length, int code) {
    std::vector<std::string> posted;
    for (const MonotonicTime end = now_ + length; now_ < end; now_ += kInterval) {
      for (const auto& [event, occurrence] : offered_) events_.offer(event, occurrence, now_);
      const MonotonicTime sends = now_ + EventSeries::kFirstDelay;
      while (const auto request = events_.next(sends)) {
        EXPECT_EQ(request->http.method, "POST") << "each of them happens once";
        events_.answered(request->key, {code, "", ""}, kStatusAnswer, std::nullopt, sends);
        if (code == 201) posted.push_back(request->http.body);
      }
    }
    return posted;
  }

  MonotonicTime now_ = from_ns(1'000'000'000'000);
  std::vector<std::pair<ClusterEvent, std::string>> offered_;
  EventSeries events_{"node-1", [] { return 5; }, [] { return 0.0; }, kAnnotationEventRate};
};

TEST_F(OfferedEventsTest, AreLateAndNotLostBeyondTheRate) {
  for (int i = 0; i < 16; ++i) offered_.emplace_back(event_of(i), std::to_string(i));
  EXPECT_EQ(offer_for(seconds(30), 201).size(), 5U);
  EXPECT_EQ(offer_for(minutes(5), 201).size(), 5U) << "one a minute";
  const auto last = offer_for(minutes(60), 201);
  EXPECT_EQ(last.size(), 6U);
  for (const std::string& each : last) EXPECT_THAT(each, Not(HasSubstr("combined")));
  EXPECT_TRUE(offer_for(minutes(180), 201).empty()) << "once";
}

TEST_F(OfferedEventsTest, WaitForAServerThatIsAwayForHours) {
  for (int i = 0; i < 4; ++i) offered_.emplace_back(event_of(i), std::to_string(i));
  EXPECT_TRUE(offer_for(minutes(180), 500).empty());
  EXPECT_EQ(offer_for(minutes(10), 201).size(), 4U);
  EXPECT_EQ(events_.dropped(), 0U);
}

TEST_F(OfferedEventsTest, AreOneForEachTopicOfAPod) {
  for (const char* topic : {"protected", "prefer"}) {
    ClusterEvent event = event_of(1);
    event.topic = topic;
    event.message = topic;
    offered_.emplace_back(event, topic);
  }
  const auto posted = offer_for(seconds(5), 201);
  ASSERT_EQ(posted.size(), 2U);
  EXPECT_THAT(posted[0], HasSubstr(R"("message":"protected")"));
  EXPECT_THAT(posted[1], HasSubstr(R"("message":"prefer")"));
}

// The status lists a part of them at a time.
TEST_F(OfferedEventsTest, AreOneForEachOfManyThatAreOfferedInTurn) {
  std::set<std::string> posted;
  std::size_t requests = 0;
  for (int turn = 0; turn < 2'000; ++turn) {
    offered_.clear();
    for (int i = 0; i < 16; ++i) {
      const int number = (turn * 16 + i) % 320;
      offered_.emplace_back(event_of(number), std::to_string(number));
    }
    for (const std::string& each : offer_for(seconds(10), 201)) {
      posted.insert(each.substr(0, each.find(R"("firstTimestamp")")));
      ++requests;
    }
  }
  EXPECT_EQ(posted.size(), 320U);
  EXPECT_EQ(requests, 320U) << "once";
  EXPECT_EQ(events_.dropped(), 0U);
}

// Pods with wrong annotations are made and removed without end, and some remain.
TEST_F(OfferedEventsTest, AreBoundedAndThoseThatLastAreOfferedOnce) {
  for (int i = 0; i < 4; ++i) offered_.emplace_back(event_of(i), std::to_string(i));
  EXPECT_EQ(offer_for(seconds(5), 201).size(), 4U);
  std::size_t posted = 0;
  for (int i = 4; i < 1'000; ++i) {
    offered_.emplace_back(event_of(i), std::to_string(i));
    posted += offer_for(minutes(1), 201).size();
    offered_.pop_back();
  }
  EXPECT_EQ(posted, 996U) << "none of them is of the first four";
  EXPECT_EQ(events_.dropped(), 0U);
}

// Names of processes are in the message of a kill by the kernel.
TEST_F(EventSeriesTest, ShortensAndEscapesTexts) {
  ClusterEvent event = evicted("u");
  event.message = "evil\x1b[2J\n\"" + std::string(100'000, '\xff');
  event.annotations = {{"offending_containers", std::string(100'000, 'x')}};
  events_.add(event, "", now_);
  EXPECT_EQ(play(seconds(1), 201), "POST");
  EXPECT_LT(last_.body.size(), 8'000U);
  EXPECT_THAT(last_.body, Not(HasSubstr("\x1b")));
  EXPECT_THAT(last_.body, HasSubstr(R"("message":"evil?[2J?\")"));
}

}  // namespace
}  // namespace forestall::cluster
