// SPDX-License-Identifier: Apache-2.0
// Which pods are admitted under which conditions (pkg/kubelet/eviction/eviction_manager.go
// Admit()).
#include "policy/admission.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/policy/pods.h"

namespace forestall::policy {
namespace {

constexpr auto kMemory = Condition::memory_pressure;
constexpr auto kDisk = Condition::disk_pressure;
constexpr auto kPid = Condition::pid_pressure;

Pod best_effort() {
  return pod("best-effort", {container("c")});
}
Pod burstable() {
  return pod("burstable", {container("c", memory("1Gi"))});
}
Pod guaranteed() {
  return pod("guaranteed", {container("c", amounts("1", "1Gi"), amounts("1", "1Gi"))});
}
Pod with_toleration(Pod pod, const std::string& key, const std::string& operator_,
                    const std::string& effect, const std::string& value = "") {
  pod.tolerations = {{.key = "other", .operator_ = "Exists", .value = "", .effect = ""},
                     {.key = key, .operator_ = operator_, .value = value, .effect = effect}};
  return pod;
}
Pod with_priority(Pod pod, std::int32_t priority) {
  pod.priority = priority;
  return pod;
}
Pod with_origin(Pod pod, PodOrigin origin) {
  pod.origin = origin;
  return pod;
}

TEST(AdmissionTest, Verdicts) {
  const std::string taint = "node.kubernetes.io/memory-pressure";
  struct Case {
    std::string name;
    Pod pod;
    std::vector<Condition> reported;
    bool admitted;
  };
  const std::vector<Case> cases{
      {"no condition", best_effort(), {}, true},
      {"BestEffort under memory pressure", best_effort(), {kMemory}, false},
      {"Burstable under memory pressure", burstable(), {kMemory}, true},
      {"Guaranteed under memory pressure", guaranteed(), {kMemory}, true},
      {"Guaranteed under disk pressure", guaranteed(), {kDisk}, false},
      {"Guaranteed under PID pressure", guaranteed(), {kPid}, false},
      {"Guaranteed under two", guaranteed(), {kMemory, kDisk}, false},
      {"critical by priority", with_priority(best_effort(), 2'000'000'000), {kMemory, kDisk}, true},
      {"not quite critical", with_priority(best_effort(), 1'999'999'999), {kMemory}, false},
      {"static", with_origin(best_effort(), PodOrigin::static_file), {kDisk}, true},
      {"mirror", with_origin(best_effort(), PodOrigin::mirror), {kPid}, true},
      {"tolerates", with_toleration(best_effort(), taint, "Exists", "NoSchedule"), {kMemory}, true},
      {"any effect", with_toleration(best_effort(), taint, "Exists", ""), {kMemory}, true},
      {"any key", with_toleration(best_effort(), "", "Exists", ""), {kMemory}, true},
      {"equal to no value", with_toleration(best_effort(), taint, "Equal", ""), {kMemory}, true},
      {"no operator is Equal", with_toleration(best_effort(), taint, "", ""), {kMemory}, true},
      {"another value", with_toleration(best_effort(), taint, "Equal", "", "x"), {kMemory}, false},
      {"Exists takes no value",
       with_toleration(best_effort(), taint, "Exists", "", "x"),
       {kMemory},
       true},
      {"another effect",
       with_toleration(best_effort(), taint, "Exists", "NoExecute"),
       {kMemory},
       false},
      {"an unknown operator", with_toleration(best_effort(), taint, "Lt", ""), {kMemory}, false},
      {"tolerating helps against memory pressure only",
       with_toleration(best_effort(), "", "Exists", ""),
       {kMemory, kPid},
       false},
  };
  for (const Case& one : cases) {
    const AdmissionVerdict verdict = admit(one.pod, one.reported);
    EXPECT_EQ(verdict.admitted, one.admitted) << one.name;
    EXPECT_EQ(verdict.reason, one.admitted ? "" : "Evicted") << one.name;
  }
}

TEST(AdmissionTest, TheMessageListsTheConditions) {
  const std::vector both{kMemory, kDisk};
  EXPECT_EQ(admit(guaranteed(), both).message,
            "The node had condition: [MemoryPressure DiskPressure]. ");
  const std::vector one{kPid};
  EXPECT_EQ(admit(guaranteed(), one).message, "The node had condition: [PIDPressure]. ");
  EXPECT_EQ(admit(guaranteed(), {}).message, "");
}

}  // namespace
}  // namespace forestall::policy
