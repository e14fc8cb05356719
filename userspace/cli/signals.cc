// SPDX-License-Identifier: Apache-2.0
// `forestall signals`: the current value of every signal and its threshold.
#include <fmt/format.h>

#include <vector>

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/host_evaluation.h"
#include "daemon/rank_report.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "model/unknown_threshold.h"
#include "tables/limit_text.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

// Bytes with a unit; inodes and tasks as numbers.
std::string amount(Signal signal, std::int64_t count) {
  return unit_of(signal) == Unit::bytes ? tables::human(Bytes{count}) : fmt::format("{}", count);
}

std::string state(const Evidence& evidence) {
  if (!evidence.met) return "";
  return evidence.threshold.hard() || evidence.driving ? "MET" : "MET, in grace";
}

// The observer notes some reasons why a threshold is unknown; `unknown` has all of them.
void remove_repeated(const std::vector<UnknownThreshold>& unknown, std::vector<SourceNote>& notes) {
  for (const UnknownThreshold& each : unknown) std::erase(notes, to_note(each));
}

void print_text(const HostEvaluation& evaluation, const std::vector<UnknownThreshold>& unknown) {
  tables::Table table(
      {"signal", "kind", "subject", "available", "threshold", "capacity", "headroom", ""});
  for (const Evidence& each : evaluation.decision.evidence) {
    const Signal signal = each.threshold.signal;
    const std::int64_t limit = each.limit.value();
    table.add({std::string(to_string(signal)), each.threshold.hard() ? "hard" : "soft",
               each.subject, amount(signal, each.available), amount(signal, limit),
               amount(signal, each.capacity), amount(signal, each.available - limit), state(each)});
  }
  for (const UnknownThreshold& each : unknown) {
    table.add(
        {std::string(to_string(each.threshold.signal)), each.threshold.hard() ? "hard" : "soft",
         each.subject, each.threshold.own_limits_of ? "-" : "unknown",
         tables::limit_text(messages::to_proto(each.threshold)), "-", "-", printable(each.reason)});
  }
  table.print();
  if (evaluation.config.thresholds.empty()) fmt::print("  no threshold is configured\n");
  const NodeSample& node = evaluation.observation.node;
  if (node.kernel_available) {
    fmt::print(
        "\nThe kernel's own MemAvailable is {}; kubelet's memory.available differs, because "
        "it counts active page cache as used.\n",
        tables::human(*node.kernel_available));
  }
  std::vector<SourceNote> notes = evaluation.observation.notes;
  remove_repeated(unknown, notes);
  for (const SourceNote& note : notes) {
    fmt::print("note: {}: {}\n", printable(note.subject), printable(note.problem));
  }
}

}  // namespace

int run_signals(const Options& options) {
  auto evaluated = evaluate_host(options);
  if (const auto* failure = std::get_if<EvaluationFailure>(&evaluated)) {
    return report_failure("signals", *failure);
  }
  const HostEvaluation& evaluation = std::get<HostEvaluation>(evaluated);
  for (const std::string& warning : evaluation.warnings) fmt::print(stderr, "{}\n", warning);
  const auto unknown =
      unknown_thresholds(evaluation.config, evaluation.observation, evaluation.decision.evidence);
  if (options.output == OutputFormat::json) {
    Observation observation = evaluation.observation;
    for (const UnknownThreshold& each : unknown) {
      // Once for the hard and the soft threshold of a signal.
      std::erase(observation.notes, to_note(each));
      observation.notes.push_back(to_note(each));
    }
    const auto report =
        daemon::signals_report(std::move(observation), evaluation.decision.evidence);
    fmt::print("{}", messages::to_json(report, messages::JsonStyle::pretty));
  } else {
    print_text(evaluation, unknown);
  }
  return kExitOk;
}

}  // namespace forestall::cli
