// SPDX-License-Identifier: Apache-2.0
#include "cluster/plan_evictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/status_answer.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kBudgetRefusal =
    R"({"kind":"Status","reason":"TooManyRequests","message":"Cannot evict pod","details":)"
    R"({"causes":[{"reason":"DisruptionBudget"}]},"code":429})";
constexpr const char* kLaterPod =
    R"({"kind":"Status","reason":"Conflict","message":"the UID in the precondition (a) does not )"
    R"(match","code":409})";
constexpr const char* kOldServer =
    R"({"kind":"Status","message":"no kind \"Eviction\" is registered for version \"policy/v1\"",)"
    R"("code":400})";

PlannedEviction planned(const std::string& name) {
  return {{"shop", name, "uid-" + name}, "n1", "p", "PodLifeTime", "old"};
}

std::string pod_text(const std::string& uid, const std::string& more = "") {
  return R"({"kind":"Pod","metadata":{"uid":")" + uid + '"' + more + "}}";
}

std::string no_pod(const std::string& name) {
  return R"({"kind":"Status","reason":"NotFound","details":{"kind":"pods","name":")" + name +
         R"("},"code":404})";
}

// "NAME=END", in the order in which they ended.
std::vector<std::string> ends_of(PlanEvictions& evictions) {
  std::vector<std::string> all;
  for (const auto& each : evictions.take_ended()) {
    all.push_back(each.eviction.pod.name + '=' + std::string(to_string(each.end)));
  }
  return all;
}

class PlanEvictionsTest : public ::testing::Test {
 protected:
  void begin(const std::vector<std::string>& names) {
    std::vector<PlannedEviction> plan;
    for (const std::string& each : names) plan.push_back(planned(each));
    evictions_.begin(std::move(plan), now_, holds_);
  }
  // The name of the pod of the next request, which is answered so; empty: none.
  std::string play(int code, const std::string& body = kStatusAnswer,
                   const std::string& retry_after = "") {
    const auto due = evictions_.due();
    if (!due) return "";
    now_ = std::max(now_, *due);
    const auto request = evictions_.next(now_);
    if (!request) return "";
    EXPECT_FALSE(evictions_.next(now_)) << "one request at a time";
    last_ = request->http;
    const std::string name = request->key.substr(4);
    const std::string& text = code == 404 && body == kStatusAnswer ? no_pod(name) : body;
    evictions_.answered(request->key, {code, retry_after, ""}, text,
                        code == 0 ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt, now_);
    return name;
  }
  std::vector<std::string> ended() { return ends_of(evictions_); }

  MonotonicTime now_ = from_ns(1'000'000'000'000);
  bool may_evict_ = true;
  bool holds_ = false;
  kubernetes::OutgoingRequest last_;
  PlanEvictions evictions_{{.grace = 7, .answer_longest = seconds(3)},
                           [this] { return may_evict_; },
                           [] { return 0.0; }};
};

TEST_F(PlanEvictionsTest, EvictsInTheOrderOfThePlan) {
  EXPECT_TRUE(evictions_.done());
  begin({"a", "b"});
  EXPECT_EQ(play(201), "a");
  EXPECT_EQ(last_.method, "POST");
  EXPECT_EQ(last_.target, "/api/v1/namespaces/shop/pods/a/eviction");
  EXPECT_EQ(last_.longest, Duration(seconds(3)));
  EXPECT_THAT(last_.body, HasSubstr(R"("deleteOptions":{"gracePeriodSeconds":7,)"
                                    R"("preconditions":{"uid":"uid-a"}})"));
  EXPECT_FALSE(evictions_.done());
  EXPECT_EQ(play(201), "b");
  EXPECT_TRUE(evictions_.done());
  EXPECT_THAT(ended(), ElementsAre("a=evicted", "b=evicted"));
}

TEST_F(PlanEvictionsTest, AnnotatesTheEvictionWithItsReason) {
  begin({"a"});
  EXPECT_EQ(play(201), "a");
  EXPECT_THAT(last_.body, HasSubstr(R"("annotations":{"reason":"triggered by p/PodLifeTime: old",)"
                                    R"("requested-by":"forestall"})"));
}

