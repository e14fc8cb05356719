// SPDX-License-Identifier: Apache-2.0
// rebalance_files_bench FORESTALL [plot]: `forestall rebalance -o json` from files to the printed
// plan, against the size of the cluster, with 30 pods a node: time and the peak of the process.
// Prints a table; with `plot` an SVG, and the table to standard error. The file is indented as
// `kubectl get -o json` prints it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rebalance_cluster.h"

namespace forestall {
namespace {

constexpr int kSizes[] = {250, 500, 1000, 2000, 4000, 5000};
constexpr int kPodsPerNode = 30;

// All plugins that find something to do in the generated cluster, apart from PodLifeTime, which
// would evict every pod.
constexpr const char* kPolicy = R"(
profiles:
- name: p
  pluginConfig:
  - {name: DefaultEvictor, args: {nodeFit: true}}
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 40, memory: 40},
                                      targetThresholds: {cpu: 60, memory: 60}}}
  - {name: RemoveDuplicates}
  - {name: RemovePodsViolatingTopologySpreadConstraint}
  - {name: RemovePodsHavingTooManyRestarts, args: {podRestartThreshold: 40}}
  plugins:
    balance: {enabled: [LowNodeUtilization, RemoveDuplicates,
                        RemovePodsViolatingTopologySpreadConstraint]}
    deschedule: {enabled: [RemovePodsHavingTooManyRestarts]}
)";

// Four spaces a level. REQUIRES: valid JSON.
class Indenter {
 public:
  explicit Indenter(std::ofstream& out) : out_(out) {}

  void write(std::string_view json) {
    for (const char each : json) put(each);
    out_ << '\n';
  }

 private:
  void put(char each) {
    if (in_text_) {
      out_ << each;
      if (each == '"' && !escaped_) in_text_ = false;
      escaped_ = each == '\\' && !escaped_;
      return;
    }
    switch (each) {
      case ' ':
      case '\n': break;
      case '{':
      case '[':
        out_ << each;
        ++level_;
        end_line();
        break;
      case '}':
      case ']':
        --level_;
        end_line();
        out_ << each;
        break;
      case ',':
        out_ << each;
        end_line();
        break;
      case ':': out_ << ": "; break;
      default: out_ << each; in_text_ = each == '"';
    }
  }
  void end_line() {
    constexpr std::size_t kSpaces = 4;
    out_ << '\n' << std::string(level_ * kSpaces, ' ');
  }

  std::ofstream& out_;
  std::size_t level_ = 0;
  bool in_text_ = false;
  bool escaped_ = false;
};

struct Cost {
  double wall_s = 0;
  double cpu_s = 0;
  double peak_mib = 0;
};

double seconds_of(const timeval& time) {
  constexpr double kMicro = 1e-6;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * kMicro;
}

// Nothing: the program failed.
std::optional<Cost> run_forestall(const std::string& program, const std::string& policy,
                                  const std::string& cluster, const char* compat) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || ::dup2(nowhere, STDOUT_FILENO) < 0) ::_exit(1);
    ::execl(program.c_str(), program.c_str(), "rebalance", "--policy-config-file", policy.c_str(),
            "--cluster", cluster.c_str(), "--now", "2026-01-01T12:00:00Z", "--compat", compat, "-o",
            "json", static_cast<char*>(nullptr));
    ::_exit(1);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child || status != 0) return std::nullopt;
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return Cost{wall.count(), seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
              static_cast<double>(usage.ru_maxrss) / 1024};
}

struct Row {
  int nodes = 0;
  double file_mib = 0;
  Cost upstream;
  Cost fixed;
};

// Nothing: a run failed, which the program has reported.
std::optional<Row> measure(const std::string& program, const std::filesystem::path& folder,
                           int nodes) {
  const std::filesystem::path policy = folder / "policy.yaml";
  const std::filesystem::path cluster = folder / "cluster.json";
  {
    std::ofstream(policy) << kPolicy;
    std::ofstream out(cluster);
    Indenter(out).write(test::cluster_json(nodes, nodes * kPodsPerNode));
    if (!out.flush()) return std::nullopt;
  }
  const auto upstream = run_forestall(program, policy, cluster, "upstream");
  const auto fixed = run_forestall(program, policy, cluster, "fixed");
  if (!upstream || !fixed) return std::nullopt;
  constexpr double kMib = 1 << 20;
  return Row{nodes, static_cast<double>(std::filesystem::file_size(cluster)) / kMib, *upstream,
             *fixed};
}

void print_table(std::FILE* out, const std::vector<Row>& rows) {
  fmt::print(
      out,
      "nodes\tpods\tfile_mib\tupstream_wall_s\tupstream_cpu_s\tupstream_peak_mib\tfixed_wall_s\t"
      "fixed_cpu_s\tfixed_peak_mib\n");
  for (const Row& each : rows) {
    fmt::print(out, "{}\t{}\t{:.0f}\t{:.2f}\t{:.2f}\t{:.0f}\t{:.2f}\t{:.2f}\t{:.0f}\n", each.nodes,
               each.nodes * kPodsPerNode, each.file_mib, each.upstream.wall_s, each.upstream.cpu_s,
               each.upstream.peak_mib, each.fixed.wall_s, each.fixed.cpu_s, each.fixed.peak_mib);
  }
}

