// SPDX-License-Identifier: Apache-2.0
// rebalance_bench [NODES] [PODS] [PLUGIN]: time and memory of the rebalancer on a generated
// cluster, from files to plans, as upstream and with all corrections. Default: 5,000 nodes, 150,000
// pods, and each plugin, then all in one plan. PLUGIN `all`: only that plan. rebalance_bench curve:
// CPU time and memory of LowNodeUtilization and of all plugins against the size of the cluster,
// with 30 pods a node, as tab-separated values. rebalance_bench plot: the same as SVG.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "descheduler/cluster_snapshot.h"
#include "descheduler/descheduler_policy.h"
#include "rebalance/rebalance.h"
#include "rebalance_cluster.h"
#include "size_plot.h"

namespace forestall {
namespace {

// Time of the wall, and processor time, which other programs of the machine do not lengthen.
class Stopwatch {
 public:
  [[nodiscard]] double cpu() const {
    return static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
  }
  [[nodiscard]] std::string text() const {
    const std::chrono::duration<double> wall = Clock::now() - wall_;
    return fmt::format("{:7.3f} s  cpu {:7.3f} s", wall.count(), cpu());
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point wall_ = Clock::now();
  std::clock_t cpu_ = std::clock();
};

constexpr std::int64_t kNow = 1'767'268'800'000'000'000;

double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Measured {
  const char* plugin;
  const char* point;
  const char* args;
};

constexpr Measured kMeasured[] = {
    {"LowNodeUtilization", "balance",
     "{thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 60, memory: 60}}"},
    {"HighNodeUtilization", "balance", "{thresholds: {cpu: 40}}"},
    {"RemoveDuplicates", "balance", "{}"},
    {"RemovePodsViolatingTopologySpreadConstraint", "balance", "{}"},
    {"RemovePodsViolatingInterPodAntiAffinity", "deschedule", "{}"},
    {"RemovePodsViolatingNodeTaints", "deschedule", "{}"},
    {"RemovePodsViolatingNodeAffinity", "deschedule",
     "{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}"},
    {"RemovePodsHavingTooManyRestarts", "deschedule", "{podRestartThreshold: 40}"},
    {"PodLifeTime", "deschedule", "{maxPodLifeTimeSeconds: 86400}"},
    {"RemoveFailedPods", "deschedule", "{}"},
};

std::optional<rebalance::Policy> policy_of(std::span<const Measured> plugins, const char* evictor,
                                           bool fixed) {
  std::string config = fmt::format("{{name: DefaultEvictor, args: {}}}", evictor);
  std::map<std::string_view, std::string> enabled = {{"balance", ""}, {"deschedule", ""}};
  for (const Measured& each : plugins) {
    config += fmt::format(", {{name: {}, args: {}}}", each.plugin, each.args);
    enabled[each.point] += fmt::format("{}, ", each.plugin);
  }
  const std::string text = fmt::format(
      "compat: {}\nprofiles: [{{name: p, pluginConfig: [{}], plugins: {{balance: {{enabled: "
      "[{}]}}, "
      "deschedule: {{enabled: [{}]}}}}}}]",
      fixed ? "fixed" : "upstream", config, enabled["balance"], enabled["deschedule"]);
  text::Findings findings;
  auto parsed = descheduler::parse_descheduler_policy("bench", text, nullptr, findings);
  if (!parsed) {
    fmt::print(stderr, "{}\n", text::format(findings.errors));
    return std::nullopt;
  }
  return std::move(parsed->policy);
}

bool measure_plan(std::span<const Measured> plugins, const char* evictor,
                  const rebalance::Snapshot& snapshot) {
  for (const bool fixed : {false, true}) {
    const auto policy = policy_of(plugins, evictor, fixed);
    if (!policy) return false;
    const Stopwatch watch;
    const rebalance::RebalancePlan plan = rebalance::rebalance(*policy, snapshot);
    const auto evicted = std::ranges::count_if(
        plan.evictions, [](const rebalance::PodEviction& one) { return one.refused.empty(); });
    fmt::print("{:43} {:15} {:8} {}  {:6} evictions, {} refused\n",
               plugins.size() == 1 ? plugins.front().plugin : "all plugins in one plan", evictor,
               fixed ? "fixed" : "upstream", watch.text(), evicted,
               static_cast<std::ptrdiff_t>(plan.evictions.size()) - evicted);
  }
  return true;
}

std::optional<rebalance::Snapshot> snapshot_of(int nodes, int pods) {
  descheduler::ClusterSnapshotReader reader;
  std::string text = test::cluster_json(nodes, pods);
  fmt::print(stderr, "{} nodes, {} pods, {} MiB of JSON\n", nodes, pods, text.size() >> 20U);
  const auto added = reader.add(std::move(text));
  if (added) return reader.take(kNow);
  fmt::print(stderr, "{}\n", added.error().text());
  return std::nullopt;
}

int run(int nodes, int pods, std::string_view plugin) {
  const Stopwatch watch;
  const auto snapshot = snapshot_of(nodes, pods);
  if (!snapshot) return 1;
  fmt::print("generate and parse {}\n", watch.text());
  for (const Measured& each : kMeasured) {
    if (!plugin.empty() && plugin != each.plugin) continue;
    if (!measure_plan({&each, 1}, "{}", *snapshot)) return 1;
  }
  if (plugin.empty() && !measure_plan({kMeasured, 1}, "{nodeFit: true}", *snapshot)) return 1;
  if (plugin.empty() || plugin == "all") {
    for (const char* const evictor : {"{}", "{nodeFit: true}"}) {
      if (!measure_plan(kMeasured, evictor, *snapshot)) return 1;
    }
  }
  fmt::print("peak {:.0f} MiB, with the generated text in memory\n", peak_mib());
  return 0;
}

constexpr int kPodsPerNode = 30;
constexpr int kSizes[] = {250, 500, 1000, 2000, 4000, 5000};

// From now on the peak is that of what follows.
bool reset_peak() {
  ::malloc_trim(0);
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

// In MiB; nothing: unknown.
std::optional<double> peak_since_reset() {
  constexpr double kKibPerMib = 1024;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / kKibPerMib;
  }
  return std::nullopt;
}

// Of a plan, by both modes.
struct PlanCost {
  double upstream_s = 0;  // CPU
  double fixed_s = 0;
  double peak_mib = 0;  // of the process, during these plans
};

struct Size {
  double read_mib = 0;  // the peak while the text is read
  PlanCost low_node_utilization;
  PlanCost all_plugins;
};

bool measure_both(std::span<const Measured> plugins, const rebalance::Snapshot& snapshot,
                  PlanCost& cost) {
  if (!reset_peak()) return false;
  for (const bool fixed : {false, true}) {
    const auto policy = policy_of(plugins, "{nodeFit: true}", fixed);
    if (!policy) return false;
    const Stopwatch watch;
    const rebalance::RebalancePlan plan = rebalance::rebalance(*policy, snapshot);
    (fixed ? cost.fixed_s : cost.upstream_s) = watch.cpu();
    fmt::print(stderr, "{} plugins, {}: {} evictions\n", plugins.size(),
               fixed ? "fixed" : "upstream", plan.evictions.size());
  }
  const auto peak = peak_since_reset();
  cost.peak_mib = peak.value_or(0);
  return peak.has_value();
}

// In a process of its own, so that no memory is left of another size. Writes a Size to `out`.
int run_one_size(int nodes, int out) {
  const auto snapshot = snapshot_of(nodes, nodes * kPodsPerNode);
  if (!snapshot) return 1;
  Size size;
  size.read_mib = peak_mib();
  if (!measure_both({kMeasured, 1}, *snapshot, size.low_node_utilization)) return 1;
  if (!measure_both(kMeasured, *snapshot, size.all_plugins)) return 1;
  return ::write(out, &size, sizeof size) == sizeof size ? 0 : 1;
}

// Nothing: a process failed.
std::vector<Size> measure_sizes() {
  std::vector<Size> sizes;
  for (const int nodes : kSizes) {
    int ends[2];
    if (::pipe(ends) != 0) return {};
    const pid_t child = ::fork();
    if (child == 0) ::_exit(run_one_size(nodes, ends[1]));
    ::close(ends[1]);
    Size size;
    const bool complete = ::read(ends[0], &size, sizeof size) == sizeof size;
    ::close(ends[0]);
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0 || !complete) return {};
    sizes.push_back(size);
  }
  return sizes;
}

test::SizePlot plot_of(const std::vector<Size>& sizes) {
  const auto line = [&](const char* name, const char* label, PlanCost Size::*plan,
                        double PlanCost::*value) {
    test::SizeLine out{name, label, {}};
    for (const Size& each : sizes) out.values.push_back(each.*plan.*value);
    return out;
  };
  std::vector<double> read;
  for (const Size& each : sizes) read.push_back(each.read_mib);
  constexpr auto kLow = &Size::low_node_utilization;
  constexpr auto kAll = &Size::all_plugins;
  return {
      .nodes = {std::begin(kSizes), std::end(kSizes)},
      .pods_per_node = kPodsPerNode,
      .panels = {
          {"CPU time of a plan, s",
           {line("low_upstream_s", "LowNodeUtilization as upstream", kLow, &PlanCost::upstream_s),
            line("low_fixed_s", "LowNodeUtilization, compat: fixed", kLow, &PlanCost::fixed_s),
            line("all_upstream_s", "all plugins as upstream", kAll, &PlanCost::upstream_s),
            line("all_fixed_s", "all plugins, compat: fixed", kAll, &PlanCost::fixed_s)}},
          {"Largest memory of the process, MiB",
           {{"read_mib", "while the text is read", read},
            line("low_peak_mib", "plans of LowNodeUtilization", kLow, &PlanCost::peak_mib),
            line("all_peak_mib", "plans of all plugins", kAll, &PlanCost::peak_mib)}}}};
}

int run_curve(bool plot) {
  const std::vector<Size> sizes = measure_sizes();
  if (sizes.empty()) return 1;
  const test::SizePlot measured = plot_of(sizes);
  // The figures of a plot as well, in the same run.
  if (plot) fmt::print(stderr, "{}", test::size_table(measured));
  fmt::print("{}", plot ? test::size_svg(measured) : test::size_table(measured));
  return 0;
}

int number_of(std::string_view text, int otherwise) {
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && number > 1 ? number : otherwise;
}

}  // namespace
}  // namespace forestall

int main(int argc, char** argv) {
  constexpr int kNodes = 5000;
  constexpr int kPods = 150'000;
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "curve" || what == "plot") return forestall::run_curve(what == "plot");
  const int nodes = argc > 1 ? forestall::number_of(argv[1], kNodes) : kNodes;
  const int pods = argc > 2 ? forestall::number_of(argv[2], kPods) : kPods;
  return forestall::run(nodes, pods, argc > 3 ? argv[3] : "");
}