// "a" and "b" have the annotation, "c" does not.
TEST_F(PlanEvictionsTest, AWebhookMayMoveThePodsThatAllowIt) {
  const std::string evacuation =
      R"({"kind":"Status","code":429,"message":"admission webhook \"w\" denied the request: )"
      R"(Eviction triggered evacuation of VMI \"shop/vm\""})";
  const auto begin_in = [&](PlanEvictions& evictions) {
    std::vector<PlannedEviction> plan{planned("a"), planned("b"), planned("c")};
    plan[0].background = plan[1].background = true;
    evictions.begin(std::move(plan), now_, false);
  };
  for (const bool enabled : {true, false}) {
    PlanEvictions evictions(
        {.grace = {}, .answer_longest = seconds(3), .background = enabled}, [] { return true; },
        [] { return 0.0; });
    begin_in(evictions);
    for (const std::string& body : {evacuation, std::string(kBudgetRefusal), evacuation}) {
      now_ = std::max(now_, evictions.due().value_or(now_));
      const auto request = evictions.next(now_);
      ASSERT_TRUE(request);
      evictions.answered(request->key, {429, "", ""}, body, std::nullopt, now_);
    }
    EXPECT_THAT(ends_of(evictions), ElementsAre(enabled ? "a=background" : "a=refused",
                                                "b=refused-by-budget", "c=refused"));
  }
}

TEST_F(PlanEvictionsTest, GoesOnAfterARefusal) {
  begin({"a", "b", "c", "d"});
  EXPECT_EQ(play(429, kBudgetRefusal), "a");
  EXPECT_EQ(play(404), "b");
  EXPECT_EQ(play(409, kLaterPod), "c");
  EXPECT_EQ(play(403), "d");
  EXPECT_TRUE(evictions_.done());
  EXPECT_THAT(ended(), ElementsAre("a=refused-by-budget", "b=gone", "c=gone", "d=refused"));
}

TEST_F(PlanEvictionsTest, WaitsAsLongAsAnOverloadedServerRequests) {
  begin({"a", "b"});
  EXPECT_EQ(play(429, "too many requests", "9"), "a");
  const MonotonicTime refused = now_;
  EXPECT_EQ(play(200, pod_text("uid-a")), "a");
  EXPECT_EQ(now_, refused + seconds(9));
  EXPECT_EQ(play(201), "a");
  EXPECT_EQ(play(201), "b");
  EXPECT_THAT(ended(), ElementsAre("a=evicted", "b=evicted"));
}

// A moment's overload, or another writer of the pod, must not keep the pod where it is.
TEST_F(PlanEvictionsTest, TriesOnceMoreWhatTheServerDidNotBegin) {
  const std::string conflict =
      R"({"kind":"Status","reason":"Conflict","message":"object has been modified","code":409})";
  for (const auto& [code, body] : {std::pair(429, std::string("{}")), std::pair(409, conflict)}) {
    begin({"a", "b"});
    EXPECT_EQ(play(code, body), "a");
    EXPECT_EQ(play(200, pod_text("uid-a")), "a");
    EXPECT_EQ(play(code, body), "a");
    EXPECT_EQ(last_.method, "POST");
    EXPECT_EQ(play(200, pod_text("uid-a")), "a");
    EXPECT_EQ(play(201), "b") << "the pod is not tried without end";
    EXPECT_THAT(ended(), ElementsAre("a=failed", "b=evicted")) << code;
  }
}

TEST_F(PlanEvictionsTest, AConflictAfterALostAnswerLeavesItUnknown) {
  begin({"a"});
  EXPECT_EQ(play(0), "a");
  EXPECT_EQ(play(200, pod_text("uid-a")), "a");
  EXPECT_EQ(play(409), "a");
  EXPECT_EQ(play(200, pod_text("uid-a")), "a");
  EXPECT_THAT(ended(), ElementsAre("a=unknown"));
}

