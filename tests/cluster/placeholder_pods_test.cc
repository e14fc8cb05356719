// SPDX-License-Identifier: Apache-2.0
#include "cluster/placeholder_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cluster/status_answer.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kRefusedCreation = R"({"kind":"Status","message":"exceeded quota"})";

constexpr const char* kNoPlaceholder =
    R"({"kind":"Status","reason":"NotFound","details":{"name":"placeholder-uid-a","kind":"pods"}})";

std::string placeholder_text(const std::string& uid, const std::string& node,
                             const std::string& status = "{}", const std::string& plan = "run-1") {
  return R"({"kind":"Pod","metadata":{"uid":")" + uid + R"(","labels":{"forestall.dev/plan":")" +
         plan + R"("}},"spec":{"nodeName":")" + node + R"("},"status":)" + status + "}";
}

std::string terminating_text(const std::string& uid) {
  return R"({"kind":"Pod","metadata":{"uid":")" + uid +
         R"(","deletionTimestamp":"2026-01-02T15:04:05Z"},"spec":{"nodeName":"n2"}})";
}

rebalance::Snapshot snapshot_with_pod() {
  rebalance::Snapshot snapshot;
  snapshot.priority_classes = {{"forestall-placeholder", -1000}};
  rebalance::ClusterPod& pod = snapshot.pods.emplace_back();
  pod.pod_namespace = "shop";
  pod.name = "a";
  pod.uid = "uid-a";
  pod.node = "n1";
  pod.owners = {{"ReplicaSet", "web", "owner"}};
  return snapshot;
}

rebalance::ClusterPod replacement_on(std::string_view node) {
  rebalance::ClusterPod pod;
  pod.pod_namespace = "shop";
  pod.name = "b";
  pod.uid = "uid-b";
  pod.node = node;
  pod.owners = {{"ReplicaSet", "web", "owner"}};
  return pod;
}

rebalance::ClusterPod placeholder_in(const rebalance::Snapshot& snapshot, std::string_view uid,
                                     std::string_view name) {
  rebalance::ClusterPod pod;
  pod.pod_namespace = "forestall-placeholders";
  pod.name = snapshot.texts->keep(std::string(name));
  pod.uid = snapshot.texts->keep(std::string(uid));
  pod.node = "n2";
  pod.labels = {{kPlanLabel, "run-1"}};
  return pod;
}

class PlaceholderPodsTest : public ::testing::Test {
 protected:
  void begin() {
    rebalance::Snapshot snapshot = snapshot_with_pod();
    placeholders_.begin(wanted_room({}, snapshot, 0, "n2", "run-1").value(), now_);
  }
  void begin_other(const std::string& node) {
    rebalance::Snapshot snapshot = snapshot_with_pod();
    snapshot.pods.front().uid = "uid-c";
    placeholders_.begin(wanted_room({}, snapshot, 0, node, "run-1").value(), now_);
  }
  // "METHOD TARGET" of the next request, which is answered so; empty: none.
  std::string play(int code, const std::string& body = kStatusAnswer) {
    const auto due = placeholders_.due();
    if (!due) return "";
    now_ = std::max(now_, *due);
    const auto request = placeholders_.next(now_);
    if (!request) return "";
    body_ = request->http.body;
    const std::string& text = code == 404 && body == kStatusAnswer ? kNoPlaceholder : body;
    placeholders_.answered(request->key, {code, "", ""}, text,
                           code == 0 ? std::optional(Error{ECONNRESET, "cut"}) : std::nullopt,
                           now_);
    const std::string prefix = "/api/v1/namespaces/forestall-placeholders/pods";
    EXPECT_TRUE(request->http.target.starts_with(prefix)) << request->http.target;
    return request->http.method + request->http.target.substr(prefix.size());
  }
  void hold() {
    begin();
    ASSERT_EQ(play(201, placeholder_text("p1", "")), "POST");
    ASSERT_EQ(play(200, placeholder_text("p1", "n2")), "GET/placeholder-uid-a");
    ASSERT_EQ(placeholders_.find("uid-a")->state, RoomState::held);
  }
  std::vector<std::string> changes() {
    std::vector<std::string> all;
    for (const auto& each : placeholders_.take_changes()) all.emplace_back(to_string(each.change));
    return all;
  }

  MonotonicTime now_ = from_ns(1'000'000'000'000);
  bool may_create_ = true;
  std::string body_;
  PlaceholderPods placeholders_{{.pod_namespace = "forestall-placeholders",
                                 .holds = seconds(300),
                                 .answer_longest = seconds(3)},
                                [this] { return may_create_; },
                                [] { return 0.0; }};
};

