// SPDX-License-Identifier: Apache-2.0
// From a fake API server to the pods that an agent has in force.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "cluster/cluster_app_fixture.h"
#include "cluster/status_answer.h"
#include "support/manual_clock.h"

namespace forestall::cluster {
namespace {

using test::ApiAnswer;
using test::ApiRequest;
using test::chunk;
using test::FakeApiServer;
using test::json_answer;
using test::watch_answer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ClusterAppTest, GivesTheAgentTheListAndEachChange) {
  ASSERT_TRUE(has({"a=5"}));
  EXPECT_THAT(requests("GET", "/pods").front().target,
              HasSubstr("fieldSelector=spec.nodeName%3Dhere"));
  ASSERT_TRUE(is_watching());
  server_.send_held(chunk(event("ADDED", pod("b", 1)) + event("MODIFIED", pod("a", 6))));
  ASSERT_TRUE(has({"a=6", "b=1"}));
  server_.send_held(chunk(event("DELETED", pod("a", 6))));
  ASSERT_TRUE(has({"b=1"}));
}

TEST_F(ClusterAppTest, GivesTheAgentAnAnnotationThatChangesInTheWatch) {
  ASSERT_TRUE(has({"a=5"}));
  EXPECT_EQ(agent_->protected_annotation("a"), "");
  ASSERT_TRUE(is_watching());
  const auto annotated = [](const std::string& value) {
    std::string object = pod("a", 5);
    const std::string metadata = R"("metadata":{)";
    object.insert(object.find(metadata) + metadata.size(),
                  R"("annotations":{"forestall.dev/protected":")" + value + R"("},)");
    return object;
  };
  for (const std::string value : {"true", "false"}) {
    server_.send_held(chunk(event("MODIFIED", annotated(value))));
    EXPECT_TRUE(run_until([&] { return agent_->protected_annotation("a") == value; })) << value;
  }
  server_.send_held(chunk(event("MODIFIED", pod("a", 5))));
  EXPECT_TRUE(run_until([&] { return agent_->protected_annotation("a").empty(); }));
}

// The same name, another UID: two pods for a moment, and then only the new one.
TEST_F(ClusterAppTest, DistinguishesAPodFromItsSuccessorOfTheSameName) {
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(is_watching());
  std::string next = pod("z", 2);
  next.replace(next.find("\"name\":\"z\""), 10, "\"name\":\"a\"");
  server_.send_held(chunk(event("ADDED", next) + event("DELETED", pod("a", 5))));
  ASSERT_TRUE(has({"z=2"}));
}

TEST_F(ClusterAppTest, LeavesTheLastPodsInForceWhileTheApiIsAway) {
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(is_watching());
  answer([](const ApiRequest&) {
    return json_answer(500, R"({"kind":"Status","message":"etcdserver: request timed out"})");
  });
  server_.cut_held();
  ASSERT_TRUE(run_until([&] { return agent_->problem() == "500: etcdserver: request timed out"; }));
  EXPECT_THAT(agent_->in_force(), ElementsAre("a=5"));
  // The watch cannot resume; only a list has `c`.
  answer([](const ApiRequest& request) {
    if (request.target.find("watch=1") == std::string::npos) {
      return json_answer(200, list({pod("c", 3)}));
    }
    return json_answer(410, R"({"kind":"Status","reason":"Expired","code":410})");
  });
  ASSERT_TRUE(has({"c=3"}));
}

TEST_F(ClusterAppTest, GivesTheAgentNothingBeforeAListIsComplete) {
  answer([](const ApiRequest&) { return json_answer(200, "{\"kind\":\"PodList\",\"items\":["); });
  ASSERT_TRUE(run_until([&] { return requests("GET", "/pods").size() == 2; }));
  EXPECT_EQ(agent_->calls, 0);
  EXPECT_THAT(agent_->in_force(), ElementsAre("none"));
}

TEST_F(ClusterAppTest, ListsAtOnceForAnAgentThatStartedAgain) {
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return agent_->watchers == 1; }));
  agent_.reset();
  agent_ = std::make_unique<ToyAgent>(directory_ / "s");
  const MonotonicTime started = clock_.now();
  ASSERT_TRUE(has({"a=5"})) << "although nothing changed";
  EXPECT_LT(clock_.now() - started, PodWriter::kHeartbeat / 2);
  ASSERT_TRUE(is_watching());
  server_.send_held(chunk(event("ADDED", pod("b", 1))));
  ASSERT_TRUE(has({"a=5", "b=1"}));
}

