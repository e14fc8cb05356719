// SPDX-License-Identifier: Apache-2.0
// Which request follows each answer of the API server, and when. Answers are those of a
// kube-apiserver, or named where they are of another one.
#include "cluster/evictions.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "cluster/status_answer.h"

namespace forestall::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const KilledPod kPod{"uid-1", "shop", "web-0"};
constexpr const char* kBudget =
    R"({"kind":"Status","message":"Cannot evict pod as it would violate the pod's disruption )"
    R"(budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget",)"
    R"("message":"The disruption budget web needs 1 healthy pods"}]},"code":429})";
constexpr const char* kTwoBudgets =
    R"({"kind":"Status","message":"This pod has more than one PodDisruptionBudget, which the )"
    R"(eviction subresource does not support.","code":500})";
constexpr const char* kLagging =
    R"({"kind":"Status","reason":"TooManyRequests","details":{"causes":[{"message":)"
    R"("The disruption budget web is still being processed by the server."}],)"
    R"("retryAfterSeconds":10},"code":429})";
constexpr const char* kNameOfAnotherPod =
    R"({"kind":"Status","reason":"Conflict","message":"Operation cannot be fulfilled on Pod )"
    R"x(\"web-0\": the UID in the precondition (uid-1) does not match the UID in record (uid-2).)x"
    R"( The object might have been deleted and then recreated","code":409})";
constexpr const char* kPrecondition =
    R"({"kind":"Status","reason":"Conflict","message":"Precondition failed: UID in precondition: )"
    R"(uid-1, UID in object meta: uid-2","code":409})";
constexpr const char* kNoKind =
    R"({"kind":"Status","message":"no kind \"Eviction\" is registered for version \"policy/v1\" )"
    R"(in scheme","reason":"BadRequest","code":400})";

struct Answer {
  int code = 0;
  std::string body = kStatusAnswer;
  std::string retry_after = {};
};

class Play {
 public:
  explicit Play(DisruptionBudgets budgets = DisruptionBudgets::ignore)
      : evictions(budgets, [] { return 0.0; }) {
    evictions.add(kPod, now);
  }
  // "MILLISECONDS METHOD [v1beta1]" of each request, and how it ended or "waits".
  std::vector<std::string> run(const std::vector<Answer>& answers) {
    std::vector<std::string> all;
    for (const Answer& answer : answers) {
      const auto due = evictions.due();
      if (!due) break;
      now = std::max(now, *due);
      const auto request = evictions.next(now);
      if (!request) break;
      const auto ms = std::chrono::duration_cast<milliseconds>(now - from_ns(1'000'000'000'000));
      const bool old = request->http.body.find("v1beta1") != std::string::npos;
      all.push_back(
          fmt::format("{} {}{}", ms.count(), request->http.method, old ? " v1beta1" : ""));
      EXPECT_THAT(request->http.body, HasSubstr(R"("preconditions":{"uid":"uid-1"})"));
      EXPECT_FALSE(evictions.next(now)) << "one request at a time";
      evictions.answered("uid-1", {answer.code, answer.retry_after, ""}, answer.body,
                         answer.code == 0 ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt,
                         now);
    }
    const auto ended = evictions.take_ended();
    all.emplace_back(ended.empty() ? "waits" : to_string(ended.front().end));
    return all;
  }
  MonotonicTime now = from_ns(1'000'000'000'000);
  Evictions evictions;
};

TEST(Evictions, NamesTheKilledPodByItsUid) {
  Play play;
  const auto request = play.evictions.next(play.now);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->http.method, "POST");
  EXPECT_EQ(request->http.target, "/api/v1/namespaces/shop/pods/web-0/eviction");
  EXPECT_EQ(request->http.body,
            R"({"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web-0",)"
            R"("namespace":"shop"},"deleteOptions":{"preconditions":{"uid":"uid-1"}}})");
}

TEST(Evictions, EscapesNames) {
  Evictions evictions(DisruptionBudgets::ignore, [] { return 0.0; });
  evictions.add({"u", "../..", "a/b?\""}, from_ns(0));
  const auto request = evictions.next(from_ns(0));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->http.target, "/api/v1/namespaces/..%2F../pods/a%2Fb%3F%22/eviction");
  EXPECT_THAT(request->http.body, HasSubstr(R"("name":"a/b?\"")"));
}

