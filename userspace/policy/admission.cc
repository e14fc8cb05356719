// SPDX-License-Identifier: Apache-2.0
#include "policy/admission.h"

#include <algorithm>
#include <string_view>

#include "model/eviction.h"
#include "policy/pod_facts.h"
#include "policy/qos.h"

namespace forestall::policy {
namespace {

constexpr std::string_view kNoSchedule = "NoSchedule";

// core/v1 Toleration.ToleratesTaint, for a taint without a value.
bool tolerates(const Toleration& toleration, std::string_view key, std::string_view effect) {
  if (!toleration.effect.empty() && toleration.effect != effect) return false;
  if (!toleration.key.empty() && toleration.key != key) return false;
  if (toleration.operator_ == "Exists") return true;
  const bool equal = toleration.operator_.empty() || toleration.operator_ == "Equal";
  return equal && toleration.value.empty();
}

bool tolerates_memory_pressure(const Pod& pod) {
  const std::string_view taint = condition_taint(Condition::memory_pressure);
  return std::any_of(
      pod.tolerations.begin(), pod.tolerations.end(),
      [&](const Toleration& toleration) { return tolerates(toleration, taint, kNoSchedule); });
}

}  // namespace

AdmissionVerdict admit(const Pod& pod, std::span<const Condition> reported) {
  if (reported.empty() || is_critical(pod)) return {};
  if (reported.size() == 1 && reported[0] == Condition::memory_pressure) {
    if (qos_class(pod) != QosClass::best_effort || tolerates_memory_pressure(pod)) return {};
  }
  std::string list;
  for (const Condition condition : reported) {
    if (!list.empty()) list += ' ';
    list += to_string(condition);
  }
  return {false, std::string(kEvictedReason), "The node had condition: [" + list + "]. "};
}

}  // namespace forestall::policy