TEST_F(ClusterAppTest, EvictsThePodThatTheAgentKilled) {
  const auto serve = serving(list({pod("a", 5)}));
  answer([serve](const ApiRequest& request) {
    return request.method == "POST" ? json_answer(201, kStatusAnswer) : serve(request);
  });
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return agent_->watchers == 1; }));
  agent_->report(begun_kill_of("a"));
  const auto sent = [&] { return requests("POST", "/eviction"); };
  ASSERT_TRUE(run_until([&] { return sent().size() == 1; }));
  EXPECT_EQ(sent().front().target, "/api/v1/namespaces/shop/pods/web-0/eviction");
  EXPECT_THAT(sent().front().body, HasSubstr(R"("preconditions":{"uid":"a"})"));
  // The outcome is of the same kill, and of the same pod.
  agent_->report(kill_of("a"));
  agent_->report(begun_kill_of("b"));
  ASSERT_TRUE(run_until([&] { return sent().size() == 2; }));
  EXPECT_THAT(sent().back().body, HasSubstr(R"("preconditions":{"uid":"b"})"));
}

// A node name with a mistake: the list of its pods is empty, and would make all pods unknown.
TEST_F(ClusterAppTest, DoesNotUseAnEmptyListBeforeTheNodeExists) {
  std::atomic<bool> exists = false;
  const auto serve = serving(list({}));
  answer([serve, &exists](const ApiRequest& request) {
    if (request.target != "/api/v1/nodes/here") return serve(request);
    return exists ? json_answer(200, R"({"kind":"Node"})")
                  : json_answer(404, R"({"kind":"Status","reason":"NotFound","code":404})");
  });
  const auto asked = [&] {
    const auto all = server_.requests();
    return std::ranges::count(all, "/api/v1/nodes/here", &ApiRequest::target);
  };
  ASSERT_TRUE(run_until([&] { return asked() >= 2; }));
  EXPECT_THAT(agent_->in_force(), ElementsAre("none"));
  exists = true;
  ASSERT_TRUE(has({}));
}

// The list of a node that has pods is of this node.
TEST_F(ClusterAppTest, NeedsNoNodeForAListWithPods) {
  const auto serve = serving(list({pod("a", 5)}));
  answer([serve](const ApiRequest& request) {
    return request.target == "/api/v1/nodes/here" ? json_answer(404, "{}") : serve(request);
  });
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(is_watching());
  server_.send_held(chunk(event("DELETED", pod("a", 5))));
  ASSERT_TRUE(has({})) << "the node exists: it had a pod";
}

// Finished pods of Jobs may be many, and have no process.
TEST_F(ClusterAppTest, RequestsNoFinishedPods) {
  ASSERT_TRUE(has({"a=5"}));
  EXPECT_THAT(requests("GET", "/pods").front().target,
              HasSubstr("%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"));
}

// The pod is deleted while the server refuses: the next pod of that name is left alone.
TEST_F(ClusterAppTest, EndsTheEvictionWhenThePodIsGone) {
  const auto serve = serving(list({pod("a", 5)}));
  answer([serve](const ApiRequest& request) {
    return request.method == "POST" ? json_answer(500, "{}") : serve(request);
  });
  ASSERT_TRUE(has({"a=5"}));
  ASSERT_TRUE(run_until([&] { return agent_->watchers == 1; }));
  agent_->report(kill_of("a"));
  const auto posts = [&] { return requests("POST", "/eviction").size(); };
  ASSERT_TRUE(run_until([&] { return posts() >= 1; }));
  server_.send_held(chunk(event("DELETED", pod("a", 5))));
  ASSERT_TRUE(has({}));
  const auto before = posts();
  const MonotonicTime end = clock_.now() + std::chrono::seconds(2);  // longer than two back-offs
  while (clock_.now() < end) EXPECT_TRUE(app_->step(-1, std::chrono::milliseconds(50)));
  EXPECT_EQ(posts(), before);
}

// An agent that is restarted now and then, without a kill meanwhile.
TEST(KillWatch, AConnectionThatLastedEndsTheBackOff) {
  const test::TempTree tree;
  const std::string socket = tree / "agent.sock";
  test::ManualClock clock;
  KillWatch watch(socket, clock, [] { return 0.0; },
                  {[](const KilledPod&) {}, [](const KernelKill&) {}, [] {}});
  std::vector<Duration> waits;
  for (int restart = 0; restart < 4; ++restart) {
    {
      ToyAgent agent(socket);
      if (restart > 0) clock.advance(waits.back());
      watch.advance();
      ASSERT_FALSE(watch.due()) << "it is connected";
      clock.advance(KillWatch::kStableAfter);
    }
    while (!watch.due()) {
      pollfd ended = watch.poll();
      ASSERT_EQ(::poll(&ended, 1, 10'000), 1);
      watch.advance();
    }
    waits.push_back(*watch.due() - clock.now());
  }
  EXPECT_THAT(waits, ::testing::Each(waits.front()));
}

TEST_F(ClusterAppTest, WaitsForAnAgentThatIsAway) {
  agent_.reset();
  ASSERT_TRUE(is_watching());
  server_.send_held(chunk(event("ADDED", pod("b", 1))));
  agent_ = std::make_unique<ToyAgent>(directory_ / "s");
  ASSERT_TRUE(has({"a=5", "b=1"}));
}

}  // namespace
}  // namespace forestall::cluster
