// SPDX-License-Identifier: Apache-2.0
// `reserve: placeholder`: the rebalancer between a policy and a fake API server with a scheduler.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/status_answer.h"

#include "rebalancer_fixture.h"

namespace forestall::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kReserving = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
compat: fixed
reserve: placeholder
maxNoOfPodsToEvictTotal: 1
profiles:
- name: p
  pluginConfig:
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60}}
  - {name: DefaultEvictor, args: {}}
  plugins: {deschedule: {enabled: [PodLifeTime]}}
)";
constexpr const char* kPlaceholders = "/api/v1/namespaces/forestall-placeholders/pods";

// One old pod on n1, which fits n2, and placeholders.
class ReservingCluster {
 public:
  ReservingCluster()
      : server_([this](const ApiRequest& request) {
          const std::lock_guard lock(mutex_);
          return answer(request);
        }) {}

  template <typename Change>
  void set(Change change) {
    const std::lock_guard lock(mutex_);
    change(*this);
  }
  [[nodiscard]] const std::string& url() const { return server_.url(); }
  // "METHOD" with the end of the target, of all requests that change something, in order.
  [[nodiscard]] std::vector<std::string> changes() const {
    std::vector<std::string> all;
    for (const ApiRequest& each : server_.requests()) {
      if (each.method == "GET" || each.target.find("/leases") != std::string::npos) continue;
      if (each.target.find("/events") != std::string::npos) continue;
      all.push_back(each.method + ' ' + each.target.substr(each.target.rfind("/pods") + 1));
    }
    return all;
  }
  [[nodiscard]] std::string manifest() const {
    for (const ApiRequest& each : server_.requests()) {
      if (each.method == "POST" && each.target == kPlaceholders) return each.body;
    }
    return "";
  }

  // What the cluster does.
  int create_code = 201;
  bool binds = true;
  bool has_class = true;
  std::string replacement_node = "n2";  // of the pod that replaces an evicted one
  int evict_code = 201;
  std::string holder;
  std::map<std::string, std::string> placeholders;  // plan by name

 private:
  [[nodiscard]] std::string placeholder(const std::string& name) const {
    const char* const unbound =
        R"("spec":{},"status":{"conditions":[{"type":"PodScheduled","status":"False",)"
        R"("reason":"Unschedulable","message":"Insufficient cpu"}]})";
    const char* const bound = R"("spec":{"nodeName":"n2"},"status":{"phase":"Running"})";
    return fmt::format(
        R"({{"metadata":{{"name":"{}","namespace":"forestall-placeholders","uid":"of-{}",)"
        R"("labels":{{"forestall.dev/plan":"{}"}}}},{}}})",
        name, name, placeholders.at(name), binds ? bound : unbound);
  }
  static std::string pod(const char* name, const std::string& node) {
    return fmt::format(
        R"({{"metadata":{{"name":"{}","namespace":"shop","uid":"uid-{}",)"
        R"("creationTimestamp":"2020-01-01T00:00:00Z","ownerReferences":)"
        R"([{{"kind":"ReplicaSet","name":"r","uid":"r"}}]}},"spec":{{"nodeName":"{}",)"
        R"("containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"3"}}}}}}]}},)"
        R"("status":{{"phase":"Running"}}}})",
        name, name, node);
  }
  [[nodiscard]] std::string pods(bool of_shop, bool of_placeholders) const {
    std::string items;
    const auto add = [&items](const std::string& item) {
      items += (items.empty() ? "" : ",") + item;
    };
    if (of_shop) add(evicted_ ? pod("new", replacement_node) : pod("a", "n1"));
    if (of_placeholders) {
      for (const auto& [name, plan] : placeholders) add(placeholder(name));
    }
    return R"({"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[)" + items + "]}";
  }
  ApiAnswer change_placeholders(const ApiRequest& request) {
    const std::string name = request.target.substr(request.target.rfind('/') + 1);
    if (request.method == "DELETE") {
      return placeholders.erase(name) > 0 ? json_answer(200, kStatusAnswer) : without_pod(name);
    }
    if (request.method == "GET") {
      if (!placeholders.contains(name)) return without_pod(name);
      return json_answer(200, placeholder(name));
    }
    if (create_code != 201) return json_answer(create_code, R"({"message":"no more pods"})");
    const auto value = [&request](std::string_view key) {
      const std::size_t from = request.body.find(key) + key.size();
      return request.body.substr(from, request.body.find('"', from) - from);
    };
    const std::string made = value(R"("name":")");
    placeholders[made] = value(R"("forestall.dev/plan":")");
    return json_answer(201, placeholder(made));
  }
  ApiAnswer answer(const ApiRequest& request) {
    const auto is = [&request](std::string_view part) {
      return request.target.find(part) != std::string::npos;
    };
    if (is("/leases")) return lease(request);
    if (is("/events")) return json_answer(201, kStatusAnswer);
    if (is("/eviction")) {
      evicted_ = evict_code == 201;
      return json_answer(evict_code, kStatusAnswer);
    }
    if (is(kPlaceholders) && !is("limit=")) return change_placeholders(request);
    if (is("watch=1")) return test::watch_answer();
    if (is("/api/v1/nodes")) return json_answer(200, nodes());
    if (is("/pods?")) {
      return json_answer(200, pods(!is("placeholders"), !is("/namespaces/shop")));
    }
    if (is("priorityclasses") && has_class) {
      return json_answer(
          200, R"({"kind":"List","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":)"
               R"("forestall-placeholder"},"value":-1000,)"
               R"("kind":"PriorityClass"}]})");
    }
    return json_answer(200, R"({"kind":"List","metadata":{"resourceVersion":"1"},"items":[]})");
  }
  static std::string nodes() {
    std::string items;
    for (const char* name : {"n1", "n2"}) {
      items += fmt::format(R"({}{{"metadata":{{"name":"{}"}},"status":{{"allocatable":)"
                           R"({{"cpu":"4","memory":"8Gi","pods":"110"}}}}}})",
                           items.empty() ? "" : ",", name);
    }
    return R"({"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[)" + items + "]}";
  }
  ApiAnswer lease(const ApiRequest& request) {
    if (request.method != "GET") {
      if (!holder.empty() && holder != "me") return json_answer(409, "{}");
      holder = "me";
      return json_answer(200, kStatusAnswer);
    }
    if (holder.empty()) return json_answer(404, kNoLease);
    return json_answer(200, fmt::format(R"({{"metadata":{{"resourceVersion":"1"}},"spec":)"
                                        R"({{"holderIdentity":"{}","leaseDurationSeconds":20}}}})",
                                        holder));
  }

  std::mutex mutex_;
  bool evicted_ = false;
  test::FakeApiServer server_;  // last: its thread uses the above
};