TEST_F(PlaceholderPodsTest, HoldsTheRoomOnceItIsBound) {
  EXPECT_FALSE(placeholders_.find("uid-a"));
  begin();
  EXPECT_EQ(play(201, placeholder_text("p1", "")), "POST");
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::waiting);
  EXPECT_EQ(play(200, placeholder_text("p1", "")), "GET/placeholder-uid-a");
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::waiting);
  EXPECT_EQ(play(200, placeholder_text("p1", "n2")), "GET/placeholder-uid-a");
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::held);
  EXPECT_EQ(placeholders_.held(), 1U);
  EXPECT_THAT(changes(), ElementsAre("created", "held"));
}

TEST_F(PlaceholderPodsTest, IsRemovedByItsUidWhenThePodIsNotEvicted) {
  hold();
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  EXPECT_EQ(play(200), "DELETE/placeholder-uid-a");
  EXPECT_THAT(body_, HasSubstr(R"("preconditions":{"uid":"p1"})"));
  EXPECT_TRUE(placeholders_.done());
  EXPECT_THAT(changes(), ElementsAre("created", "held", "removed"));
  EXPECT_FALSE(placeholders_.due());
}

TEST_F(PlaceholderPodsTest, IsRefusedAsTheServerRefusesIt) {
  begin();
  EXPECT_EQ(play(403, kRefusedCreation), "POST");
  const ReservedRoom room = placeholders_.find("uid-a").value();
  EXPECT_EQ(room.state, RoomState::refused);
  EXPECT_THAT(room.problem, HasSubstr("exceeded quota"));
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  EXPECT_TRUE(placeholders_.done()) << "there is nothing to remove";
  EXPECT_THAT(changes(), ElementsAre("failed"));
}

TEST_F(PlaceholderPodsTest, IsRefusedWhereTheSchedulerHasNoRoom) {
  begin();
  EXPECT_EQ(play(201, placeholder_text("p1", "")), "POST");
  EXPECT_EQ(
      play(200, placeholder_text("p1", "",
                                 R"({"conditions":[{"type":"PodScheduled","status":"False",)"
                                 R"("reason":"Unschedulable","message":"Insufficient cpu"}]})")),
      "GET/placeholder-uid-a");
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::refused);
  EXPECT_THAT(placeholders_.find("uid-a")->problem, HasSubstr("Insufficient cpu"));
  EXPECT_EQ(play(200), "DELETE/placeholder-uid-a") << "at once";
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::refused) << "until it is taken note of";
  placeholders_.release("uid-a", "", now_);
  EXPECT_TRUE(placeholders_.done());
}

TEST_F(PlaceholderPodsTest, IsRefusedIfNoSchedulerBindsIt) {
  begin();
  const MonotonicTime begun = now_;
  EXPECT_EQ(play(201, placeholder_text("p1", "")), "POST");
  int reads = 0;
  while (play(200, placeholder_text("p1", "")) == "GET/placeholder-uid-a" && reads < 1000) ++reads;
  EXPECT_GT(reads, 5);
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::refused);
  EXPECT_LE(now_ - begun, PlaceholderPods::kBindLongest + seconds(1));
}

// The server may have created it.
TEST_F(PlaceholderPodsTest, IsRemovedAfterALostAnswer) {
  begin();
  EXPECT_EQ(play(0), "POST");
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::refused);
  placeholders_.release("uid-a", "", now_);
  EXPECT_EQ(play(500), "GET/placeholder-uid-a");
  EXPECT_EQ(play(200, placeholder_text("p9", "n2")), "GET/placeholder-uid-a");
  EXPECT_EQ(play(503), "DELETE/placeholder-uid-a");
  EXPECT_EQ(play(404), "DELETE/placeholder-uid-a");
  EXPECT_TRUE(placeholders_.done());
}

TEST_F(PlaceholderPodsTest, A404OrA409OfAProxyIsNoRemoval) {
  hold();
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  EXPECT_EQ(play(404, "<html>Not Found</html>"), "DELETE/placeholder-uid-a");
  EXPECT_EQ(play(409, R"({"kind":"Status","reason":"Conflict"})"), "DELETE/placeholder-uid-a");
  EXPECT_EQ(play(200, "<html>Log in</html>"), "DELETE/placeholder-uid-a");
  EXPECT_THAT(changes(), ElementsAre("created", "held"));
  EXPECT_EQ(play(404), "DELETE/placeholder-uid-a");
  EXPECT_THAT(changes(), ElementsAre("removed"));
}

TEST_F(PlaceholderPodsTest, A404OfAProxyIsNoPreemption) {
  begin();
  EXPECT_EQ(play(201, placeholder_text("p1", "")), "POST");
  EXPECT_EQ(play(404, "<html>Not Found</html>"), "GET/placeholder-uid-a");
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::waiting);
  EXPECT_EQ(play(200, placeholder_text("p1", "n2")), "GET/placeholder-uid-a");
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::held);
}

