// SPDX-License-Identifier: Apache-2.0
// simulation_bench [NODES] [SEEDS] [POLICY]: policies on the synthetic cluster of `forestall
// rebalance simulate` over 24 hours, once for each seed, as tab-separated values. Default: 500
// nodes, 10 seeds, all policies. The last line of each policy is the sum over the seeds.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "descheduler/descheduler_policy.h"
#include "rebalance/simulation.h"

namespace forestall {
namespace {

constexpr const char* kUtilization = R"(
metricsProviders: [{source: KubernetesMetrics}]
profiles:
- name: p
  pluginConfig:
  - {name: LowNodeUtilization, args: {thresholds: {memory: 60}, targetThresholds: {memory: 80},
                                      metricsUtilization: {source: KubernetesMetrics}}}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
)";

constexpr const char* kPressure = R"(
profiles:
- name: p
  pluginConfig: [{name: NodePressure, args: {secondsToCrossing: 3600}}]
  plugins: {balance: {enabled: [NodePressure]}}
)";

struct Contender {
  const char* name;
  const char* compat;
  const char* policy;  // null: nothing is moved
  bool placeholders = false;
};

constexpr Contender kContenders[] = {
    {"none", "upstream", nullptr},        {"upstream", "upstream", kUtilization},
    {"fixed", "fixed", kUtilization},     {"fixed+placeholder", "fixed", kUtilization, true},
    {"NodePressure", "fixed", kPressure}, {"NodePressure+placeholder", "fixed", kPressure, true},
};

struct Totals {
  double hot_node_minutes = 0;
  rebalance::SimulationPoint last;

  void add(const rebalance::SimulationRun& run) {
    const rebalance::SimulationPoint& end = run.points.back();
    hot_node_minutes += *run.hot_node_minutes;
    *last.evictions += *end.evictions;
    *last.kills += *end.kills;
    last.moves += end.moves;
    last.loops += end.loops;
  }
};

void print_row(std::string_view seed, const char* name, const Totals& totals) {
  fmt::print("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", seed, name, totals.hot_node_minutes,
             *totals.last.evictions, *totals.last.kills, totals.last.moves, totals.last.loops);
  (void)std::fflush(stdout);
}

// Nothing: the policy was refused.
std::optional<rebalance::SimulationRun> run(const Contender& contender,
                                            rebalance::SimulationOptions options) {
  options.placeholders = contender.placeholders;
  if (contender.policy == nullptr) return rebalance::simulate(options, contender.name, nullptr);
  text::Findings findings;
  const std::string text = fmt::format("compat: {}{}", contender.compat, contender.policy);
  const auto parsed = descheduler::parse_descheduler_policy("bench", text, nullptr, findings);
  if (!parsed) {
    fmt::print(stderr, "{}\n", text::format(findings.errors));
    return std::nullopt;
  }
  auto result = rebalance::simulate(options, contender.name, &parsed->policy);
  if (result.error.empty()) return result;
  fmt::print(stderr, "{}\n", result.error);
  return std::nullopt;
}

int run_all(std::uint64_t nodes, std::uint64_t seeds, std::string_view only) {
  fmt::print("seed\tpolicy\thot_node_minutes\tevictions\tkills\tmoves\tloops\n");
  std::map<const Contender*, Totals> sums;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const Contender& each : kContenders) {
      if (!only.empty() && only != each.name) continue;
      const auto result = run(each, {.seed = seed, .nodes = nodes});
      if (!result) return 1;
      Totals one;
      one.add(*result);
      sums[&each].add(*result);
      print_row(std::to_string(seed), each.name, one);
    }
  }
  for (const Contender& each : kContenders) {
    if (sums.contains(&each)) print_row("all", each.name, sums[&each]);
  }
  return 0;
}

std::uint64_t number_of(std::string_view text, std::uint64_t otherwise) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && number > 0 ? number : otherwise;
}

}  // namespace
}  // namespace forestall

int main(int argc, char** argv) {
  constexpr std::uint64_t kNodes = 500;
  constexpr std::uint64_t kSeeds = 10;
  return forestall::run_all(forestall::number_of(argc > 1 ? argv[1] : "", kNodes),
                            forestall::number_of(argc > 2 ? argv[2] : "", kSeeds),
                            argc > 3 ? argv[3] : "");
}
