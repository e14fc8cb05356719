// SPDX-License-Identifier: Apache-2.0
// `forestall admit`: whether kubelet admits each pod while the node reports pressure, and which
// pods the critical ones preempt if the node's requests leave no room.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/parse.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/pod_input.h"
#include "messages/json.h"
#include "policy/admission.h"
#include "policy/pod_facts.h"
#include "policy/preemption.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

using Pods = std::vector<std::shared_ptr<const Pod>>;

// In command-line order, which the message keeps; without duplicates.
Result<std::vector<Condition>> conditions_of(std::string_view text) {
  std::vector<Condition> conditions;
  while (!text.empty()) {
    const std::string_view word = trim(next_field(text, ','));
    if (word.empty()) continue;
    const auto condition = parse_condition(word);
    if (!condition) {
      return error(
          fmt::format("--conditions: unknown condition '{}'; conditions are: "
                      "MemoryPressure, DiskPressure, PIDPressure",
                      word));
    }
    if (std::find(conditions.begin(), conditions.end(), *condition) == conditions.end()) {
      conditions.push_back(*condition);
    }
  }
  return conditions;
}

Result<Quantity> amount_of(std::string_view name, std::string_view text) {
  const auto amount = parse_quantity(text);
  const std::string where = fmt::format("--allocatable: {}", name);
  if (!amount) return amount.error().in(where);
  if (amount->nanos < 0) return error(fmt::format("{}: must not be negative: '{}'", where, text));
  return *amount;
}

Result<policy::Allocatable> allocatable_of(std::string_view text) {
  policy::Allocatable allocatable;
  while (!text.empty()) {
    std::string_view amount = trim(next_field(text, ','));
    if (amount.empty()) continue;
    const std::string_view whole = amount;
    const std::string_view name = trim(next_field(amount, '='));
    if (name.size() == whole.size()) {
      return error(fmt::format("--allocatable: expected RESOURCE=QUANTITY, found '{}'", whole));
    }
    const Quantity quantity = TRY(amount_of(name, trim(amount)));
    if (name == "cpu") {
      allocatable.resources.cpu = quantity;
    } else if (name == "memory") {
      allocatable.resources.memory = quantity;
    } else if (name == "ephemeral-storage") {
      allocatable.resources.ephemeral_storage = quantity;
    } else if (name == "pods") {
      allocatable.pods = quantity.value();
    } else {
      return error(
          fmt::format("--allocatable: unknown resource '{}'; resources are: cpu, memory, "
                      "ephemeral-storage, pods",
                      name));
    }
  }
  return allocatable;
}

// Pods that occupy their requests: finished pods do not.
Pods active(std::vector<intake::ListedPod> listed) {
  Pods pods;
  for (intake::ListedPod& each : listed) {
    if (policy::is_active(each.pod)) {
      pods.push_back(std::make_shared<const Pod>(std::move(each.pod)));
    }
  }
  return pods;
}

v1::PreemptionReport preemption_for(const Pod& pod, const Pods& running,
                                    const policy::Allocatable& allocatable) {
  // A pod that already runs does not take its own room again.
  Pods others = running;
  std::erase_if(others, [&](const auto& each) { return each->uid == pod.uid; });
  v1::PreemptionReport out;
  *out.mutable_pod() = pod_name(pod);
  const auto preemption = policy::preempt(pod, others, allocatable);
  if (!preemption) {
    out.set_outcome("impossible");
    return out;
  }
  out.set_lacking(preemption->metric_signal);
  out.set_outcome(preemption->victims.empty() ? "fits" : "preempts");
  for (const std::size_t victim : preemption->victims) {
    *out.add_victims() = pod_name(*others[victim]);
  }
  if (!preemption->victims.empty()) {
    out.set_reason(std::string(policy::kPreemptedReason));
    out.set_message(std::string(policy::kPreemptedMessage));
  }
  return out;
}

v1::AdmissionReport admission_of(const Pod& pod, const std::vector<Condition>& conditions) {
  const policy::AdmissionVerdict verdict = policy::admit(pod, conditions);
  v1::AdmissionReport out;
  *out.mutable_pod() = pod_name(pod);
  out.set_admitted(verdict.admitted);
  out.set_reason(verdict.reason);
  out.set_message(verdict.message);
  return out;
}

std::string text_of(const v1::PodName& pod) {
  return pod.namespace_().empty() ? pod.name() : pod.namespace_() + "/" + pod.name();
}

void print_text(const v1::AdmitReport& report, bool with_preemption) {
  tables::Table table({"pod", "verdict", "reason", "message"});
  for (const v1::AdmissionReport& each : report.pods()) {
    table.add({text_of(each.pod()), each.admitted() ? "admitted" : "rejected", each.reason(),
               each.message()});
  }
  table.print();
  if (!with_preemption) return;
  fmt::print("\n");
  if (report.preemptions().empty()) fmt::print("no critical pod among them\n");
  for (const v1::PreemptionReport& each : report.preemptions()) {
    const std::string pod = text_of(each.pod());
    if (each.outcome() == "impossible") {
      fmt::print("{}: preempting every eligible pod would not make enough room\n", pod);
    } else if (each.outcome() == "fits") {
      fmt::print("{}: fits, no pod is preempted\n", pod);
    } else {
      fmt::print("{}: lacks {}; preempts, with reason {}, \"{}\":\n", pod, each.lacking(),
                 each.reason(), each.message());
      for (const v1::PodName& victim : each.victims()) fmt::print("  {}\n", text_of(victim));
    }
  }
}

Result<v1::AdmitReport> admit_pods(const AdmitOptions& options) {
  const auto conditions = TRY(conditions_of(options.conditions));
  const auto allocatable = TRY(allocatable_of(options.allocatable));
  if (options.pods == "-" && options.running == "-") {
    return error("--pods and --running cannot both be standard input");
  }
  const auto pods = TRY(load_pods(options.pods));
  Pods running;
  if (!options.running.empty()) {
    auto listed = TRY(load_pods(options.running));
    running = active(std::move(listed));
  }
  v1::AdmitReport report;
  for (const Condition each : conditions) report.add_conditions(std::string(to_string(each)));
  for (const intake::ListedPod& each : pods) {
    *report.add_pods() = admission_of(each.pod, conditions);
    if (options.allocatable.empty() || !policy::is_critical(each.pod)) continue;
    *report.add_preemptions() = preemption_for(each.pod, running, allocatable);
  }
  return report;
}

}  // namespace

int run_admit(const Options& options, const AdmitOptions& admit_options) {
  const auto report = admit_pods(admit_options);
  if (!report) return fail("admit", report.error(), kExitUsage);
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(*report, messages::JsonStyle::pretty));
  } else {
    print_text(*report, !admit_options.allocatable.empty());
  }
  return kExitOk;
}

}  // namespace forestall::cli