TEST(Evictions, EndWhenTheServerAccepts) {
  for (const int code : {200, 201, 202}) {
    EXPECT_THAT(Play().run({{code}}), ElementsAre("0 POST", "evicted")) << code;
  }
  for (const char* body :
       {R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"})",
        R"({"kind":"Pod","status":{"phase":"Running"}})"}) {
    EXPECT_THAT(Play().run({{201, body}}), ElementsAre("0 POST", "evicted")) << body;
  }
}

TEST(Evictions, EndForAPodThatIsGone) {
  for (const char* body :
       {R"({"kind":"Status","status":"Failure","message":"pods \"web-0\" not found","reason":)"
        R"("NotFound","details":{"name":"web-0","kind":"pods"},"code":404})",
        R"({"kind":"Status","status":"Failure","message":"namespaces \"shop\" not found",)"
        R"("reason":"NotFound","details":{"name":"shop","kind":"namespaces"},"code":404})"}) {
    EXPECT_THAT(Play().run({{404, body}, {201}}), ElementsAre("0 POST", "gone")) << body;
    EXPECT_THAT(Play().run({{429, kBudget}, {404, body}, {200}}),
                ElementsAre("0 POST", "0 DELETE", "gone"));
  }
}

// Of a proxy, a server that does not serve the path yet, or about another object.
TEST(Evictions, AreTriedAgainAfterA404ThatDoesNotNameThePod) {
  for (const char* body :
       {"", "{}", "404 page not found", "<html>Not Found</html>",
        R"({"kind":"Status","reason":"NotFound","message":"the server could not find the )"
        R"(requested resource","details":{},"code":404})",
        R"({"kind":"Status","reason":"NotFound","details":{"name":"web-1","kind":"pods"}})",
        R"({"kind":"Status","reason":"NotFound","details":{"name":"web-0","kind":"nodes"}})",
        R"({"kind":"Pod","reason":"NotFound","details":{"name":"web-0","kind":"pods"}})",
        R"({"kind":"Status","message":"admission webhook \"w\" denied the request: no",)"
        R"("reason":"NotFound","details":{"name":"web-0","kind":"pods"},"code":404})"}) {
    EXPECT_THAT(Play().run({{404, body}, {404, body}, {201}}),
                ElementsAre("0 POST", "400 POST", "1200 POST", "evicted"))
        << body;
  }
}

// Deleted and made again under the same name during the kill.
TEST(Evictions, NeverReachALaterPodOfTheSameName) {
  for (const char* body : {kNameOfAnotherPod, kPrecondition}) {
    EXPECT_THAT(Play().run({{409, body}, {201}}), ElementsAre("0 POST", "another-pod")) << body;
    EXPECT_THAT(Play().run({{429, kBudget}, {409, body}, {200}}),
                ElementsAre("0 POST", "0 DELETE", "another-pod"));
  }
}

TEST(Evictions, AreTriedAgainAfterAnotherConflict) {
  const char* body = R"({"kind":"Status","reason":"Conflict","message":"the object was modified"})";
  EXPECT_THAT(Play().run({{409, body}, {201}}), ElementsAre("0 POST", "400 POST", "evicted"));
}

TEST(Evictions, DeleteThePodIfTheBudgetIsIgnored) {
  EXPECT_THAT(Play().run({{429, kBudget}, {200}}), ElementsAre("0 POST", "0 DELETE", "evicted"));
  EXPECT_THAT(Play().run({{500, kTwoBudgets}, {200}}),
              ElementsAre("0 POST", "0 DELETE", "evicted"));
  // A server that answers DELETE in the same way must not receive requests without end.
  EXPECT_THAT(Play().run({{429, kBudget}, {429, kBudget}, {429, kBudget}, {200}}),
              ElementsAre("0 POST", "0 DELETE", "400 DELETE", "1200 DELETE", "evicted"));
}

TEST(Evictions, LeaveThePodIfTheBudgetIsRespected) {
  EXPECT_THAT(Play(DisruptionBudgets::respect).run({{429, kBudget}}),
              ElementsAre("0 POST", "refused-by-budget"));
  EXPECT_THAT(Play(DisruptionBudgets::respect).run({{500, kTwoBudgets}}),
              ElementsAre("0 POST", "refused-by-budget"));
}

TEST(Evictions, WaitForABudgetThatIsNotComputed) {
  EXPECT_THAT(Play().run({{429, kLagging}, {201}}), ElementsAre("0 POST", "10000 POST", "evicted"));
}

TEST(Evictions, WaitIfTheServerIsOverloaded) {
  EXPECT_THAT(Play().run({{429, "Too many requests, please try again later.", "3"}, {429}, {201}}),
              ElementsAre("0 POST", "3000 POST", "3800 POST", "evicted"));
}

