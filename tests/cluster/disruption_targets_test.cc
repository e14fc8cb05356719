// SPDX-License-Identifier: Apache-2.0
#include "cluster/disruption_targets.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "cluster/status_answer.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

KilledPod killed(const std::string& uid) {
  KilledPod pod{uid, "shop", "web-0"};
  pod.message = "The node was low on resource: memory. ";
  return pod;
}

struct VersionCase {
  const char* major;
  const char* minor;
  bool is_defined;
};

class DisruptionTargetsTest : public ::testing::Test {
 protected:
  // "METHOD TARGET" of the next request within `longest`; empty: none.
  std::string play(int code, const std::string& body = kStatusAnswer,
                   Duration longest = seconds(60)) {
    const MonotonicTime end = now_ + longest;
    for (auto due = targets_.due(); due && *due <= end; due = targets_.due()) {
      now_ = std::max(now_, *due);
      const auto request = targets_.next(now_);
      if (!request) continue;
      last_ = request->http;
      targets_.answered(request->key, {code, "", ""}, body,
                        code == 0 ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt, now_);
      return last_.method + ' ' + last_.target;
    }
    now_ = end;
    return "";
  }
  static std::string version(const char* major, const char* minor) {
    return fmt::format(R"({{"major":"{}","minor":"{}","gitVersion":"v1"}})", major, minor);
  }

  MonotonicTime now_ = from_ns(1'000'000'000'000);
  kubernetes::OutgoingRequest last_;
  std::int64_t wall_ = 1'764'093'600;
  DisruptionTargets targets_{[this] { return wall_; }, [] { return 0.0; }};
};

constexpr const char* kStatus = "PATCH /api/v1/namespaces/shop/pods/web-0/status";

TEST_F(DisruptionTargetsTest, NamesThePodByItsUid) {
  EXPECT_EQ(play(200, version("1", "26")), "GET /version");
  EXPECT_EQ(play(200), "") << "no pod was evicted";
  targets_.add(killed("u"), now_);
  EXPECT_EQ(play(200), kStatus);
  EXPECT_EQ(last_.content_type, "application/strategic-merge-patch+json");
  EXPECT_EQ(last_.body,
            R"({"metadata":{"uid":"u"},"status":{"conditions":[{"type":"DisruptionTarget",)"
            R"("status":"True","reason":"TerminationByForestall",)"
            R"("message":"The node was low on resource: memory.",)"
            R"("lastTransitionTime":"2025-11-25T18:00:00Z"}]}})");
  EXPECT_EQ(play(200), "") << "once";
}

TEST(DisruptionTargets, AreSetFromVersion126On) {
  const std::vector<VersionCase> cases = {{"1", "20+", false}, {"1", "25", false},
                                          {"1", "26", true},   {"1", "31+", true},
                                          {"2", "0", true},    {"0", "99", false}};
  for (const VersionCase& each : cases) {
    DisruptionTargets targets([] { return 0; }, [] { return 0.0; });
    const MonotonicTime now = from_ns(0);
    targets.add(killed("u"), now);
    const auto first = targets.next(now);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->http.target, "/version");
    EXPECT_FALSE(targets.next(now)) << "one request for the version";
    targets.answered(first->key, {200, "", ""},
                     fmt::format(R"({{"major":"{}","minor":"{}"}})", each.major, each.minor), {},
                     now);
    EXPECT_EQ(targets.next(now).has_value(), each.is_defined) << each.major << '.' << each.minor;
    EXPECT_FALSE(targets.due());
  }
}

TEST_F(DisruptionTargetsTest, ReadTheVersionAgainAfterAFailure) {
  for (const int code : {0, 500, 403}) EXPECT_EQ(play(code), "GET /version") << code;
  for (const char* body : {"", "[]", R"({"major":"1"})", R"({"major":"1","minor":"x"})"}) {
    EXPECT_EQ(play(200, body), "GET /version") << body;
    EXPECT_EQ(targets_.problem(), "the server's version cannot be read");
  }
  EXPECT_EQ(play(200, version("1", "30")), "GET /version");
  EXPECT_EQ(play(200), "");
}

