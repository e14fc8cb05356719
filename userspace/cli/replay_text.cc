// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/comparison_text.h"
#include "cli/replay_report.h"
#include "cli/table.h"
#include "model/duration.h"

namespace forestall::cli {
namespace {

// width of the columns before describe()
constexpr std::string_view kIndent = "                         ";

// Kubelet prints bytes in binary units and counts in decimal.
std::string amount(Signal signal, std::int64_t amount) {
  return (unit_of(signal) == Unit::bytes ? binary(amount) : decimal(amount)).text();
}

// The threshold that explains the decision: the driving one, else the first that is met.
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

std::string eviction_text(const Eviction& eviction, const Decision& decision) {
  const Workload& victim = decision.considered[eviction.candidate].sample.workload;
  const std::string grace = eviction.at_once
                                ? fmt::format("at once (kubelet: {})", to_string(eviction.grace))
                                : "grace " + to_string(eviction.grace);
  std::string message = eviction.message;
  while (message.ends_with(' ')) message.pop_back();
  return fmt::format("{}evict {} ({}), {}: {}\n", kIndent, victim.name, victim.path, grace,
                     message);
}

void add_line(Duration since, std::uint64_t line, std::string_view text, std::string& out) {
  out += fmt::format("{:>14}  {:>7}  {}\n", "+" + to_string(since), line, text);
}

void add_condition(const ReplayLook& look, const ConditionStatus& status, std::string& out) {
  add_line(look.since_first, look.line,
           fmt::format("condition {} is {}: {} ({}), event {}", to_string(status.condition),
                       status.status ? "True" : "False",
                       condition_reason(status.condition, status.status),
                       condition_message(status.condition, status.status),
                       condition_event(status.condition, status.status)),
           out);
}

bool acts(const Decision& decision) {
  return decision.action == Action::kill || decision.action == Action::reclaim;
}

}  // namespace

std::string describe(const Evidence& evidence, MonotonicTime now) {
  const Threshold& threshold = evidence.threshold;
  std::string text(to_string(threshold.signal));
  if (is_of_watched_cgroup(threshold.signal)) text += " of " + evidence.subject;
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
         fmt::format(" (soft, met for {} of {})", to_string(met_for), to_string(threshold.grace));
}

void ReplayText::look(const ReplayLook& look, std::string& out) {
  if (!begun_) out += fmt::format("{:>14}  {:>7}  {}\n", "time", unit_, "decision");
  begun_ = true;
  const Decision& decision = look.decision;
  const Evidence* evidence = explaining(decision);
  const auto threshold = evidence != nullptr ? std::optional(evidence->threshold) : std::nullopt;
  const bool goes_on = run_ && !all_ && look.changed.empty() && !acts(decision) &&
                       run_->action == decision.action && run_->reason == decision.reason &&
                       run_->threshold == threshold;
  if (goes_on) {
    ++run_->looks;
    return;
  }
  if (repeats(look, out)) return;
  end_run(out);
  for (const ConditionStatus& status : look.changed) add_condition(look, status, out);
  if (!acts(decision)) {
    run_ = Run{decision.action,
               decision.reason,
               threshold,
               look.since_first,
               look.line,
               1,
               because(decision, look.observation.at)};
    if (look.step != nullptr && look.step->age) {
      run_->text += fmt::format(" (with usage read {} earlier)", to_string(*look.step->age));
    }
    return;
  }
  add_line(look.since_first, look.line, because(decision, look.observation.at), out);
  for (const Eviction& eviction : decision.evictions) out += eviction_text(eviction, decision);
  if (look.step != nullptr && look.step->age) {
    out += fmt::format("{}with usage read {} earlier\n", kIndent, to_string(*look.step->age));
  }
}

// Whether the evaluation only repeats the previous kill. If not, prints the end of the previous
// run.
bool ReplayText::repeats(const ReplayLook& look, std::string& out) {
  const bool told_before = look.step == nullptr || look.step->as_recorded || all_;
  std::vector<std::string> victims;
  for (const Eviction& eviction : look.decision.evictions) {
    victims.push_back(look.decision.considered[eviction.candidate].sample.workload.path);
  }
  if (!told_before && repeat_ && look.changed.empty() && repeat_->victims == victims) {
    ++repeat_->looks;
    repeat_->until = look.since_first;
    return true;
  }
  end_repeat(out);
  if (!told_before && !victims.empty()) repeat_ = Repeat{std::move(victims), 0, {}};
  return false;
}

void ReplayText::end_repeat(std::string& out) {
  if (repeat_ && repeat_->looks > 0) {
    out += fmt::format(
        "{}repeated in {} more evaluations, up to +{}: the recording does not show its exit\n",
        kIndent, repeat_->looks, to_string(repeat_->until));
  }
  repeat_.reset();
}

void ReplayText::end_run(std::string& out) {
  if (!run_) return;
  if (run_->looks > 1) run_->text += fmt::format(", {} times", run_->looks);
  add_line(run_->since_first, run_->line, run_->text, out);
  run_.reset();
}

void ReplayText::end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
                     const RecordingReplay* replay, std::string& out) {
  end_repeat(out);
  end_run(out);
  out += fmt::format("\nobservations: {}", counts.observations);
  if (counts.first) {
    out += fmt::format(" over {}, from {:.3f} s to {:.3f} s since boot", to_string(counts.over),
                       static_cast<double>(to_ns(*counts.first)) / 1e9,
                       static_cast<double>(to_ns(*counts.last)) / 1e9);
  }
  out += "\n";
  for (const auto& [decision, count] : counts.decisions) {
    out += fmt::format("  {} ({}): {}\n", to_string(decision.first), to_string(decision.second),
                       count);
  }
  for (std::size_t i = 0; i < kConditions.size(); ++i) {
    if (counts.conditions[i].changes == 0) continue;
    out +=
        fmt::format("  {} changes: {}, {} at the end\n", to_string(kConditions[i]),
                    counts.conditions[i].changes, counts.conditions[i].status ? "True" : "False");
  }
  for (const auto& [signal, count] : counts.evictions) {
    out += fmt::format("  kubelet_evictions{{eviction_signal=\"{}\"}} {}\n", signal, count);
  }
  if (!counts.evictions.empty()) {
    out += "A kill decided here does not change later lines: they are recorded observations.\n";
  }
  if (replay != nullptr) out += comparison_text(*replay);
  if (stopped) out += "Stopped before the end: " + *stopped + "\n";
}

}  // namespace forestall::cli