TEST_F(PlaceholderPodsTest, RemovesNoPlaceholderOfAnotherPlan) {
  begin();
  EXPECT_EQ(play(504), "POST");
  placeholders_.release("uid-a", "", now_);
  EXPECT_EQ(play(200, placeholder_text("p9", "n2", "{}", "other-7")), "GET/placeholder-uid-a");
  EXPECT_TRUE(placeholders_.done());
}

TEST_F(PlaceholderPodsTest, IsLeftToItsDeadlineIfItCannotBeRemoved) {
  hold();
  placeholders_.release_all("the leadership is lost", now_);
  for (int i = 0; i < PlaceholderPods::kRemovalsMax; ++i) {
    EXPECT_EQ(play(500), "DELETE/placeholder-uid-a");
  }
  EXPECT_TRUE(placeholders_.done());
  EXPECT_THAT(changes(), ElementsAre("created", "held", "left"));
}

TEST_F(PlaceholderPodsTest, IsNotCreatedWithoutTheLeadership) {
  may_create_ = false;
  begin();
  EXPECT_EQ(play(201), "");
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::refused);
}

TEST_F(PlaceholderPodsTest, IsRemovedThoughTheLeadershipIsLostWhileItIsCreated) {
  begin();
  const auto request = placeholders_.next(now_);
  ASSERT_TRUE(request);
  may_create_ = false;
  placeholders_.release_all("the leadership is lost", now_);
  EXPECT_FALSE(placeholders_.due()) << "one request at a time";
  placeholders_.answered(request->key, {201, "", ""}, placeholder_text("p1", ""), std::nullopt,
                         now_);
  EXPECT_EQ(play(200), "DELETE/placeholder-uid-a");
  EXPECT_TRUE(placeholders_.done());
}

TEST_F(PlaceholderPodsTest, IsRemovedWhenTheReplacementHasANode) {
  hold();
  EXPECT_THAT(placeholders_.awaited(), IsEmpty());
  placeholders_.expect_replacement("uid-a");
  EXPECT_THAT(placeholders_.awaited(), ElementsAre("shop"));
  rebalance::Snapshot snapshot = snapshot_with_pod();
  snapshot.pods.push_back(placeholder_in(snapshot, "p1", "placeholder-uid-a"));
  snapshot.pods.push_back(replacement_on(""));
  const MonotonicTime begun = now_ + seconds(1);
  placeholders_.observe(snapshot, begun, begun);
  EXPECT_EQ(placeholders_.held(), 1U) << "neither the evicted pod nor one without a node";
  snapshot.pods.back().pod_namespace = "other";
  snapshot.pods.back().node = "n2";
  placeholders_.observe(snapshot, begun, begun);
  EXPECT_EQ(placeholders_.held(), 1U) << "a pod of another tenant that names the owner";
  snapshot.pods.back() = replacement_on("n3");
  placeholders_.observe(snapshot, begun, begun);
  EXPECT_EQ(play(200), "DELETE/placeholder-uid-a");
  EXPECT_TRUE(placeholders_.done());
}

TEST_F(PlaceholderPodsTest, IsLostWhenAnotherPodPreemptsIt) {
  hold();
  placeholders_.expect_replacement("uid-a");
  const rebalance::Snapshot empty;
  placeholders_.observe(empty, now_, now_);
  EXPECT_EQ(placeholders_.held(), 1U) << "the list may be older than the placeholder";
  placeholders_.observe(empty, now_ + seconds(1), now_ + seconds(2));
  EXPECT_TRUE(placeholders_.done());
  EXPECT_THAT(changes(), ElementsAre("created", "held", "lost"));
}

TEST_F(PlaceholderPodsTest, IsRemovedWhenItsTimeIsOver) {
  hold();
  placeholders_.expect_replacement("uid-a");
  const MonotonicTime held = now_;
  EXPECT_EQ(play(200), "DELETE/placeholder-uid-a");
  EXPECT_EQ(now_ - held, Duration(seconds(300)));
  EXPECT_TRUE(placeholders_.done());
}

TEST_F(PlaceholderPodsTest, RemovesLeftoversBeforeItCreates) {
  rebalance::Snapshot snapshot = snapshot_with_pod();
  snapshot.pods.push_back(placeholder_in(snapshot, "old", "placeholder-uid-z"));
  snapshot.pods.push_back(placeholder_in(snapshot, "no", "other"));
  snapshot.pods.back().labels.clear();
  placeholders_.remove_leftovers(snapshot, now_);
  begin();
  EXPECT_EQ(play(200), "DELETE/placeholder-uid-z");
  EXPECT_THAT(body_, HasSubstr(R"("uid":"old")"));
  EXPECT_EQ(play(201, placeholder_text("p1", "")), "POST") << "a pod without the label stays";
  placeholders_.remove_leftovers(snapshot_with_pod(), now_);
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::waiting);
}

