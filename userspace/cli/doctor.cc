// SPDX-License-Identifier: Apache-2.0
// `forestall doctor`: which kernel features this host has, which are used, which are missing, and
// the effect.
#include <fmt/format.h>

#include "agent/host.h"
#include "api/convert.h"
#include "api/json.h"
#include "cli/bpf_counter_text.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/table.h"
#include "kernel/bpf_counters.h"

namespace forestall::cli {
namespace {

std::string cgroup_shape(const kernel::CgroupTree& tree) {
  if (tree.hybrid()) return "hybrid";
  return tree.version() == kernel::CgroupVersion::v1 ? "v1" : "v2";
}

// One sentence for each problem that an operator can fix.
std::vector<std::string> advice(const agent::Host& host) {
  std::vector<std::string> sentences;
  const auto refused = [&](Feature feature) {
    return host.reports[static_cast<std::size_t>(feature)].state == FeatureState::refused;
  };
  if (refused(Feature::bpf)) {
    sentences.push_back(
        "The kernel refuses BPF: grant CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN), and "
        "check that seccomp and kernel lockdown permit bpf(2).");
  }
  if (refused(Feature::sched_fifo)) {
    sentences.push_back(
        "The kernel refuses real-time scheduling: grant CAP_SYS_NICE, and on cgroup v1 give "
        "the agent's cpu cgroup a cpu.rt_runtime_us.");
  }
  if (refused(Feature::oom_score_adj)) {
    sentences.push_back(
        "The agent cannot protect itself from the OOM killer: grant "
        "CAP_SYS_RESOURCE, or set OOMScoreAdjust=-1000 in its unit.");
  }
  if (!host.can_guard()) {
    sentences.push_back(
        "The agent has no event source or cannot kill: every event source "
        "or both pidfd and cgroup-kill are missing or disabled.");
  }
  return sentences;
}

v1::DoctorReport to_report(const agent::Host& host) {
  v1::DoctorReport report;
  report.set_version(FORESTALL_VERSION);
  report.set_kernel(host.kernel_release);
  report.set_cgroups(cgroup_shape(host.tree));
  report.set_tier(api::to_proto(host.tier()));
  report.set_can_guard(host.can_guard());
  for (const FeatureReport& each : host.reports) {
    v1::FeatureReport* feature = report.add_features();
    *feature = api::to_proto(each);
    const std::string_view cost = agent::cost_of_missing(each.feature);
    if (each.state != FeatureState::in_use && !cost.empty()) feature->set_cost(std::string(cost));
  }
  // An unreadable counter is not a reason to withhold the report.
  const auto counters = kernel::bpf_counters(host.bpf.get(), host.guard.get());
  if (counters) {
    for (const BpfCounter& each : *counters) *report.add_bpf_counters() = api::to_proto(each);
  } else {
    report.add_advice(
        "The counters of the BPF programs cannot be read: " + counters.error().text() + ".");
  }
  for (std::string& sentence : advice(host)) report.add_advice(std::move(sentence));
  return report;
}

void print_text(const agent::Host& host, const v1::DoctorReport& report) {
  fmt::print("forestall {} on Linux {}, cgroups {}\n", report.version(), report.kernel(),
             report.cgroups());
  fmt::print("tier: {} - {}\n\n", to_string(host.tier()),
             report.can_guard() ? "this host can be guarded" : "NOTHING CAN GUARD THIS HOST");
  Table table({"feature", "state", "evidence"});
  for (const FeatureReport& each : host.reports) {
    table.add(
        {std::string(to_string(each.feature)), std::string(to_string(each.state)), each.evidence});
  }
  table.print();
  fmt::print("{}", bpf_counter_text(report.bpf_counters()));
  bool headed = false;
  for (const v1::FeatureReport& each : report.features()) {
    if (!each.has_cost()) continue;
    if (!headed) fmt::print("\nMissing features and their effect\n");
    headed = true;
    fmt::print("  {}: {}\n", each.feature(), each.cost());
  }
  if (report.advice_size() > 0) fmt::print("\nAdvice\n");
  for (const std::string& sentence : report.advice()) fmt::print("  - {}\n", sentence);
}

}  // namespace

int run_doctor(const Options& options) {
  const auto disabled = disabled_features(options);
  if (!disabled) {
    fmt::print(stderr, "forestall doctor: {}\n", disabled.error().text());
    return kExitUsage;
  }
  auto host = agent::probe_host(*disabled, options.cgroup_mount);
  if (!host) {
    fmt::print(stderr, "forestall doctor: {}\n", host.error().text());
    return kExitUnguarded;
  }
  agent::load_guard(*host, *disabled);
  agent::protect_self(*host, *disabled);
  const v1::DoctorReport report = to_report(*host);
  if (options.output == OutputFormat::json) {
    fmt::print("{}", api::to_json(report, api::JsonStyle::pretty));
  } else {
    print_text(*host, report);
  }
  return host->can_guard() ? kExitOk : kExitUnguarded;
}

}  // namespace forestall::cli