// The server is updated while this process runs.
TEST_F(DisruptionTargetsTest, ReadTheVersionAgainForAPodAfterSomeTime) {
  EXPECT_EQ(play(200, version("1", "25")), "GET /version");
  targets_.add(killed("u"), now_);
  EXPECT_EQ(play(200), "");
  now_ += DisruptionTargets::kVersionExpiresAfter;
  targets_.add(killed("u"), now_);
  EXPECT_EQ(play(200, version("1", "26")), "GET /version");
  EXPECT_EQ(play(200), kStatus);
}

TEST_F(DisruptionTargetsTest, AreSetOnceAndAtOnceIfTheClockIsSet) {
  EXPECT_EQ(play(200, version("1", "30")), "GET /version");
  for (const std::int64_t by : {-5, 9}) {
    targets_.add(killed("u"), now_);
    wall_ += by * 3600;
    const MonotonicTime begin = now_;
    EXPECT_EQ(play(500), kStatus);
    EXPECT_EQ(now_, begin);
    EXPECT_EQ(play(200), kStatus);
    EXPECT_LT(now_, begin + seconds(2));
    EXPECT_EQ(play(200), "");
  }
}

TEST_F(DisruptionTargetsTest, EndIfThePodIsGoneOrAnotherOne) {
  EXPECT_EQ(play(200, version("1", "30")), "GET /version");
  constexpr const char* kOtherPod =
      R"({"kind":"Status","message":"Precondition failed: UID in precondition: u"})";
  for (const int code : {404, 409, 422, 403}) {
    targets_.add(killed("u"), now_);
    EXPECT_EQ(play(code, "of a proxy"), kStatus);
    EXPECT_EQ(play(code, kOtherPod), kStatus) << code;
    EXPECT_EQ(play(200), "") << code;
  }
}

TEST_F(DisruptionTargetsTest, AreSentAgainIfAProxyAcceptsThem) {
  EXPECT_EQ(play(200, version("1", "30")), "GET /version");
  for (const char* body : {"", "<html>Log in</html>", "{}", R"({"kind":"Status"})"}) {
    targets_.add(killed("u"), now_);
    EXPECT_EQ(play(200, body), kStatus) << body;
    EXPECT_NE(targets_.problem(), "");
    EXPECT_EQ(play(200, R"({"kind":"Pod"})"), kStatus) << body;
    EXPECT_EQ(targets_.problem(), "");
    EXPECT_EQ(play(200), "");
  }
}

// The kubelet writes the status at the same time.
TEST_F(DisruptionTargetsTest, AreSentAgainAfterAConflict) {
  EXPECT_EQ(play(200, version("1", "30")), "GET /version");
  targets_.add(killed("u"), now_);
  EXPECT_EQ(play(409, R"({"kind":"Status","reason":"Conflict"})"), kStatus);
  EXPECT_EQ(play(200), kStatus);
  EXPECT_EQ(play(200), "");
}

TEST_F(DisruptionTargetsTest, AreSentAgainForHalfAMinute) {
  EXPECT_EQ(play(200, version("1", "30")), "GET /version");
  targets_.add(killed("u"), now_);
  const MonotonicTime begin = now_;
  int requests = 0;
  while (!play(500).empty()) ++requests;
  EXPECT_GT(requests, 3);
  EXPECT_LT(requests, 10);
  EXPECT_LE(now_ - begin, DisruptionTargets::kExpiresAfter + seconds(60));
  EXPECT_FALSE(targets_.due());
}

// Two kills of one pod: an answer would be for the first entry of that UID only.
TEST_F(DisruptionTargetsTest, HaveAPodOnce) {
  targets_.add(killed("u-1"), now_);
  targets_.add(killed("u-1"), now_);
  EXPECT_EQ(play(200, version("1", "30")), "GET /version");
  EXPECT_EQ(play(200), kStatus);
  EXPECT_EQ(play(200), "");
}

TEST_F(DisruptionTargetsTest, KeepTheLastOfTooMany) {
  for (std::size_t i = 0; i < 1'000; ++i) targets_.add(killed(std::to_string(i)), now_);
  EXPECT_EQ(play(200, version("1", "30")), "GET /version");
  std::size_t requests = 0;
  while (!play(200).empty()) ++requests;
  EXPECT_EQ(requests, DisruptionTargets::kMax);
  EXPECT_THAT(last_.body, HasSubstr(R"("uid":"999")"));
}

}  // namespace
}  // namespace forestall::cluster