TEST_F(PlanEvictionsTest, GoesOnAfterAFailingWebhook) {
  const std::string webhook = R"({"kind":"Status","message":"failed calling webhook","code":500})";
  begin({"a", "b", "c", "d", "e", "f"});
  const auto fails = [&](const std::string& pod) {
    EXPECT_EQ(play(500, webhook), pod);
    EXPECT_EQ(play(200, pod_text("uid-" + pod)), pod) << "it is not evicted";
    EXPECT_EQ(last_.method, "GET");
  };
  fails("a");
  const MonotonicTime refused = now_;
  fails("b");
  EXPECT_GT(now_, refused) << "a server that has problems gets fewer requests";
  EXPECT_EQ(play(201), "c");
  fails("d");
  fails("e");
  EXPECT_EQ(play(403), "f") << "the server is well";
  EXPECT_THAT(ended(), ElementsAre("a=failed", "b=failed", "c=evicted", "d=failed", "e=failed",
                                   "f=refused"));
}

// As many as a tenant likes: the plan has time for the others.
TEST_F(PlanEvictionsTest, GoesOnAfterFailuresOfManyPods) {
  std::vector<std::string> names;
  for (char each = 'a'; each <= 'z'; ++each) names.emplace_back(1, each);
  begin(names);
  const MonotonicTime begun = now_;
  for (char each = 'a'; each < 'z'; ++each) {
    const std::string name(1, each);
    const int code = each % 2 == 0 ? 429 : 500;
    for (int i = 0; i < (code == 429 ? PlanEvictions::kLostMax : 1); ++i) {
      EXPECT_EQ(play(code, "{}"), name);
      EXPECT_EQ(play(200, pod_text("uid-" + name)), name);
    }
  }
  EXPECT_EQ(play(201), "z");
  EXPECT_LT(now_ - begun, PlanEvictions::kPlanAgeMax / 2);
  const auto all = evictions_.take_ended();
  ASSERT_EQ(all.size(), names.size());
  EXPECT_TRUE(all.front().is_of_pod);
  EXPECT_EQ(all.back().end, PlannedEnd::evicted);
  EXPECT_EQ(evictions_.dropped_why(), "");
}

// It chooses the code, and the time after which it is to be called again.
TEST_F(PlanEvictionsTest, AWebhookDelaysNoOtherPod) {
  begin({"a", "b", "c"});
  const MonotonicTime begun = now_;
  const auto denial = [](int code) {
    return R"({"kind":"Status","message":"admission webhook \"w.shop\" denied the request: no",)"
           R"("details":{"retryAfterSeconds":3600},"code":)" +
           std::to_string(code) + "}";
  };
  EXPECT_EQ(play(429, denial(429)), "a");
  EXPECT_EQ(play(503, denial(503)), "b");
  EXPECT_EQ(play(201), "c");
  EXPECT_EQ(now_, begun);
  EXPECT_THAT(ended(), ElementsAre("a=refused", "b=refused", "c=evicted"));
}

// Otherwise a lost answer and a code of the webhook's choice would count as an eviction.
TEST_F(PlanEvictionsTest, ADenialAfterALostAnswerIsARefusal) {
  const std::string denial =
      R"({"kind":"Status","message":"admission webhook \"w\" denied the request: no","code":404})";
  begin({"a"});
  EXPECT_EQ(play(0), "a");
  EXPECT_EQ(play(200, pod_text("uid-a")), "a");
  EXPECT_EQ(play(404, denial), "a");
  EXPECT_THAT(ended(), ElementsAre("a=refused"));
}

// Of a webhook too: it is neither about a budget nor about the version of the API.
TEST_F(PlanEvictionsTest, ADenialWithAnyCodeIsARefusal) {
  const std::string budget =
      R"({"kind":"Status","message":"admission webhook \"w\" denied the request: no","details":)"
      R"({"causes":[{"reason":"DisruptionBudget"}]},"code":429})";
  const std::string version =
      R"({"kind":"Status","message":"admission webhook \"w\" denied the request: no kind )"
      R"(\"Eviction\" is registered","code":400})";
  begin({"a", "b"});
  EXPECT_EQ(play(429, budget), "a");
  EXPECT_EQ(play(400, version), "b");
  EXPECT_THAT(ended(), ElementsAre("a=refused", "b=refused"));
}

