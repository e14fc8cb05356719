// SPDX-License-Identifier: Apache-2.0
// `forestall signals`: the current value of every signal and its threshold.
#include <fmt/format.h>

#include "api/convert.h"
#include "api/json.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/look.h"
#include "cli/table.h"
#include "forestall/v1/report.pb.h"

namespace forestall::cli {
namespace {

// Bytes with a unit; inodes and tasks as numbers.
std::string amount(Signal signal, std::int64_t count) {
  return unit_of(signal) == Unit::bytes ? human(Bytes{count}) : fmt::format("{}", count);
}

std::string state(const Evidence& evidence) {
  if (!evidence.met) return "";
  return evidence.threshold.hard() || evidence.driving ? "MET" : "MET, in grace";
}

void print_text(const Look& look) {
  Table table({"signal", "kind", "subject", "available", "threshold", "capacity", "headroom", ""});
  for (const Evidence& each : look.decision.evidence) {
    const Signal signal = each.threshold.signal;
    const std::int64_t limit = each.limit.value();
    table.add({std::string(to_string(signal)), each.threshold.hard() ? "hard" : "soft",
               each.subject, amount(signal, each.available), amount(signal, limit),
               amount(signal, each.capacity), amount(signal, each.available - limit), state(each)});
  }
  table.print();
  if (look.decision.evidence.empty()) fmt::print("  no configured signal could be computed\n");
  const NodeSample& node = look.observation.node;
  if (node.kernel_available) {
    fmt::print(
        "\nThe kernel's own MemAvailable is {}; kubelet's memory.available differs, because "
        "it counts active page cache as used.\n",
        human(*node.kernel_available));
  }
  for (const SourceNote& note : look.observation.notes) {
    fmt::print("note: {}: {}\n", note.subject, note.problem);
  }
}

}  // namespace

int run_signals(const Options& options) {
  auto looked = look_at_host(options);
  if (const auto* failure = std::get_if<LookFailure>(&looked)) {
    return report_failure("signals", *failure);
  }
  Look& look = std::get<Look>(looked);
  for (const std::string& warning : look.warnings) fmt::print(stderr, "{}\n", warning);
  if (options.output == OutputFormat::json) {
    look.decision.considered.clear();  // that is what `rank` is for
    look.decision.evictions.clear();
    v1::SignalsReport report;
    look.observation.workloads.reset();
    *report.mutable_observation() = api::to_proto(look.observation);
    for (const Evidence& each : look.decision.evidence) {
      *report.add_signals() = api::to_proto(each);
    }
    fmt::print("{}", api::to_json(report, api::JsonStyle::pretty));
  } else {
    print_text(look);
  }
  return kExitOk;
}

}  // namespace forestall::cli
