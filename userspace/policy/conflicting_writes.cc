// SPDX-License-Identifier: Apache-2.0
#include "policy/conflicting_writes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace forestall::policy {
namespace {

bool throttles(const rulesets::Ruleset& ruleset) {
  return std::ranges::any_of(ruleset.actions, [](const rulesets::Plugin& action) {
    const auto* throttle = std::get_if<rulesets::Throttle>(&action.arguments);
    return throttle != nullptr && !throttle->dry;
  });
}

// What of the agent's configuration sets memory.high; empty: nothing.
std::string writes_memory_high(const Config& agent) {
  std::string settings;
  const auto add = [&](bool does, const char* setting) {
    if (does) settings += (settings.empty() ? "" : ", ") + std::string(setting);
  };
  const auto any = [&](auto test) { return std::ranges::any_of(agent.thresholds, test); };
  add(any([](const Threshold& each) { return each.tune; }), "`tune`");
  add(any([](const Threshold& each) { return each.response == Response::slow; }), "`slow`");
  add(!agent.dry_run && agent.rules && std::ranges::any_of(*agent.rules, throttles),
      "the action `throttle`");
  return settings;
}

void memory_high_written(const OverlapInput& input, std::vector<Advice>& advice) {
  const std::string settings = writes_memory_high(input.agent);
  if (settings.empty()) return;
  if (!input.kubelet_writes_memory_high) {
    return advice.push_back(
        {Severity::note, "memory-high-unknown",
         "the agent writes memory.high (" + settings +
             "), and it is unknown whether the kubelet does: that depends on its version; set "
             "compat.kubeletVersion"});
  }
  if (!*input.kubelet_writes_memory_high) return;
  advice.push_back(
      {Severity::warning, "memory-high-twice",
       "the kubelet writes memory.high of containers (MemoryQoS), and so does the agent (" +
           settings +
           "): each overwrites the value of the other; use one of them, for example without "
           "memoryThrottlingFactor in the kubelet's configuration"});
}

// memory.high of a container is at least the factor times its limit, and equal to that without a
// request. Only Burstable containers have both a memory.high and a limit.
void throttled_before(const OverlapInput& input, std::vector<Advice>& advice) {
  if (!input.kubelet_writes_memory_high.value_or(false) || !input.throttling_factor) return;
  // As a float, because shares are.
  const auto left = static_cast<float>(1 - *input.throttling_factor);
  const auto found = std::ranges::find_if(input.agent.thresholds, [&](const Threshold& each) {
    return each.own_limits_of == WorkloadClass::burstable && each.limit.fraction &&
           *each.limit.fraction < left;
  });
  if (found == input.agent.thresholds.end()) return;
  const std::string share = limit_text(Limit::share(left));
  advice.push_back({Severity::warning, "throttled-before-own-limit",
                    "the kubelet's memory.high may throttle a Burstable container when " + share +
                        " of its limit is left, and the agent's ownLimit acts at " +
                        limit_text(found->limit) +
                        ": the container may stay throttled and never reach it; set ownLimit to " +
                        share + " or more"});
}

}  // namespace

std::vector<Advice> conflicting_writes(const OverlapInput& input) {
  std::vector<Advice> advice;
  if (input.cgroup_v2.value_or(true)) {  // cgroup v1 has no memory.high
    memory_high_written(input, advice);
    throttled_before(input, advice);
  }
  if (input.agent.oom_score_adj == OomScoreAdj::enforce && !input.agent.dry_run) {
    advice.push_back(
        {Severity::note, "oom-score-adj-twice",
         "oomScoreAdj is enforce: the kubelet sets the oom_score_adj of a container at its start, "
         "and the agent sets that of current kubelets afterwards; if the kubelet has another "
         "formula, use observe"});
  }
  return advice;
}

}  // namespace forestall::policy