// Reads are answered, writes are not: etcd has no space, for instance.
TEST_F(PlanEvictionsTest, ErrorsInManyNamespacesEndThePlan) {
  std::vector<PlannedEviction> plan;
  for (int i = 0; i < 9; ++i) {
    plan.push_back(planned(std::to_string(i)));
    plan.back().pod.pod_namespace = "tenant-" + std::to_string(i);
  }
  evictions_.begin(std::move(plan), now_, holds_);
  for (std::size_t i = 0; i < PlanEvictions::kFailingNamespacesMax; ++i) {
    ASSERT_EQ(play(500, "{}"), std::to_string(i));
    ASSERT_EQ(play(200, pod_text("uid-" + std::to_string(i))), std::to_string(i));
  }
  EXPECT_TRUE(evictions_.done());
  EXPECT_THAT(evictions_.dropped_why(), HasSubstr("evictions fail in 5 namespaces, at last: 500"));
  const auto all = evictions_.take_ended();
  ASSERT_EQ(all.size(), 9U);
  EXPECT_TRUE(all[3].is_of_pod);
  EXPECT_EQ(all[4].end, PlannedEnd::failed);
  EXPECT_FALSE(all[4].is_of_pod);
  EXPECT_EQ(all[5].end, PlannedEnd::abandoned);
}

// A load balancer lost the connection to the API server.
TEST_F(PlanEvictionsTest, AnErrorNeedNotMeanThatThePodStays) {
  begin({"a", "b"});
  EXPECT_EQ(play(502, "bad gateway"), "a");
  EXPECT_EQ(play(404), "a");
  EXPECT_EQ(play(503, "", "9"), "b");
  const MonotonicTime failed = now_;
  EXPECT_EQ(play(200, pod_text("uid-b")), "b");
  EXPECT_LT(now_, failed + seconds(9)) << "what was requested is of the next eviction";
  EXPECT_THAT(ended(), ElementsAre("a=evicted", "b=failed"));
}

TEST_F(PlanEvictionsTest, DropsThePlanIfTheServerDoesNotEvict) {
  begin({"a", "b", "c", "d", "e"});
  EXPECT_EQ(play(201), "a");
  EXPECT_EQ(play(429, "overload"), "b");
  for (int i = 1; i < PlanEvictions::kAttemptsMax; ++i) EXPECT_EQ(play(429, "overload"), "b");
  EXPECT_FALSE(evictions_.done());
  EXPECT_EQ(play(429, "overload"), "b");
  EXPECT_EQ(last_.method, "GET");
  EXPECT_TRUE(evictions_.done()) << "it does not read either";
  EXPECT_EQ(evictions_.dropped_why(), "the API server does not answer: 429: overload");
  const auto all = evictions_.take_ended();
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[1].end, PlannedEnd::failed);
  EXPECT_FALSE(all[1].is_of_pod);
  EXPECT_EQ(all[4].end, PlannedEnd::abandoned);
  begin({"b"});
  EXPECT_EQ(evictions_.dropped_why(), "") << "another plan";
}

// The token of the service account is replaced meanwhile.
TEST_F(PlanEvictionsTest, TriesAgainWithAnotherToken) {
  begin({"a"});
  EXPECT_EQ(play(401), "a");
  EXPECT_EQ(play(201), "a");
  EXPECT_THAT(ended(), ElementsAre("a=evicted"));
}

TEST_F(PlanEvictionsTest, ChecksRightBeforeEachRequest) {
  begin({"a", "b", "c"});
  EXPECT_EQ(play(201), "a");
  may_evict_ = false;
  EXPECT_EQ(play(201), "");
  EXPECT_TRUE(evictions_.done());
  EXPECT_THAT(ended(), ElementsAre("a=evicted", "c=abandoned", "b=abandoned"));
}

TEST_F(PlanEvictionsTest, TakesTheAnswerOfARequestThatWasSentBefore) {
  begin({"a", "b"});
  ASSERT_TRUE(evictions_.next(now_));
  evictions_.abandon("the leadership is lost");
  EXPECT_FALSE(evictions_.done());
  evictions_.answered("uid-a", {201, "", ""}, kStatusAnswer, std::nullopt, now_);
  EXPECT_TRUE(evictions_.done());
  EXPECT_THAT(ended(), ElementsAre("b=abandoned", "a=evicted"));
  begin({"c", "d"});
  ASSERT_TRUE(evictions_.next(now_));
  evictions_.abandon("the leadership is lost");
  evictions_.answered("uid-c", {429, "", ""}, "{}", std::nullopt, now_);
  EXPECT_TRUE(evictions_.done()) << "it is not sent again";
  EXPECT_THAT(ended(), ElementsAre("d=abandoned", "c=failed"));
}