class ReservationTest : public RebalancerTest {
 protected:
  std::unique_ptr<Rebalancer> make_reserving(RebalancerOptions options = {}) {
    options.access.server = cluster_.url();
    if (options.policy.empty()) options.policy = kReserving;
    options.policy_file = "policy.yaml";
    options.identity = "me";
    return Rebalancer::create(options, jumping_, log_).value();
  }
  [[nodiscard]] static std::string metric(Rebalancer& rebalancer, const std::string& change) {
    const std::string text = rebalancer.metrics().text();
    const std::string name = "forestall_rebalance_placeholders_total{change=\"" + change + "\"} ";
    const std::size_t at = text.find(name);
    return at == std::string::npos ? "" : text.substr(at + name.size(), 1);
  }

  ReservingCluster cluster_;
  JumpingClock jumping_;
};

TEST_F(ReservationTest, HoldsTheRoomUntilTheReplacementHasANode) {
  const auto rebalancer = make_reserving();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster_.changes(),
              ElementsAre("POST pods", "POST pods/a/eviction", "DELETE pods/placeholder-uid-a"));
  EXPECT_THAT(cluster_.manifest(), HasSubstr(R"("values":["n2"])"));
  EXPECT_THAT(cluster_.manifest(), HasSubstr(R"("requests":{"cpu":"3000m"})"));
  EXPECT_EQ(count(*rebalancer, PlannedEnd::evicted), 1U);
  for (const char* change : {"created", "held", "removed"}) {
    EXPECT_EQ(metric(*rebalancer, change), "1") << change;
  }
  EXPECT_THAT(rebalancer->metrics().text(), HasSubstr("\nforestall_rebalance_placeholders 0"));
}

TEST_F(ReservationTest, EvictsNoPodIfItsPlaceholderIsRefused) {
  cluster_.set([](auto& cluster) { cluster.create_code = 403; });
  const auto rebalancer = make_reserving();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster_.changes(), ElementsAre("POST pods"));
  EXPECT_EQ(count(*rebalancer, PlannedEnd::no_room), 1U);
  EXPECT_EQ(metric(*rebalancer, "failed"), "1");
}

TEST_F(ReservationTest, EvictsNoPodIfTheSchedulerHasNoRoom) {
  cluster_.set([](auto& cluster) { cluster.binds = false; });
  const auto rebalancer = make_reserving();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster_.changes(), ElementsAre("POST pods", "DELETE pods/placeholder-uid-a"));
  EXPECT_EQ(count(*rebalancer, PlannedEnd::no_room), 1U);
}