TEST(Evictions, UseTheOldVersionOfServersBefore122) {
  EXPECT_THAT(Play().run({{400, kNoKind}, {201}}),
              ElementsAre("0 POST", "0 POST v1beta1", "evicted"));
  // The server was replaced by a later one, and neither must receive requests without end.
  EXPECT_THAT(Play().run({{400, kNoKind}, {400, kNoKind}, {400, kNoKind}, {201}}),
              ElementsAre("0 POST", "0 POST v1beta1", "800 POST", "800 POST v1beta1", "evicted"));
}

// Several requests were sent before the first one was refused.
TEST(Evictions, ChangeTheVersionOnceForRequestsOfTheSameVersion) {
  Evictions evictions(DisruptionBudgets::ignore, [] { return 0.0; });
  const MonotonicTime now = from_ns(0);
  for (const char* uid : {"a", "b"}) {
    evictions.add({uid, "shop", uid}, now);
    ASSERT_TRUE(evictions.next(now));
  }
  for (const char* uid : {"a", "b"}) evictions.answered(uid, {400, "", ""}, kNoKind, {}, now);
  for (int i = 0; i < 2; ++i) {
    const auto request = evictions.next(now);
    ASSERT_TRUE(request) << "at once";
    EXPECT_THAT(request->http.body, HasSubstr("v1beta1"));
  }
}

// A kill is reported when it begins and with its outcome.
TEST(Evictions, AreOfAKillOnce) {
  Play play;
  KilledPod pod = kPod;
  EXPECT_FALSE(play.evictions.add(pod, play.now)) << "it waits";
  EXPECT_THAT(play.run({{201}}), ElementsAre("0 POST", "evicted"));
  EXPECT_FALSE(play.evictions.add(pod, play.now)) << "its deletion has begun";

  // Its container was started again, and killed again.
  Play deleted;
  pod.kill = "1";
  EXPECT_FALSE(deleted.evictions.add(pod, deleted.now)) << "it waits";
  deleted.evictions.gone(pod.uid);
  pod.kill = "2";
  EXPECT_FALSE(deleted.evictions.add(pod, deleted.now)) << "the watch has shown its deletion";

  Evictions respectful(DisruptionBudgets::respect, [] { return 0.0; });
  pod.kill = "7";
  for (const char* kill : {"7", "8"}) {
    pod.kill = kill;
    EXPECT_TRUE(respectful.add(pod, play.now));
    ASSERT_TRUE(respectful.next(play.now));
    respectful.answered(pod.uid, {429, "", ""}, kBudget, {}, play.now);
    EXPECT_FALSE(respectful.add(pod, play.now)) << "refused for this kill";
  }
}

TEST(Evictions, AreTriedAgainWhileThePodLives) {
  Play play;
  const std::vector<Answer> away(6, Answer{0});
  auto requests = play.run(away);
  EXPECT_EQ(requests.back(), "waits");
  EXPECT_EQ(requests[2], "1200 POST");
  EXPECT_THAT(play.evictions.problem(), HasSubstr("cut"));
  play.evictions.gone("uid-1");
  EXPECT_FALSE(play.evictions.due());
  EXPECT_EQ(play.evictions.take_ended().size(), 1U);
}

// By then the kubelet has started the containers again, and they may be healthy.
TEST(Evictions, ExpireAMinuteAfterTheKill) {
  Play play;
  const auto requests = play.run(std::vector<Answer>(40, Answer{503}));
  EXPECT_EQ(requests.back(), "expired");
  EXPECT_LE(play.now, from_ns(1'000'000'000'000) + Evictions::kExpiresAfter);
  EXPECT_FALSE(play.evictions.due());
}

// A kill that is reported late, because this process was away.
TEST(Evictions, CountTheMinuteFromTheKill) {
  const MonotonicTime now = from_ns(1'000'000'000'000);
  Evictions evictions(DisruptionBudgets::ignore, [] { return 0.0; });
  KilledPod pod{"old", "shop", "web-0"};
  pod.at = now - Evictions::kExpiresAfter;
  EXPECT_FALSE(evictions.add(pod, now));
  pod = {"late", "shop", "web-0"};
  pod.at = now - seconds(50);
  EXPECT_TRUE(evictions.add(pod, now));
  ASSERT_TRUE(evictions.next(now));
  evictions.answered("late", {500, "", ""}, "", {}, now);
  EXPECT_FALSE(evictions.next(now + seconds(10)));
  const auto ended = evictions.take_ended();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended.front().end, EvictionEnd::expired);
  // A damaged record must not make an eviction last.
  pod = {"future", "shop", "web-0"};
  pod.at = now + std::chrono::hours(1);
  EXPECT_TRUE(evictions.add(pod, now));
  EXPECT_TRUE(evictions.next(now));
  evictions.answered("future", {500, "", ""}, "", {}, now);
  EXPECT_FALSE(evictions.next(now + Evictions::kExpiresAfter));
}

