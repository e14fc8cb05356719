// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "model/duration.h"
#include "replay/comparison_text.h"
#include "replay/decision_text.h"
#include "replay/replay_report.h"
#include "tables/table.h"

namespace forestall::replay {
namespace {

// width of the columns before describe()
constexpr std::string_view kIndent = "                         ";

std::string eviction_text(const Eviction& eviction, const Decision& decision) {
  const Workload& victim = decision.considered[eviction.candidate].sample.workload;
  const std::string grace = eviction.at_once
                                ? fmt::format("at once (kubelet: {})", to_string(eviction.grace))
                                : "grace " + to_string(eviction.grace);
  std::string message = eviction.message;
  while (message.ends_with(' ')) message.pop_back();
  return fmt::format("{}evict {} ({}), {}: {}\n", kIndent, printable(victim.name),
                     printable(victim.path), grace, printable(message));
}

void add_line(Duration since, std::uint64_t line, std::string_view text, std::string& out) {
  out += fmt::format("{:>14}  {:>7}  {}\n", offset(since), line, text);
}

void add_condition(const ReplayEvaluation& evaluation, const ConditionStatus& status,
                   std::string& out) {
  add_line(evaluation.since_first, evaluation.line,
           fmt::format("condition {} is {}: {} ({}), event {}", to_string(status.condition),
                       status.status ? "True" : "False",
                       condition_reason(status.condition, status.status),
                       condition_message(status.condition, status.status),
                       condition_event(status.condition, status.status)),
           out);
}

bool is_restart(const ReplayEvaluation& evaluation) {
  return evaluation.step != nullptr && evaluation.step->restarted_after.has_value();
}

void add_restart(const ReplayEvaluation& evaluation, std::string& out) {
  if (!is_restart(evaluation)) return;
  out += fmt::format("{:>14}  {:>7}  the agent was restarted; {} without an evaluation\n",
                     offset(evaluation.since_first), "", brief(*evaluation.step->restarted_after));
}

bool acts(const Decision& decision) {
  return decision.action == Action::kill || decision.action == Action::reclaim;
}

}  // namespace

void ReplayText::evaluation(const ReplayEvaluation& evaluation, std::string& out) {
  if (!begun_) out += fmt::format("{:>14}  {:>7}  {}\n", "time", unit_, "decision");
  begun_ = true;
  const Decision& decision = evaluation.decision;
  const Evidence* evidence = explaining(decision);
  const auto threshold = evidence != nullptr ? std::optional(evidence->threshold) : std::nullopt;
  const bool goes_on = run_ && !all_ && !is_restart(evaluation) && evaluation.changed.empty() &&
                       !acts(decision) && run_->action == decision.action &&
                       run_->reason == decision.reason && run_->threshold == threshold;
  if (goes_on) {
    ++run_->evaluations;
    return;
  }
  if (repeats(evaluation, out)) return;
  end_run(out);
  add_restart(evaluation, out);
  for (const ConditionStatus& status : evaluation.changed) add_condition(evaluation, status, out);
  if (!acts(decision)) {
    run_ = Run{decision.action,
               decision.reason,
               threshold,
               evaluation.since_first,
               evaluation.line,
               1,
               because(decision, evaluation.observation.at)};
    if (evaluation.step != nullptr && evaluation.step->age) {
      run_->text += fmt::format(" (with usage read {} earlier)", brief(*evaluation.step->age));
    }
    return;
  }
  add_line(evaluation.since_first, evaluation.line, because(decision, evaluation.observation.at),
           out);
  for (const Eviction& eviction : decision.evictions) out += eviction_text(eviction, decision);
  if (evaluation.step != nullptr && evaluation.step->age) {
    out += fmt::format("{}with usage read {} earlier\n", kIndent, brief(*evaluation.step->age));
  }
}

// Whether the evaluation only repeats the previous kill. If not, prints the end of the previous
// run.
bool ReplayText::repeats(const ReplayEvaluation& evaluation, std::string& out) {
  const bool reported_before = evaluation.step == nullptr || evaluation.step->as_recorded || all_;
  std::vector<std::string> victims;
  for (const Eviction& eviction : evaluation.decision.evictions) {
    victims.push_back(evaluation.decision.considered[eviction.candidate].sample.workload.path);
  }
  if (!reported_before && repeat_ && !is_restart(evaluation) && evaluation.changed.empty() &&
      repeat_->victims == victims) {
    ++repeat_->evaluations;
    repeat_->until = evaluation.since_first;
    return true;
  }
  end_repeat(out);
  if (!reported_before && !victims.empty()) repeat_ = Repeat{std::move(victims), 0, {}};
  return false;
}

void ReplayText::end_repeat(std::string& out) {
  if (repeat_ && repeat_->evaluations > 0) {
    out += fmt::format(
        "{}repeated in {} more evaluations, up to {}: the recording does not show its exit\n",
        kIndent, repeat_->evaluations, offset(repeat_->until));
  }
  repeat_.reset();
}

void ReplayText::end_run(std::string& out) {
  if (!run_) return;
  if (run_->evaluations > 1) run_->text += fmt::format(", {} times", run_->evaluations);
  add_line(run_->since_first, run_->line, run_->text, out);
  run_.reset();
}

void ReplayText::end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
                     const RecordingReplay* replay, std::string& out) {
  end_repeat(out);
  end_run(out);
  out += fmt::format("\nobservations: {}", counts.observations);
  if (counts.first) {
    out += fmt::format(" over {}, from {:.3f} s to {:.3f} s since boot", brief(counts.over),
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
  for (const auto& [signal, count] : counts.kubelet_evictions.counts()) {
    out += fmt::format("  kubelet_evictions{{eviction_signal=\"{}\"}} {}\n", signal, count);
  }
  const bool kills = std::ranges::any_of(
      counts.decisions, [](const auto& each) { return each.first.first == Action::kill; });
  if (kills) {
    out += "A kill decided here does not change later lines: they are recorded observations.\n";
  }
  if (replay != nullptr) out += comparison_text(*replay);
  if (stopped) out += "Stopped before the end: " + *stopped + "\n";
}

}  // namespace forestall::replay
