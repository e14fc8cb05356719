// SPDX-License-Identifier: Apache-2.0
// The QoS class of pods.
#include "policy/qos.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/policy/pods.h"

namespace forestall::policy {
namespace {

constexpr QosClass kGuaranteed = QosClass::guaranteed;
constexpr QosClass kBurstable = QosClass::burstable;
constexpr QosClass kBestEffort = QosClass::best_effort;

PodContainer equal(const std::string& name) {
  return container(name, amounts("1", "1Gi"), amounts("1", "1Gi"));
}

struct Case {
  std::string name;
  std::vector<PodContainer> containers;
  std::vector<PodContainer> init_containers;
  QosClass qos;
};

TEST(QosTest, FromContainers) {
  const std::vector<Case> cases{
      {"nothing declared", {container("a")}, {container("i")}, kBestEffort},
      {"no containers", {}, {}, kBestEffort},
      {"zeros are nothing",
       {container("a", amounts("0", "0"), amounts("0", "0"))},
       {},
       kBestEffort},
      {"storage does not count", {container("a", storage("1Gi"), storage("1Gi"))}, {}, kBestEffort},
      {"all equal", {equal("a"), equal("b")}, {equal("i")}, kGuaranteed},
      {"equal in value, not in spelling",
       {container("a", amounts("1000m", "1Gi"), amounts("1", "1024Mi"))},
       {},
       kGuaranteed},
      {"limits without requests", {container("a", {}, amounts("1", "1Gi"))}, {}, kBurstable},
      {"requests without limits", {container("a", amounts("1", "1Gi"))}, {}, kBurstable},
      {"one limit missing", {container("a", amounts("1", "1Gi"), memory("1Gi"))}, {}, kBurstable},
      {"one request missing", {container("a", memory("1Gi"), amounts("1", "1Gi"))}, {}, kBurstable},
      {"a request that is zero is missing",
       {container("a", amounts("0", "1Gi"), amounts("1", "1Gi"))},
       {},
       kBurstable},
      {"request below the limit",
       {container("a", amounts("1", "1Gi"), amounts("1", "2Gi"))},
       {},
       kBurstable},
      {"one container without anything", {equal("a"), container("b")}, {}, kBurstable},
      {"an init container without anything", {equal("a")}, {container("i")}, kBurstable},
      {"a sidecar that is burstable", {equal("a")}, {sidecar("s", memory("1Mi"))}, kBurstable},
      {"only an init container declares", {container("a")}, {equal("i")}, kBurstable},
      {"only cpu, equal", {container("a", amounts("1", ""), amounts("1", ""))}, {}, kBurstable},
      {"only memory, equal", {container("a", memory("1Gi"), memory("1Gi"))}, {}, kBurstable},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(qos_class(pod("p", one.containers, one.init_containers)), one.qos) << one.name;
  }
}

TEST(QosTest, StatusCountsFirst) {
  Pod made = pod("p", {equal("a")});
  made.status_qos = kBestEffort;
  EXPECT_EQ(qos_class(made), kBestEffort);
}

TEST(QosTest, ThePodsOwnResourcesStandAlone) {
  Pod made = pod("p", {container("a")});
  made.requests = amounts("1", "1Gi");
  EXPECT_EQ(qos_class(made), kBurstable);
  made.limits = amounts("1", "1Gi");
  EXPECT_EQ(qos_class(made), kGuaranteed);
  made = pod("p", {equal("a")});
  made.requests = memory("0");
  EXPECT_EQ(qos_class(made), kBestEffort);
  made.requests = ResourceList{};
  EXPECT_EQ(qos_class(made), kGuaranteed) << "an empty list is none";
}

}  // namespace
}  // namespace forestall::policy