TEST_F(PlanEvictionsTest, ADroppedPlanDoesNotWaitForAnOverloadedServer) {
  begin({"a", "b"});
  EXPECT_EQ(play(429, "overload", "60"), "a");
  evictions_.abandon("this process ends");
  EXPECT_TRUE(evictions_.done()) << "it is known that a was not evicted";
  EXPECT_THAT(ended(), ElementsAre("b=abandoned", "a=failed"));
  begin({"a", "b"});
  EXPECT_EQ(play(429, "overload"), "a");
  now_ = std::max(now_, *evictions_.due());
  ASSERT_TRUE(evictions_.next(now_));
  evictions_.abandon("this process ends");
  EXPECT_FALSE(evictions_.done()) << "the pod is being read";
  evictions_.answered("uid-a", {429, "", ""}, "overload", std::nullopt, now_);
  EXPECT_TRUE(evictions_.done());
  EXPECT_THAT(ended(), ElementsAre("b=abandoned", "a=failed"));
}

TEST_F(PlanEvictionsTest, SendsNothingAfterThePlanIsDropped) {
  begin({"a", "b"});
  ASSERT_TRUE(evictions_.next(now_));
  evictions_.abandon("the leadership is lost");
  evictions_.answered("uid-a", {400, "", ""}, kOldServer, std::nullopt, now_);
  EXPECT_TRUE(evictions_.done()) << "with the other version";
  EXPECT_FALSE(evictions_.next(now_));
  EXPECT_THAT(ended(), ElementsAre("b=abandoned", "a=abandoned"));
}

TEST_F(PlanEvictionsTest, ReadsThePodAfterALostAnswer) {
  begin({"a", "b", "c", "d"});
  EXPECT_EQ(play(0), "a");
  EXPECT_EQ(play(404), "a");
  EXPECT_EQ(last_.method, "GET");
  EXPECT_EQ(last_.target, "/api/v1/namespaces/shop/pods/a");
  EXPECT_EQ(last_.longest, Duration(seconds(3)));
  EXPECT_EQ(play(504), "b");
  EXPECT_EQ(play(200, pod_text("of-a-later-pod")), "b");
  EXPECT_EQ(play(500, "etcdserver: request timed out"), "c");
  EXPECT_EQ(play(500), "c") << "the reading is repeated";
  EXPECT_EQ(play(200, pod_text("uid-c", R"(,"deletionTimestamp":"2026-01-01T00:00:00Z")")), "c");
  EXPECT_EQ(play(0), "d");
  EXPECT_EQ(play(200, pod_text("uid-d")), "d");
  EXPECT_EQ(last_.method, "GET");
  EXPECT_EQ(play(201), "d");
  EXPECT_EQ(last_.method, "POST") << "it was not evicted";
  EXPECT_THAT(ended(), ElementsAre("a=evicted", "b=evicted", "c=evicted", "d=evicted"));
}

TEST_F(PlanEvictionsTest, ReadsThePodAfterAnAcceptanceThatIsNoJson) {
  begin({"a"});
  EXPECT_EQ(play(200, "<html>Log in</html>"), "a");
  EXPECT_EQ(play(200, pod_text("uid-a")), "a");
  EXPECT_EQ(last_.method, "GET");
  EXPECT_EQ(play(201), "a");
  EXPECT_EQ(last_.method, "POST");
  EXPECT_THAT(ended(), ElementsAre("a=evicted"));
}

TEST_F(PlanEvictionsTest, LeavesAPodWhoseAnswersAreLost) {
  begin({"a", "b", "c"});
  for (int i = 0; i < PlanEvictions::kLostMax; ++i) {
    EXPECT_EQ(play(0), "a");
    EXPECT_EQ(play(200, pod_text("uid-a")), "a");
  }
  EXPECT_EQ(play(0), "b");
  EXPECT_EQ(play(200, pod_text("uid-b")), "b");
  EXPECT_EQ(play(429, kBudgetRefusal), "b");
  EXPECT_EQ(play(201), "c");
  EXPECT_THAT(ended(), ElementsAre("a=unknown", "b=refused-by-budget", "c=evicted"));
}

