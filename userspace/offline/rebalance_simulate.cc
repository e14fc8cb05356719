// SPDX-License-Identifier: Apache-2.0
// `forestall rebalance simulate`: policies on a synthetic or a recorded cluster, side by side.
#include <fmt/format.h>

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/pod_input.h"
#include "intake/wall_time.h"
#include "offline/commands.h"
#include "offline/output_file.h"
#include "offline/rebalance_input.h"
#include "offline/simulation_page.h"
#include "offline/simulation_report.h"
#include "offline/trace_play.h"
#include "rebalance/simulation.h"
#include "text/json_writer.h"

namespace forestall::cli {
namespace {

using rebalance::SimulationRun;

constexpr const char* kSimulate = "rebalance simulate";

constexpr const char* kUtilization =
    "metricsProviders: [{source: KubernetesMetrics}]\n"
    "profiles: [{name: p, pluginConfig: [{name: LowNodeUtilization, args: {thresholds: {memory: "
    "60}, targetThresholds: {memory: 80}, metricsUtilization: {source: KubernetesMetrics}}}], "
    "plugins: {balance: {enabled: [LowNodeUtilization]}}}]\n";

constexpr const char* kPressure =
    "compat: fixed\n"
    "profiles: [{name: p, pluginConfig: [{name: NodePressure, args: {secondsToCrossing: 3600}}], "
    "plugins: {balance: {enabled: [NodePressure]}}}]\n";

// Without policies of the user.
std::vector<NamedPolicy> built_in() {
  return {{"LowNodeUtilization, upstream", kUtilization},
          {"LowNodeUtilization, fixed", "compat: fixed\n" + std::string(kUtilization)},
          {"NodePressure", kPressure}};
}

// The given policies, or the built-in ones. A file that cannot be read is in `findings`.
std::vector<NamedPolicy> policies_of(const SimulateOptions& simulate, text::Findings& findings) {
  if (simulate.policies.empty()) return built_in();
  std::vector<NamedPolicy> policies;
  for (const std::string& path : simulate.policies) {
    auto text = read_input(path);
    if (!text) {
      findings.errors.push_back({{path, std::nullopt}, text.error().text()});
    } else {
      policies.push_back({path, std::move(*text)});
    }
  }
  return policies;
}

rebalance::SimulationOptions model_of(const SimulateOptions& simulate) {
  rebalance::SimulationOptions model{.seed = simulate.seed,
                                     .nodes = simulate.nodes,
                                     .pods_per_node = simulate.pods_per_node,
                                     .hours = simulate.hours,
                                     .placeholders = simulate.placeholders};
  if (simulate.interval_seconds > 0) model.interval_seconds = simulate.interval_seconds;
  return model;
}

// What was played, and what each policy did.
struct Played {
  SimulationSubject subject;
  std::vector<SimulationRun> runs;
  text::JsonWriter head = text::JsonWriter();  // an object with members that describe the subject
};

Played play_model(const rebalance::SimulationOptions& model,
                  const std::vector<ParsedPolicy>& policies) {
  Played played{.subject = subject_of(model), .runs = {}};
  played.runs.push_back(rebalance::simulate(model, "none", nullptr));
  for (const ParsedPolicy& each : policies) {
    played.runs.push_back(rebalance::simulate(model, each.name, &each.policy));
  }
  played.head.begin_object();
  played.head.member("seed", model.seed);
  played.head.member("nodes", model.nodes);
  played.head.member("podsPerNode", model.pods_per_node);
  played.head.member("hours", model.hours);
  played.head.member("intervalSeconds", model.interval_seconds);
  played.head.member("placeholders", model.placeholders);
  return played;
}

std::string from_to(const PlayedTrace& trace) {
  return fmt::format("{} states from {} to {}", trace.states,
                     intake::wall_time_text(trace.first_ns), intake::wall_time_text(trace.last_ns));
}

Played describe_trace(PlayedTrace trace, const SimulateOptions& simulate) {
  Played played{
      .subject = {.description = fmt::format(
                      "Recorded: {}, a plan {}{}. Pods run as they were recorded, and "
                      "moved pods on their new nodes with their usage; forestall(8) "
                      "describes the scheduler's model. What the kubelet and the kernel "
                      "would have done after other moves is unknown.",
                      from_to(trace),
                      simulate.interval_seconds == 0
                          ? std::string("for each state")
                          : fmt::format("every {} s", simulate.interval_seconds),
                      simulate.placeholders ? "; replacements run where room was booked" : ""),
                  .notes = {},
                  .is_trace = true},
      .runs = std::move(trace.runs)};
  for (const text::Finding& each : trace.left_out) {
    played.subject.notes.push_back(
        fmt::format("The last state was left out: {}", text::format({each})));
  }
  if (!trace.has_reports) {
    played.subject.notes.emplace_back("No state has NodeReports, which NodePressure needs.");
  }
  text::JsonWriter& head = played.head;
  head.begin_object();
  head.key("trace");
  head.begin_object();
  head.member("states", trace.states);
  head.member("from", intake::wall_time_text(trace.first_ns));
  head.member("to", intake::wall_time_text(trace.last_ns));
  head.key("leftOut");
  head.begin_list();
  for (const text::Finding& each : trace.left_out) {
    head.begin_object();
    head.member("place", text::to_string(each.origin));
    head.member("message", each.message);
    head.end_object();
  }
  head.end_list();
  head.member("nodeReports", trace.has_reports);
  head.end_object();
  if (simulate.interval_seconds > 0) head.member("intervalSeconds", simulate.interval_seconds);
  head.member("placeholders", simulate.placeholders);
  return played;
}

// Nothing after an error, which is in `findings`.
std::optional<Played> play(const SimulateOptions& simulate, text::Findings& findings) {
  const std::vector<NamedPolicy> policies = policies_of(simulate, findings);
  if (!findings.errors.empty()) return std::nullopt;
  if (simulate.trace.empty()) {
    const auto parsed = parse_policies(policies, nullptr, findings);
    if (!findings.errors.empty()) return std::nullopt;
    return play_model(model_of(simulate), parsed);
  }
  auto trace = play_trace(simulate, policies, findings);
  if (!trace) return std::nullopt;
  return describe_trace(std::move(*trace), simulate);
}

int write_played(Played played, const SimulateOptions& simulate, bool json) {
  for (const SimulationRun& run : played.runs) {
    if (run.error.empty()) continue;
    fmt::print(stderr, "{}: {}\n", printable(run.name), printable(run.error));
  }
  for (const std::string& each : played.subject.notes) {
    fmt::print(json ? stderr : stdout, "{}\n", each);
  }
  if (!simulate.page.empty()) {
    const auto written =
        write_file(simulate.page, simulate.force, simulation_page(played.subject, played.runs));
    if (!written) return fail(kSimulate, written.error(), kExitFailed);
  }
  if (json) {
    write_runs(played.head, played.runs, played.subject.is_trace);
    played.head.end_object();
    fmt::print("{}", std::move(played.head).take());
    return kExitOk;
  }
  print_runs(played.runs, played.subject.is_trace);
  return kExitOk;
}

}  // namespace

int run_simulation(const Options& options, const SimulateOptions& simulate) {
  const bool json = options.output == OutputFormat::json;
  const std::string& page = simulate.page;
  // Checked before the simulation, which takes time. write_file() checks again.
  if (!page.empty() && !simulate.force && ::access(page.c_str(), F_OK) == 0) {
    return fail(kSimulate, error(page + " exists; --force overwrites it"), kExitUsage);
  }
  text::Findings findings;
  auto played = play(simulate, findings);
  if (!played) return report_errors(findings, json);
  return write_played(std::move(*played), simulate, json);
}

}  // namespace forestall::cli
