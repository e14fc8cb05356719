// SPDX-License-Identifier: Apache-2.0
#include "cluster/snapshot_lister.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "cluster/status_answer.h"

namespace forestall::cluster {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A page with a node of this name; `more`: its `continue`.
std::string node_page(const std::string& node, const std::string& more) {
  return fmt::format(R"({{"kind":"NodeList","metadata":{{"continue":"{}"}},"items":[{{"metadata":)"
                     R"({{"name":"{}"}}}}]}})",
                     more, node);
}

class SnapshotListerTest : public ::testing::Test {
 protected:
  SnapshotListerTest() { lister_.begin({{"/api/v1/nodes"}}, now_); }

  // The target of the next request, which is answered so after `delay`; empty: none.
  std::string play(int code, const std::string& body = kStatusAnswer, Duration delay = {}) {
    const auto due = lister_.due();
    if (!due) return "";
    now_ = std::max(now_, *due);
    const auto request = lister_.next(now_);
    if (!request) return "";
    longest_ = request->http.longest;
    now_ += delay;
    lister_.answered(request->key, {code, "", ""}, body, std::nullopt, now_);
    return request->http.target;
  }

  MonotonicTime now_ = from_ns(1'000'000'000'000);
  std::optional<Duration> longest_;
  SnapshotLister lister_{[] { return 0.0; }};
};

TEST_F(SnapshotListerTest, ReadsPageByPage) {
  EXPECT_EQ(play(200, node_page("a", "x=")), "/api/v1/nodes?limit=500");
  EXPECT_FALSE(lister_.done());
  EXPECT_EQ(play(200, node_page("b", "")), "/api/v1/nodes?limit=500&continue=x%3D");
  ASSERT_TRUE(lister_.done());
  ASSERT_EQ(lister_.failure(), "");
  EXPECT_EQ(lister_.take(0).nodes.size(), 2U);
}

TEST_F(SnapshotListerTest, FailsIfThePageIsRepeated) {
  EXPECT_NE(play(200, node_page("a", "x")), "");
  EXPECT_NE(play(200, R"({"metadata":{"continue":"x"},"items":[]})"), "");
  EXPECT_TRUE(lister_.done());
  EXPECT_EQ(lister_.failure(), "GET /api/v1/nodes: the server repeats a page");
}

TEST_F(SnapshotListerTest, EndsAfterTooManyPages) {
  constexpr const char* kEmpty =
      R"({{"kind":"NodeList","metadata":{{"continue":"{}"}},"items":[]}})";
  int pages = 0;
  while (!lister_.done() && pages <= SnapshotLister::kPagesMax) {
    ASSERT_NE(play(200, fmt::format(kEmpty, ++pages)), "");
  }
  EXPECT_THAT(lister_.failure(), HasSubstr("too many pages"));
}

// A plan of an older state is not carried out.
TEST_F(SnapshotListerTest, EndsWhenItsStateIsTooOld) {
  for (int i = 0; i < 6; ++i) {
    ASSERT_FALSE(lister_.done()) << i;
    EXPECT_NE(play(200, node_page("a", std::to_string(i)), seconds(49)), "");
  }
  EXPECT_NE(play(500), "") << "after 294 s";
  EXPECT_LE(longest_, Duration(seconds(6)));
  now_ += seconds(6);
  EXPECT_EQ(play(200), "");
  EXPECT_TRUE(lister_.done());
  EXPECT_THAT(lister_.failure(), HasSubstr("not complete after 5 minutes"));
}

TEST_F(SnapshotListerTest, WaitsNoLongerThanThePlanMayBeOld) {
  const MonotonicTime begun = lister_.begun();
  now_ += seconds(290);
  const auto request = lister_.next(now_);
  ASSERT_TRUE(request);
  lister_.answered(request->key, {429, "3600", ""}, "{}", std::nullopt, now_);
  EXPECT_EQ(lister_.due(), begun + minutes(5));
}

TEST_F(SnapshotListerTest, BeginsAgainIfTheContinueTokenExpired) {
  EXPECT_NE(play(200, node_page("a", "x"), seconds(200)), "");
  EXPECT_NE(play(410), "");
  EXPECT_EQ(lister_.begun(), now_);
  EXPECT_EQ(play(200, node_page("a", "y"), seconds(200)), "/api/v1/nodes?limit=500");
  EXPECT_NE(play(200, node_page("b", "")), "");
  ASSERT_TRUE(lister_.done());
  ASSERT_EQ(lister_.failure(), "");
  EXPECT_EQ(lister_.take(0).nodes.size(), 2U) << "pages of the first attempt do not count";
}

TEST_F(SnapshotListerTest, AnOptionalKindThatIsRefusedIsLeftOut) {
  for (const int code : {403, 404, 500, 503}) {
    lister_.begin({{"/apis/metrics.k8s.io/v1beta1/pods", "", true}, {"/api/v1/nodes"}}, now_);
    const int attempts = code == 500 ? SnapshotLister::kOptionalAttemptsMax : 1;
    for (int i = 0; i < attempts; ++i) {
      EXPECT_EQ(play(code), "/apis/metrics.k8s.io/v1beta1/pods?limit=500") << code;
    }
    EXPECT_EQ(play(200, node_page("a", "")), "/api/v1/nodes?limit=500") << code;
    ASSERT_TRUE(lister_.done());
    EXPECT_EQ(lister_.failure(), "");
    EXPECT_THAT(lister_.left_out(),
                HasSubstr(fmt::format("GET /apis/metrics.k8s.io/v1beta1/pods: {}", code)));
    EXPECT_EQ(lister_.left_out_for_good(), code == 403 || code == 404) << code;
    EXPECT_EQ(lister_.take(0).nodes.size(), 1U);
  }
}

TEST_F(SnapshotListerTest, ARefusalOfAProxyIsRepeated) {
  for (const int code : {302, 403}) {
    EXPECT_NE(play(code, "<html>Log in</html>"), "") << code;
    ASSERT_FALSE(lister_.done());
  }
  EXPECT_NE(play(200, node_page("a", "")), "");
  EXPECT_EQ(lister_.failure(), "");
}

TEST_F(SnapshotListerTest, AnOptionalKindThatHangsLeavesTimeForTheOthers) {
  lister_.begin({{"/apis/metrics.k8s.io/v1beta1/pods", "", true}, {"/api/v1/nodes"}}, now_);
  const MonotonicTime begun = now_;
  for (int i = 0; i < SnapshotLister::kOptionalAttemptsMax; ++i) {
    EXPECT_NE(play(504, "", SnapshotLister::kOptionalLongest), "");
    EXPECT_EQ(longest_, SnapshotLister::kOptionalLongest);
  }
  EXPECT_LT(now_ - begun, std::chrono::seconds(40));
  EXPECT_EQ(play(200, node_page("a", "")), "/api/v1/nodes?limit=500");
  EXPECT_EQ(lister_.failure(), "");
}

// Nodes without a report, or pods without a measured use, would be those of the other pages.
TEST_F(SnapshotListerTest, APartOfAnOptionalKindIsNotUsed) {
  for (const int code : {403, 404}) {
    lister_.begin({{"/apis/forestall.dev/v1alpha1/nodereports", "", true}}, now_);
    EXPECT_NE(play(200, R"({"kind":"NodeReportList","metadata":{"continue":"x"},"items":[]})"), "");
    EXPECT_NE(play(code), "");
    ASSERT_TRUE(lister_.done());
    EXPECT_THAT(lister_.failure(), HasSubstr("nodereports: ")) << code;
  }
}

TEST_F(SnapshotListerTest, BeginsAgainABoundedNumberOfTimes) {
  for (int i = 0; i <= SnapshotLister::kRestartsMax; ++i) {
    ASSERT_FALSE(lister_.done()) << i;
    EXPECT_NE(play(200, node_page("a", "x")), "");
    EXPECT_NE(play(410), "");
  }
  EXPECT_TRUE(lister_.done());
  EXPECT_THAT(lister_.failure(), HasSubstr("GET /api/v1/nodes: "));
}

}  // namespace
}  // namespace forestall::cluster