TEST_F(ReservationTest, RemovesThePlaceholderIfThePodIsNotEvicted) {
  cluster_.set([](auto& cluster) { cluster.evict_code = 403; });
  const auto rebalancer = make_reserving();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster_.changes(),
              ElementsAre("POST pods", "POST pods/a/eviction", "DELETE pods/placeholder-uid-a"));
}

TEST_F(ReservationTest, RemovesThePlaceholderWhenItsTimeIsOver) {
  cluster_.set([](auto& cluster) { cluster.replacement_node = ""; });
  const auto rebalancer = make_reserving();
  const auto evicted = [&] { return count(*rebalancer, PlannedEnd::evicted) == 1; };
  ASSERT_TRUE(run_until({rebalancer.get()}, evicted));
  EXPECT_THAT(cluster_.changes(), ElementsAre("POST pods", "POST pods/a/eviction"));
  jumping_.jump(std::chrono::seconds(300));
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster_.changes().back(), "DELETE pods/placeholder-uid-a");
}

TEST_F(ReservationTest, RemovesPlaceholdersWhenTheLeadershipIsLost) {
  cluster_.set([](auto& cluster) { cluster.replacement_node = ""; });
  RebalancerOptions options = leading("me");
  options.interval = std::chrono::hours(1);
  const auto rebalancer = make_reserving(options);
  const auto evicted = [&] { return count(*rebalancer, PlannedEnd::evicted) == 1; };
  ASSERT_TRUE(run_until({rebalancer.get()}, evicted));
  cluster_.set([](auto& cluster) { cluster.holder = "other"; });
  const auto removed = [&] { return metric(*rebalancer, "removed") == "1"; };
  ASSERT_TRUE(run_until({rebalancer.get()}, removed));
  EXPECT_THAT(cluster_.changes().back(), "DELETE pods/placeholder-uid-a");
}

TEST_F(ReservationTest, RemovesPlaceholdersWhenItEnds) {
  cluster_.set([](auto& cluster) { cluster.replacement_node = ""; });
  const auto rebalancer = make_reserving();
  const auto evicted = [&] { return count(*rebalancer, PlannedEnd::evicted) == 1; };
  ASSERT_TRUE(run_until({rebalancer.get()}, evicted));
  EXPECT_TRUE(rebalancer->withdraw(test::kPatience));
  EXPECT_THAT(cluster_.changes().back(), "DELETE pods/placeholder-uid-a");
}

// They hold the room that the plan needs, and no pod of theirs is evicted.
TEST_F(ReservationTest, RemovesWhatAnEarlierProcessLeft) {
  cluster_.set([](auto& cluster) { cluster.placeholders["placeholder-old"] = "run-7"; });
  const auto rebalancer = make_reserving();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster_.changes(),
              ElementsAre("DELETE pods/placeholder-old", "POST pods", "POST pods/a/eviction",
                          "DELETE pods/placeholder-uid-a"));
}

TEST_F(ReservationTest, DryRunCreatesNoPlaceholderAndLogsIt) {
  cluster_.set([](auto& cluster) { cluster.placeholders["placeholder-old"] = "run-7"; });
  ::testing::internal::CaptureStderr();
  {
    exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
    RebalancerOptions options;
    options.dry_run = true;
    options.access.server = cluster_.url();
    options.policy = kReserving;
    options.identity = "me";
    const auto rebalancer = Rebalancer::create(options, jumping_, log).value();
    EXPECT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(cluster_.changes(), IsEmpty());
  EXPECT_THAT(text, HasSubstr("event=placeholder pod=shop/a node=n2 state=dry-run"));
  EXPECT_THAT(text, HasSubstr("state=dry-run destination=n2"));
}

TEST_F(ReservationTest, MakesNoPlanWithoutThePriorityClass) {
  cluster_.set([](auto& cluster) { cluster.has_class = false; });
  const auto rebalancer = make_reserving();
  ASSERT_TRUE(run_until({rebalancer.get()}, [&] { return rebalancer->finished(); }));
  EXPECT_THAT(cluster_.changes(), IsEmpty());
  EXPECT_THAT(rebalancer->outcome().error().text(), HasSubstr("no PriorityClass"));
}

TEST_F(ReservationTest, NeedsPlansWithDestinations) {
  RebalancerOptions options;
  options.policy_file = "policy.yaml";
  options.policy = kReserving;
  options.compat = "upstream";
  EXPECT_EQ(Rebalancer::create(options, clock_, log_).error().text(),
            "policy.yaml: reserve: placeholder needs compat: fixed, which plans a destination");
}

}  // namespace
}  // namespace forestall::cluster
