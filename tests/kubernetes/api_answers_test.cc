// SPDX-License-Identifier: Apache-2.0
// Failures as the API server describes them, delays, and text for URLs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kubernetes/api_status.h"
#include "kubernetes/backoff.h"
#include "kubernetes/retry_after.h"
#include "kubernetes/url.h"

namespace forestall::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr const char* kDate = "Sun, 06 Nov 1994 08:49:37 GMT";

TEST(Backoff, DoublesUpToItsLongestAndIsReset) {
  Backoff backoff;
  EXPECT_EQ(backoff.next(0), milliseconds(400));
  EXPECT_EQ(backoff.next(0.5), milliseconds(1200));
  EXPECT_LT(backoff.next(0.999), milliseconds(3200));
  for (int i = 0; i < 100; ++i) EXPECT_LE(backoff.next(1), Backoff::kLongest);
  EXPECT_EQ(backoff.next(0), Backoff::kLongest / 2);
  backoff.reset();
  EXPECT_EQ(backoff.next(0), milliseconds(400));
}

TEST(RetryAfter, ReadsSecondsWithinLimits) {
  EXPECT_EQ(parse_retry_after("7", ""), seconds(7));
  EXPECT_EQ(parse_retry_after(" 7 ", ""), seconds(7));
  EXPECT_EQ(parse_retry_after("0", ""), kRetryAfterMin);
  EXPECT_EQ(parse_retry_after("99999999999999", ""), kRetryAfterMax);
}

TEST(RetryAfter, CountsADateFromTheServersClock) {
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", kDate), seconds(10));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:27 GMT", kDate), kRetryAfterMin);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 2094 08:49:27 GMT", kDate), kRetryAfterMax);
}

TEST(RetryAfter, IsNothingIfItCannotBeRead) {
  EXPECT_EQ(parse_retry_after("", kDate), std::nullopt);
  EXPECT_EQ(parse_retry_after("-1", kDate), std::nullopt);
  EXPECT_EQ(parse_retry_after("soon", kDate), std::nullopt);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", ""), std::nullopt);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:47 GMT+1", kDate), std::nullopt);
}

TEST(ApiStatus, ReadsTheRefusalOfADisruptionBudget) {
  const ApiStatus status = parse_api_status(429, R"({"kind":"Status","apiVersion":"v1",
    "metadata":{},"status":"Failure","message":"Cannot evict pod as it would violate the budget.",
    "reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget",
    "message":"The disruption budget web needs 1 healthy pods"}]},"code":429})");
  EXPECT_TRUE(status.has_cause("DisruptionBudget"));
  EXPECT_EQ(status.retry_after, std::nullopt);
  EXPECT_EQ(status.text(), "429 TooManyRequests: Cannot evict pod as it would violate the budget.");
}

TEST(ApiStatus, ReadsSecondsToWait) {
  const ApiStatus status = parse_api_status(504, R"({"kind":"Status","reason":"Timeout",
    "message":"Too large resource version: 9, current: 1","details":{"retryAfterSeconds":1,
    "causes":[{"message":"Too large resource version"}]},"code":504})");
  EXPECT_EQ(status.retry_after, seconds(1));
  EXPECT_THAT(status.causes, ElementsAre("Too large resource version"));
}

TEST(ApiStatus, ReadsWhichObjectTheServerHasNot) {
  const ApiStatus status = parse_api_status(404, R"({"kind":"Status","reason":"NotFound",
    "message":"pods \"web-0\" not found","details":{"name":"web-0","kind":"pods"},"code":404})");
  EXPECT_TRUE(status.is_without("pods", "web-0"));
  EXPECT_FALSE(status.is_without("pods", "web-1"));
  EXPECT_FALSE(status.is_without("nodes", "web-0"));
  EXPECT_FALSE(parse_api_status(404, "404 page not found").is_without("", ""));
}

TEST(ApiStatus, IsFinalIfTheServerRefusesTheSameRequestLater) {
  const auto is_final = [](int code, const char* body) {
    return parse_api_status(code, body).is_final();
  };
  for (const int code : {400, 403, 404, 405, 410, 413, 415, 422}) {
    EXPECT_TRUE(is_final(code, R"({"kind":"Status"})")) << code;
    for (const char* body : {"", "{}", "404 page not found", R"({"kind":"Pod"})"}) {
      EXPECT_FALSE(is_final(code, body)) << "of a proxy: " << code << body;
    }
  }
  for (const int code : {200, 302, 401, 408, 409, 429, 500, 504}) {
    EXPECT_FALSE(is_final(code, R"({"kind":"Status"})")) << code;
  }
}

TEST(ApiStatus, OnlyAnObjectOfTheServerAccepts) {
  for (const char* body : {R"({"kind":"Pod"})", R"({"kind":"Status","status":"Success"})"}) {
    EXPECT_TRUE(check_accepted(body).ok()) << body;
  }
  for (const char* body : {"", "ok", "<html>Log in</html>", "[]", "{}", R"({"kind":1})",
                           R"({"kind":""})", R"({"message":"welcome"})", R"({"kind":"Status"})",
                           R"({"kind":"Status","status":"Failure"})", R"({"kind":"Po)"}) {
    EXPECT_FALSE(check_accepted(body).ok()) << body;
  }
}

TEST(ApiStatus, TakesAnyOtherTextAsTheMessage) {
  EXPECT_EQ(parse_api_status(429, "Too many requests, please try again later.\n").text(),
            "429: Too many requests, please try again later.");
  EXPECT_EQ(parse_api_status(502, "").text(), "502");
  EXPECT_EQ(parse_api_status(500, R"({"kind":"Status","message":7})").code, 500);
}

TEST(ApiStatus, KeepsWhatIsPrintableAndShort) {
  EXPECT_EQ(parse_api_status(500, "a\x1b[31mb\nc").message, "a?[31mb?c");
  EXPECT_LE(parse_api_status(500, std::string(100'000, 'x')).message.size(), 512U);
  std::string many = R"({"kind":"Status","details":{"causes":[)";
  for (int i = 0; i < 1000; ++i) many += R"({"reason":"x"},)";
  many += R"({}]}})";
  EXPECT_EQ(parse_api_status(500, many).causes.size(), 8U);
}

TEST(ApiStatus, BelievesTheServersCodeNotTheObjects) {
  EXPECT_EQ(parse_api_status(403, R"({"kind":"Status","code":200})").code, 403);
}

TEST(PercentEncoded, LeavesNothingThatEndsAValue) {
  EXPECT_EQ(percent_encoded("spec.nodeName=n1"), "spec.nodeName%3Dn1");
  EXPECT_EQ(percent_encoded("1&watch=0#\n/ "), "1%26watch%3D0%23%0A%2F%20");
  EXPECT_EQ(percent_encoded("\xff"), "%FF");
}

}  // namespace
}  // namespace forestall::kubernetes