// Its room is that of a pod for the scheduler, which would bind no other one in its place.
TEST_F(PlaceholderPodsTest, NoneIsCreatedInPlaceOfOneThatTerminates) {
  hold();
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  begin_other("n2");
  EXPECT_EQ(play(200, terminating_text("p1")), "DELETE/placeholder-uid-a");
  EXPECT_EQ(play(200, terminating_text("p1")), "GET/placeholder-uid-a");
  EXPECT_EQ(play(500), "GET/placeholder-uid-a") << "unknown";
  EXPECT_EQ(placeholders_.find("uid-c")->state, RoomState::waiting);
  EXPECT_THAT(changes(), ElementsAre("created", "held"));
  EXPECT_EQ(play(404), "GET/placeholder-uid-a");
  EXPECT_THAT(changes(), ElementsAre("removed"));
  EXPECT_EQ(play(201, placeholder_text("p2", "")), "POST");
}

TEST_F(PlaceholderPodsTest, OneThatTerminatesDelaysNoOtherNode) {
  hold();
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  begin_other("n3");
  EXPECT_EQ(play(200, terminating_text("p1")), "DELETE/placeholder-uid-a");
  EXPECT_EQ(play(201, placeholder_text("p2", "")), "POST");
}

TEST_F(PlaceholderPodsTest, AnotherPodOfItsNameEndsTheWait) {
  hold();
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  EXPECT_EQ(play(200, terminating_text("p1")), "DELETE/placeholder-uid-a");
  EXPECT_EQ(play(200, placeholder_text("p9", "n2")), "GET/placeholder-uid-a");
  EXPECT_TRUE(placeholders_.done());
}

// Its node may be gone, too.
TEST_F(PlaceholderPodsTest, OneThatTerminatesIsNotAwaitedForever) {
  hold();
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  EXPECT_EQ(play(200, terminating_text("p1")), "DELETE/placeholder-uid-a");
  const MonotonicTime begun = now_;
  while (play(200, terminating_text("p1")) == "GET/placeholder-uid-a") {
    ASSERT_LE(now_ - begun, PlaceholderPods::kTerminatesLongest + seconds(1));
  }
  EXPECT_GE(now_ - begun, PlaceholderPods::kTerminatesLongest);
  EXPECT_TRUE(placeholders_.done());
  EXPECT_THAT(changes(), ElementsAre("created", "held", "removed"));
}

// Of the same pod it has the same name.
TEST_F(PlaceholderPodsTest, ALeftoverIsGoneBeforeItsNameIsUsedAgain) {
  rebalance::Snapshot snapshot = snapshot_with_pod();
  snapshot.pods.push_back(placeholder_in(snapshot, "old", "placeholder-uid-a"));
  placeholders_.remove_leftovers(snapshot, now_);
  begin_other("n3");
  begin();
  EXPECT_EQ(play(200, terminating_text("old")), "DELETE/placeholder-uid-a");
  EXPECT_EQ(play(200, terminating_text("old")), "GET/placeholder-uid-a");
  EXPECT_EQ(play(404), "GET/placeholder-uid-a");
  EXPECT_EQ(play(201, placeholder_text("p1", "")), "POST");
}

// Eight attempts with growing delays take minutes: the plan must not wait for them.
TEST_F(PlaceholderPodsTest, ARoomIsRefusedWhileARemovalFails) {
  hold();
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  const MonotonicTime released = now_;
  begin_other("n2");
  while (placeholders_.find("uid-c")->state == RoomState::waiting) {
    const std::string request = play(500);
    ASSERT_TRUE(request == "DELETE/placeholder-uid-a" || request.empty()) << request;
    ASSERT_LE(now_, released + PlaceholderPods::kRemovalLongest);
  }
  EXPECT_EQ(now_, released + PlaceholderPods::kRemovalLongest);
  EXPECT_THAT(placeholders_.find("uid-c")->problem, HasSubstr("cannot be removed"));
  // The next one does not wait once more, and other nodes are free.
  placeholders_.release("uid-c", "no room", now_);
  begin_other("n2");
  EXPECT_EQ(play(500), "");
  EXPECT_EQ(placeholders_.find("uid-c")->state, RoomState::refused);
  placeholders_.release("uid-c", "no room", now_);
  begin_other("n3");
  EXPECT_EQ(play(201, placeholder_text("p3", "")), "POST");
}

TEST_F(PlaceholderPodsTest, IsCreatedAgainAfterItsRemoval) {
  hold();
  placeholders_.release("uid-a", "the pod was not evicted", now_);
  EXPECT_EQ(placeholders_.find("uid-a")->state, RoomState::waiting) << "it is removed";
  EXPECT_EQ(play(200), "DELETE/placeholder-uid-a");
  EXPECT_FALSE(placeholders_.find("uid-a"));
  hold();
}

}  // namespace
}  // namespace forestall::cluster
