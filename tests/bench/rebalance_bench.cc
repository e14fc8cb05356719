// SPDX-License-Identifier: Apache-2.0
// rebalance_bench [NODES] [PODS] [PLUGIN]: time and memory of the rebalancer on a generated
// cluster, from files to plans, as upstream and with all corrections. Default: 5,000 nodes, 150,000
// pods, and each plugin, then all in one plan. PLUGIN `all`: only that plan. rebalance_bench curve:
// LowNodeUtilization and the largest process against the size of the cluster, with 30 pods a node,
// as tab-separated values.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
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

struct Size {
  int nodes = 0;
  int pods = 0;
  double upstream_s = 0;  // CPU time of a plan
  std::size_t upstream_evictions = 0;
  double fixed_s = 0;
  std::size_t fixed_evictions = 0;
  double peak_mib = 0;
};

// In a process of its own, because the peak of a process does not fall. Writes a Size to `out`.
int run_one_size(int nodes, int out) {
  constexpr int kPodsPerNode = 30;
  const auto snapshot = snapshot_of(nodes, nodes * kPodsPerNode);
  if (!snapshot) return 1;
  Size size{.nodes = nodes, .pods = nodes * kPodsPerNode};
  for (const bool fixed : {false, true}) {
    const auto policy = policy_of({kMeasured, 1}, "{nodeFit: true}", fixed);
    if (!policy) return 1;
    const Stopwatch watch;
    const rebalance::RebalancePlan plan = rebalance::rebalance(*policy, *snapshot);
    (fixed ? size.fixed_s : size.upstream_s) = watch.cpu();
    (fixed ? size.fixed_evictions : size.upstream_evictions) = plan.evictions.size();
  }
  size.peak_mib = peak_mib();
  return ::write(out, &size, sizeof size) == sizeof size ? 0 : 1;
}

// Nothing: a process failed.
std::vector<Size> measure_sizes() {
  std::vector<Size> sizes;
  for (const int nodes : {250, 500, 1000, 2000, 4000, 5000}) {
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

void print_table(const std::vector<Size>& sizes) {
  fmt::print("nodes\tpods\tupstream_s\tupstream_evictions\tfixed_s\tfixed_evictions\tpeak_mib\n");
  for (const Size& each : sizes) {
    fmt::print("{}\t{}\t{:.3f}\t{}\t{:.3f}\t{}\t{:.0f}\n", each.nodes, each.pods, each.upstream_s,
               each.upstream_evictions, each.fixed_s, each.fixed_evictions, each.peak_mib);
  }
}

// One line against the nodes, scaled to its own maximum, which its label has.
void print_line(const std::vector<Size>& sizes, double Size::*value, const char* label,
                const char* color, int row) {
  constexpr double kLeft = 40;
  constexpr double kWidth = 560;
  constexpr double kBottom = 340;
  constexpr double kHeight = 260;
  constexpr int kRow = 18;
  const double most = sizes.back().*value;
  fmt::print(R"(<polyline fill="none" stroke="{}" stroke-width="2" points=")", color);
  for (const Size& each : sizes) {
    fmt::print("{:.1f},{:.1f} ", kLeft + kWidth * each.nodes / sizes.back().nodes,
               kBottom - kHeight * each.*value / most);
  }
  fmt::print("\"/>\n<text x=\"50\" y=\"{}\" fill=\"{}\">{}: {:.2f} at the right end</text>\n",
             kRow * (row + 1), color, label, most);
}

void print_plot(const std::vector<Size>& sizes) {
  fmt::print(R"(<svg xmlns="http://www.w3.org/2000/svg" width="640" height="380" )"
             R"(font-family="sans-serif" font-size="13"><rect width="640" height="380" )"
             R"(fill="white"/><path d="M40 80V340H600" fill="none" stroke="gray"/>)"
             "\n");
  print_line(sizes, &Size::upstream_s, "LowNodeUtilization as upstream, CPU s", "#1f77b4", 0);
  print_line(sizes, &Size::fixed_s, "with all corrections, CPU s", "#d62728", 1);
  print_line(sizes, &Size::peak_mib, "largest process with the text, MiB", "#2ca02c", 2);
  fmt::print("<text x=\"600\" y=\"360\" text-anchor=\"end\">{} nodes, {} pods</text></svg>\n",
             sizes.back().nodes, sizes.back().pods);
}

int run_curve(bool plot) {
  const std::vector<Size> sizes = measure_sizes();
  if (sizes.empty()) return 1;
  plot ? print_plot(sizes) : print_table(sizes);
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