struct Line {
  const char* label;
  const char* color;
  double Cost::*value;
  Cost Row::*of;
};

// A panel with axes from zero, and a line at the limit.
class Panel {
 public:
  Panel(const std::vector<Row>& rows, int left, const char* title, double limit)
      : rows_(rows), left_(left), title_(title), limit_(limit) {}

  void print(const std::vector<Line>& lines) {
    constexpr double kAboveLimit = 1.2;
    most_ = kAboveLimit * limit_;
    for (const Line& each : lines) {
      for (const Row& row : rows_) most_ = std::max(most_, row.*each.of.*each.value);
    }
    constexpr int kTicks = 4;
    constexpr int kKey = 18;
    fmt::print("<text x=\"{}\" y=\"24\" font-weight=\"bold\">{}</text>\n", left_, title_);
    for (int i = 0; i <= kTicks; ++i) {
      const double value = most_ * i / kTicks;
      fmt::print(
          "<path d=\"M{0} {1:.1f}H{2}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
          "text-anchor=\"end\">{5:.0f}</text>\n",
          left_, y_of(value), left_ + kWidth, left_ - 6, y_of(value) + 4, value);
    }
    for (const Row& each : rows_) {
      fmt::print("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\">{}</text>\n",
                 x_of(each.nodes), kBottom + 18,
                 each.nodes < 1000 ? "" : std::to_string(each.nodes));
    }
    fmt::print("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">nodes, with 30 pods each</text>\n",
               left_ + kWidth, kBottom + 38);
    fmt::print(
        "<path d=\"M{0} {1:.1f}H{2}\" stroke=\"#d62728\" stroke-dasharray=\"6 4\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" fill=\"#d62728\">limit</text>\n",
        left_, y_of(limit_), left_ + kWidth, left_ + 4, y_of(limit_) - 5);
    int row = 0;
    for (const Line& each : lines) {
      fmt::print("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"{}\" points=\"", each.color);
      for (const Row& point : rows_) {
        fmt::print("{:.1f},{:.1f} ", x_of(point.nodes), y_of(point.*each.of.*each.value));
      }
      fmt::print("\"/>\n<text x=\"{}\" y=\"{}\" fill=\"{}\">{}: {:.1f} at the right end</text>\n",
                 left_, kBottom + 40 + kKey * ++row, each.color, each.label,
                 rows_.back().*each.of.*each.value);
    }
  }

 private:
  static constexpr int kWidth = 380;
  static constexpr int kTop = 44;
  static constexpr int kBottom = 320;

  [[nodiscard]] double x_of(int nodes) const {
    return left_ + static_cast<double>(kWidth) * nodes / rows_.back().nodes;
  }
  [[nodiscard]] double y_of(double value) const {
    return kBottom - (kBottom - kTop) * value / most_;
  }

  const std::vector<Row>& rows_;
  const int left_;
  const char* const title_;
  const double limit_;
  double most_ = 0;
};

void print_plot(const std::vector<Row>& rows) {
  constexpr const char* kBlue = "#1f77b4";
  constexpr const char* kGreen = "#2ca02c";
  fmt::print(R"(<svg xmlns="http://www.w3.org/2000/svg" width="920" height="430" )"
             R"(font-family="sans-serif" font-size="13"><rect width="920" height="430" )"
             R"(fill="white"/>)"
             "\n");
  Panel(rows, 50, "From files to the printed plan, s", 10)
      .print({{"upstream, wall", kBlue, &Cost::wall_s, &Row::upstream},
              {"fixed, wall", kGreen, &Cost::wall_s, &Row::fixed},
              {"fixed, CPU", "#8c8c8c", &Cost::cpu_s, &Row::fixed}});
  Panel(rows, 510, "Peak of the process, MiB", 2048)
      .print({{"upstream", kBlue, &Cost::peak_mib, &Row::upstream},
              {"fixed", kGreen, &Cost::peak_mib, &Row::fixed}});
  fmt::print("</svg>\n");
}

int run(const std::string& program, bool plot) {
  std::string name = (std::filesystem::temp_directory_path() / "rebalance-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return 1;
  const std::filesystem::path folder = name;
  std::vector<Row> rows;
  for (const int nodes : kSizes) {
    const auto row = measure(program, folder, nodes);
    if (!row) break;
    rows.push_back(*row);
  }
  std::filesystem::remove_all(folder);
  if (rows.size() < std::size(kSizes)) return 1;
  print_table(plot ? stderr : stdout, rows);
  if (plot) print_plot(rows);
  return 0;
}

}  // namespace
}  // namespace forestall

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: rebalance_files_bench FORESTALL [plot]\n");
    return 2;
  }
  return forestall::run(argv[1], argc > 2 && std::string_view(argv[2]) == "plot");
}
