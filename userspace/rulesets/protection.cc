// SPDX-License-Identifier: Apache-2.0
#include "rulesets/protection.h"

#include <algorithm>

namespace forestall::rulesets {
namespace {

std::int64_t claim(const Cgroup& cgroup) {
  const std::int64_t wanted = std::max(cgroup.min.value_or(0), cgroup.low.value_or(0));
  return std::min(cgroup.current.value_or(0), wanted);
}

std::int64_t protection(const Cgroup& cgroup, const RuleObservation& observed) {
  if (is_root(cgroup)) return observed.usage(cgroup).value_or(0);
  const Cgroup* parent = observed.parent(cgroup);
  if (parent == nullptr || is_root(*parent)) return claim(cgroup);
  std::int64_t sum = 0;
  for (const Cgroup* each : observed.children(*parent)) sum += claim(*each);
  if (sum == 0) return 0;
  const double share =
      std::min(1.0, static_cast<double>(protection(*parent, observed)) / static_cast<double>(sum));
  return static_cast<std::int64_t>(static_cast<double>(claim(cgroup)) * share);
}

}  // namespace

std::optional<std::int64_t> effective_usage(const Cgroup& cgroup, const RuleObservation& observed) {
  const auto usage = observed.usage(cgroup);
  if (!usage) return std::nullopt;
  return *usage - protection(cgroup, observed);
}

}  // namespace forestall::rulesets