TEST_F(PlanEvictionsTest, DoesNotDecideIfThePodCannotBeRead) {
  begin({"a", "b", "c"});
  EXPECT_EQ(play(0), "a");
  EXPECT_EQ(play(403), "a");
  EXPECT_EQ(play(0), "b");
  for (int i = 0; i < PlanEvictions::kAttemptsMax; ++i) EXPECT_EQ(play(0), "b");
  EXPECT_TRUE(evictions_.done()) << "the server does not answer";
  EXPECT_THAT(ended(), ElementsAre("a=unknown", "b=unknown", "c=abandoned"));
}

TEST_F(PlanEvictionsTest, ReadsThePodThoughThePlanIsDropped) {
  begin({"a", "b"});
  EXPECT_EQ(play(0), "a");
  evictions_.abandon("the leadership is lost");
  may_evict_ = false;
  EXPECT_FALSE(evictions_.done());
  EXPECT_EQ(play(404), "a");
  EXPECT_THAT(ended(), ElementsAre("b=abandoned", "a=evicted"));
  may_evict_ = true;
  begin({"a", "b"});
  EXPECT_EQ(play(0), "a");
  evictions_.abandon("the leadership is lost");
  EXPECT_EQ(play(200, pod_text("uid-a")), "a");
  EXPECT_TRUE(evictions_.done()) << "it is not evicted again";
  EXPECT_THAT(ended(), ElementsAre("b=abandoned", "a=unknown")) << "the server may still do it";
}

TEST_F(PlanEvictionsTest, HoldsAfterAPodThatWasNotEvicted) {
  holds_ = true;
  begin({"a", "b", "c"});
  EXPECT_EQ(play(201), "a");
  EXPECT_FALSE(evictions_.held());
  EXPECT_EQ(play(503, "", "9"), "b");
  EXPECT_EQ(play(200, pod_text("uid-b")), "b");
  const MonotonicTime failed = now_;
  EXPECT_TRUE(evictions_.held());
  EXPECT_FALSE(evictions_.due());
  EXPECT_FALSE(evictions_.next(now_ + seconds(10)));
  evictions_.resume({planned("d"), planned("e")}, true);
  EXPECT_EQ(play(201), "d");
  EXPECT_EQ(now_, failed + seconds(9)) << "Retry-After holds for the rest of the plan";
  EXPECT_EQ(play(429, "overload"), "e");
  for (int i = 0; i < PlanEvictions::kAttemptsMax; ++i) EXPECT_EQ(play(503), "e");
  EXPECT_TRUE(evictions_.done()) << "a server that does not answer ends the plan";
  EXPECT_FALSE(evictions_.held());
  EXPECT_THAT(ended(), ElementsAre("a=evicted", "b=failed", "d=evicted", "e=failed"));
}

TEST_F(PlanEvictionsTest, HoldsAfterTheLastPod) {
  holds_ = true;
  begin({"a"});
  EXPECT_EQ(play(403), "a");
  EXPECT_TRUE(evictions_.held());
  EXPECT_FALSE(evictions_.done()) << "another pod may take its place";
  evictions_.resume({planned("b"), planned("c")}, false);
  EXPECT_EQ(play(403), "b");
  EXPECT_FALSE(evictions_.held()) << "the rest is carried out as it is";
  EXPECT_EQ(play(201), "c");
  EXPECT_TRUE(evictions_.done());
  begin({"a", "b"});
  EXPECT_EQ(play(403), "a");
  evictions_.abandon("the leadership is lost");
  EXPECT_TRUE(evictions_.done());
}

TEST_F(PlanEvictionsTest, DropsAnOldPlan) {
  begin({"a", "b"});
  EXPECT_EQ(play(201), "a");
  now_ += PlanEvictions::kPlanAgeMax;
  EXPECT_EQ(play(201), "");
  EXPECT_THAT(ended(), ElementsAre("a=evicted", "b=abandoned"));
}