TEST(Evictions, RepeatA401OnceAtOnceBecauseTheTokenIsReadAgain) {
  EXPECT_THAT(Play().run({{401}, {401}, {201}}),
              ElementsAre("0 POST", "0 POST", "800 POST", "evicted"));
}

// The API server answers so if the webhook gives no code.
TEST(Evictions, AWebhookMayPermitLater) {
  const std::string denial = R"({"kind":"Status","status":"Failure","code":400,"message":)"
                             R"("admission webhook \"w\" denied the request: failover runs"})";
  EXPECT_THAT(Play().run({{400, denial}, {400, denial}, {201}}),
              ElementsAre("0 POST", "400 POST", "1200 POST", "evicted"));
  EXPECT_THAT(Play().run({{400, R"({"kind":"Status","code":400,"message":"no JSON"})"}}),
              ElementsAre("0 POST", "refused"));
}

TEST(Evictions, ReportWhatIsForbidden) {
  Play play;
  EXPECT_THAT(Play().run({{403, "<html>no</html>"}, {422, ""}, {201}}),
              ElementsAre("0 POST", "400 POST", "1200 POST", "evicted"))
      << "of a proxy";
  EXPECT_THAT(play.run({{403, R"({"kind":"Status","message":"pods \"web-0\" is forbidden"})"}}),
              ElementsAre("0 POST", "refused"));
  EXPECT_EQ(play.evictions.problem(), "403: pods \"web-0\" is forbidden");
  EXPECT_THAT(Play().run({{422, R"({"kind":"Status"})"}}), ElementsAre("0 POST", "refused"));
}

TEST(Evictions, BackOffAfterGarbage) {
  for (const int code : {100, 204 + 100, 418, 500, 599}) {
    EXPECT_THAT(Play().run({{code, "\xff\x00garbage"}, {201}}),
                ElementsAre("0 POST", "400 POST", "evicted"))
        << code;
  }
}

// A proxy may answer in place of the API server.
TEST(Evictions, BackOffAfterAnAcceptanceThatIsNone) {
  for (const char* body :
       {"", "<html>Log in</html>", "[]", "{}", R"({"kind":"Sta)", R"({"kind":1})",
        R"({"kind":"Status"})", R"({"kind":"Status","status":"Failure"})"}) {
    EXPECT_THAT(Play().run({{200, body}, {201}}), ElementsAre("0 POST", "400 POST", "evicted"))
        << body;
  }
}

TEST(Evictions, AreOneForEachPod) {
  Play play;
  play.evictions.add(kPod, play.now);
  EXPECT_TRUE(play.evictions.next(play.now));
  EXPECT_FALSE(play.evictions.next(play.now));
  play.evictions.add({"uid-2", "shop", "web-0"}, play.now);
  const auto second = play.evictions.next(play.now);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->key, "uid-2");
  // An answer for a pod that is gone meanwhile.
  play.evictions.gone("uid-2");
  play.evictions.answered("uid-2", {500, "", ""}, "", std::nullopt, play.now);
  EXPECT_FALSE(play.evictions.due());
}

TEST(Evictions, IgnoreAPodWithoutANameOrUid) {
  Evictions evictions(DisruptionBudgets::ignore, [] { return 0.0; });
  evictions.add({"", "shop", "web"}, from_ns(0));
  evictions.add({"u", "", "web"}, from_ns(0));
  evictions.add({"u", "shop", ""}, from_ns(0));
  EXPECT_FALSE(evictions.due());
}

TEST(Evictions, DropTheOldestOfTooMany) {
  Evictions evictions(DisruptionBudgets::ignore, [] { return 0.0; });
  for (std::size_t i = 0; i <= Evictions::kMax; ++i) {
    evictions.add({std::to_string(i), "shop", "web"}, from_ns(0));
  }
  const auto ended = evictions.take_ended();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended.front().pod.uid, "0");
  EXPECT_EQ(ended.front().end, EvictionEnd::dropped);
  EXPECT_EQ(evictions.next(from_ns(0))->key, "1");
}

}  // namespace
}  // namespace forestall::cluster
