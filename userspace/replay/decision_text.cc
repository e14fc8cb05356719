// SPDX-License-Identifier: Apache-2.0
#include "replay/decision_text.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "model/duration.h"

namespace forestall::replay {
namespace {

// Kubelet prints bytes in binary units and counts in decimal.
std::string amount(Signal signal, std::int64_t amount) {
  return (unit_of(signal) == Unit::bytes ? binary(amount) : decimal(amount)).text();
}

}  // namespace

const Evidence* explaining(const Decision& decision) {
  if (decision.driving) return &decision.evidence[*decision.driving];
  const bool met = !decision.evidence.empty() && decision.evidence.front().met;
  return met ? &decision.evidence.front() : nullptr;
}

std::string because(const Decision& decision, MonotonicTime now) {
  std::string text = fmt::format("{} ({})", to_string(decision.action), to_string(decision.reason));
  const Evidence* evidence = explaining(decision);
  if (evidence != nullptr && decision.reason != Reason::local_storage_limit) {
    text += ": " + describe(*evidence, now);
  }
  // If the decision kills, or finds no candidate, node-level reclaim is over.
  if (decision.reason != Reason::node_reclaim) return text;
  for (std::size_t i = 0; i < decision.node_reclaim.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "; first " : ", ", to_string(decision.node_reclaim[i]));
  }
  return text;
}

std::string describe(const Evidence& evidence, MonotonicTime now) {
  const Threshold& threshold = evidence.threshold;
  std::string text(to_string(threshold.signal));
  if (is_of_watched_cgroup(threshold.signal)) text += " of " + printable(evidence.subject);
  text += " " + amount(threshold.signal, evidence.available);
  if (evidence.pending_release != 0) {
    text +=
        fmt::format(" + {} pending release", amount(threshold.signal, evidence.pending_release));
  }
  // If the amount exceeds the limit, the minimum reclaim applies as well.
  const __int128 counted = static_cast<__int128>(evidence.available) + evidence.pending_release;
  const bool beyond = evidence.met && threshold.min_reclaim && counted >= evidence.limit.value();
  text += fmt::format(" {} {}", evidence.met ? "<" : ">=", evidence.limit.text());
  if (beyond) {
    text +=
        fmt::format(" + {} minimum reclaim", threshold.min_reclaim->of(evidence.capacity).text());
  }
  if (threshold.hard()) return text;
  const Duration met_for = evidence.first_met ? now - *evidence.first_met : Duration::zero();
  return text +
         fmt::format(" (soft, met for {} of {})", brief(met_for), to_string(threshold.grace));
}

std::string in_short(const Decision& decision, MonotonicTime now) {
  std::string text = because(decision, now);
  for (std::size_t i = 0; i < decision.evictions.size(); ++i) {
    const Workload& victim = decision.considered[decision.evictions[i].candidate].sample.workload;
    text += fmt::format("{} {} ({})", i == 0 ? "; evict" : ",", printable(victim.name),
                        printable(victim.path));
  }
  return text;
}

}  // namespace forestall::replay