TEST_F(PlanEvictionsTest, UsesTheVersionThatTheServerHas) {
  begin({"a", "b"});
  EXPECT_EQ(play(400, kOldServer), "a");
  EXPECT_EQ(play(201), "a");
  EXPECT_THAT(last_.body, HasSubstr("policy/v1beta1"));
  EXPECT_EQ(play(201), "b");
  EXPECT_THAT(last_.body, HasSubstr("policy/v1beta1"));
  begin({"c"});
  EXPECT_EQ(play(400, kOldServer), "c");
  EXPECT_EQ(play(400, kOldServer), "c");
  EXPECT_THAT(ended(), ElementsAre("a=evicted", "b=evicted", "c=refused"));
}

TEST_F(PlanEvictionsTest, A404OfAProxyIsNotAPodThatIsGone) {
  begin({"a"});
  EXPECT_EQ(play(404, "404 page not found"), "a");
  EXPECT_EQ(last_.method, "POST");
  EXPECT_EQ(play(404, "404 page not found"), "a") << "the pod is read";
  EXPECT_EQ(last_.method, "GET");
  EXPECT_THAT(ended(), ElementsAre());
  EXPECT_EQ(play(200, pod_text("uid-a")), "a") << "the proxy is the API server's again";
  EXPECT_EQ(play(201), "a");
  EXPECT_EQ(last_.method, "POST");
  EXPECT_THAT(ended(), ElementsAre("a=evicted"));
}

TEST_F(PlanEvictionsTest, AnyOtherRefusalOfAProxyIsNoneOfTheServer) {
  for (const int code : {302, 403, 422}) {
    begin({"a"});
    EXPECT_EQ(play(code, "<html>Log in</html>"), "a") << code;
    EXPECT_EQ(play(code, "<html>Log in</html>"), "a") << "the pod is read";
    EXPECT_EQ(play(200, pod_text("uid-a")), "a");
    EXPECT_EQ(last_.method, "GET") << code;
    EXPECT_EQ(play(201), "a");
    EXPECT_THAT(ended(), ElementsAre("a=evicted"));
  }
}

// It would count as evicted if the 404 counted as a pod that is gone.
TEST_F(PlanEvictionsTest, ALostAnswerAndA404OfAProxyAreUnknown) {
  begin({"a", "b"});
  EXPECT_EQ(play(0), "a");
  while (play(404, "404 page not found") == "a") {
  }
  EXPECT_THAT(ended(), ElementsAre("a=unknown", "b=abandoned"));
}

// If the plan counts it as evicted, a plan made again would be the same. A cluster in which many
// pods end must not use up the plans that are made after refusals.
TEST_F(PlanEvictionsTest, APodThatIsGoneHoldsThePlanOnlyIfItsEvictionIsMissing) {
  for (const bool planned_gone : {false, true}) {
    PlanEvictions evictions(
        {.grace = {}, .gone_is_planned = planned_gone}, [] { return true; }, [] { return 0.0; });
    evictions.begin({planned("a"), planned("b"), planned("c")}, now_, true);
    const auto answer = [&](int code, const std::string& body) {
      const auto request = evictions.next(std::max(now_, evictions.due().value_or(now_)));
      if (!request) return false;
      evictions.answered(request->key, {code, "", ""}, body, std::nullopt, now_);
      return true;
    };
    EXPECT_TRUE(answer(404, no_pod("a")));
    EXPECT_EQ(evictions.held(), !planned_gone);
    EXPECT_EQ(answer(409, kLaterPod), planned_gone);
    EXPECT_EQ(evictions.held(), !planned_gone);
    if (!planned_gone) continue;
    EXPECT_TRUE(answer(429, kBudgetRefusal));
    EXPECT_TRUE(evictions.held()) << "after a refusal another pod may follow";
    EXPECT_THAT(ends_of(evictions), ElementsAre("a=gone", "b=gone", "c=refused-by-budget"));
  }
}

TEST_F(PlanEvictionsTest, APodWhoseNamespaceIsGoneIsGone) {
  begin({"a"});
  EXPECT_EQ(play(404, R"({"kind":"Status","reason":"NotFound","message":"namespaces \"shop\" not )"
                      R"(found","details":{"name":"shop","kind":"namespaces"},"code":404})"),
            "a");
  EXPECT_THAT(ended(), ElementsAre("a=gone"));
}

}  // namespace
}  // namespace forestall::cluster
