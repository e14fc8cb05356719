// SPDX-License-Identifier: Apache-2.0
// Scores of many idle processes: the product's results against /proc/PID/oom_score, and to
// the page against the return values of oom_badness(), which a return probe writes into the
// kernel's trace.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <sstream>
#include <thread>

#include "integration/oom_trial.h"
#include "policy/badness.h"
#include "support/temp_tree.h"
#include "support/zram_swap.h"

namespace forestall::vm {
namespace {

using test::OomForecast;
using test::ProcessForest;

constexpr const char* kTracing = "/sys/kernel/tracing/";

// Opening kprobe_events this way removes all existing probes; no other process has any.
void write_trace(const std::string& file, const std::string& text) {
  std::ofstream out(kTracing + file);
  if (!(out << text << std::flush)) throw std::runtime_error(std::string(kTracing) + file);
}

// The return values of oom_badness(), in order. On one CPU, because only there the trace keeps the
// order.
class BadnessProbe {
 public:
  BadnessProbe() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_getaffinity(0, sizeof(before_), &before_);
    sched_setaffinity(0, sizeof(one), &one);
    write_trace("kprobe_events", "r:forestall/badness oom_badness points=$retval:s64\n");
    write_trace("events/forestall/badness/enable", "1");
    std::ofstream(std::string(kTracing) + "trace") << "";
  }
  BadnessProbe(const BadnessProbe&) = delete;
  BadnessProbe& operator=(const BadnessProbe&) = delete;
  ~BadnessProbe() {
    std::ofstream(std::string(kTracing) + "events/forestall/badness/enable") << "0";
    std::ofstream(std::string(kTracing) + "kprobe_events") << "";
    sched_setaffinity(0, sizeof(before_), &before_);
  }
  [[nodiscard]] static std::vector<Pages> take() {
    std::vector<Pages> all;
    std::istringstream lines(test::read_text(std::string(kTracing) + "trace"));
    for (std::string line; std::getline(lines, line);) {
      const auto at = line.find(" points=");
      if (line.starts_with("#") || at == std::string::npos) continue;
      all.push_back(std::stoll(line.substr(at + 8)));
    }
    return all;
  }

 private:
  cpu_set_t before_{};
};

struct Scored {
  const ProcessSample* sample = nullptr;
  std::int64_t shown = 0;  // /proc/PID/oom_score
};

// The processes of the forest among all that were read, with the kernel's figures for each.
std::vector<Scored> read_scores(const ProcessForest& forest, const OomScene& scene) {
  const std::vector<pid_t> ours = forest.alive();
  std::vector<Scored> scored;
  for (const ProcessSample& each : scene.processes) {
    if (std::find(ours.begin(), ours.end(), each.id.pid) == ours.end()) continue;
    const std::string text = test::read_text(fmt::format("/proc/{}/oom_score", each.id.pid));
    scored.push_back({&each, std::stoll(text)});
  }
  return scored;
}

// Up to `slack` pages may be missing or too many.
void expect_scores(const ProcessForest& forest, OomForecast& forecast, Pages slack) {
  forecast.read_node();
  const Pages total = forecast.scene().domain.total_pages;
  const BadnessProbe probe;
  const std::vector<Scored> scored = read_scores(forest, forecast.scene());
  const std::vector<Pages> oracle = BadnessProbe::take();
  ASSERT_EQ(scored.size(), forest.alive().size());
  ASSERT_EQ(oracle.size(), scored.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const auto points = policy::badness(*scored[i].sample, total);
    const Pages exact = points.value_or(std::numeric_limits<Pages>::min());
    const auto score = policy::oom_score(points, total);
    if (exact == oracle[i] && score == scored[i].shown) continue;
    if (slack > 0 && points && std::abs(exact - oracle[i]) <= slack) continue;
    ++wrong;
    fmt::print("wrong: {} points {} oracle {}, score {} shown {}\n", scored[i].sample->id.pid,
               exact, oracle[i], score, scored[i].shown);
  }
  EXPECT_EQ(wrong, 0U) << forecast.table() << forest.text();
  fmt::print("@metric scores_compared {}\n", scored.size());
}

// The data that both paths read of the same processes.
void expect_parity(const ProcessForest& forest, OomForecast& bpf, OomForecast& proc, Pages slack) {
  bpf.read_node();
  proc.read_node();
  std::size_t compared = 0;
  std::ptrdiff_t unknown = 0;
  const std::vector<pid_t> ours = forest.alive();
  for (const ProcessSample& each : bpf.scene().processes) {
    if (std::find(ours.begin(), ours.end(), each.id.pid) == ours.end()) continue;
    const auto& others = proc.scene().processes;
    const auto same = std::find_if(others.begin(), others.end(), [&](const ProcessSample& other) {
      return other.id.pid == each.id.pid;
    });
    ASSERT_NE(same, others.end()) << each.id.pid;
    const auto at = fmt::format("process {}", each.id.pid);
    ASSERT_EQ(same->id, each.id) << at;
    // v1 lists exiting tasks in the root, and so a process whose leader has exited: its cgroup is
    // unknown, unless another one lists it.
    const bool shown = !test::mounts().v1 || same->cgroup.inode != 0;
    ASSERT_EQ(shown ? same->cgroup : each.cgroup, each.cgroup) << at;
    unknown += shown ? 0 : 1;
    ASSERT_EQ(same->oom_score_adj, each.oom_score_adj) << at;
    ASSERT_EQ(same->uid, each.uid) << at;
    ASSERT_EQ(same->unkillable, each.unkillable) << at;
    ASSERT_LE(std::abs(same->memory.total() - each.memory.total()), slack) << at;
    if (slack == 0) {
      ASSERT_EQ(same->memory, each.memory) << at;
    }
    ++compared;
  }
  EXPECT_EQ(compared, ours.size());
  const auto& made = forest.processes();
  EXPECT_LE(unknown, std::count_if(made.begin(), made.end(), [](const test::ForestProcess& each) {
              return each.leader_gone;
            }));
}

void expect_all(const ProcessForest& forest, OomForecast& bpf, OomForecast& proc) {
  // Where the kernel scores by approximate counters, /proc may show exact ones (since 6.17, and in
  // stable updates of older kernels): four counters, each off by less than a batch of 32 per CPU.
  const auto cpus = static_cast<Pages>(std::thread::hardware_concurrency());
  const Pages slack = bpf.scores_by_proc_figures() ? 0 : 4 * 32 * cpus;
  expect_scores(forest, bpf, 0);
  expect_scores(forest, proc, slack);
  expect_parity(forest, bpf, proc, slack);
}

test::ForestShape many() {
  test::ForestShape shape;
  shape.seed = std::random_device{}();
  shape.processes = 200;
  shape.most_pages = 192;
  fmt::print("seed {}\n", shape.seed);
  return shape;
}

TEST(Score, IsTheKernelsToThePage) {
  const test::KernelSetting hasty("/sys/kernel/rcu_expedited", "1");
  const ProcessForest forest(many());
  OomForecast bpf(OomForecast::Path::bpf), proc(OomForecast::Path::proc);
  fmt::print("the kernel scores by what is {}\n", bpf.counting());
  expect_all(forest, bpf, proc);
}

TEST(Score, IsTheKernelsWithSwapToo) {
  const test::KernelSetting hasty("/sys/kernel/rcu_expedited", "1");
  const test::ZramSwap swap(mib(128));
  ProcessForest forest(many());
  OomForecast bpf(OomForecast::Path::bpf), proc(OomForecast::Path::proc);
  // A limit under the usage, with swap available.
  const Bytes usage = forest.groups().usage(forest.root());
  forest.groups().limit(forest.root(), usage - mib(64));
  ASSERT_TRUE(forest.ended().empty());
  bpf.read_node();
  Pages swapped = 0;
  for (const ProcessSample& each : bpf.scene().processes) swapped += each.memory.swap;
  EXPECT_GT(swapped, 4096);
  fmt::print("@metric swapped_pages {}\n", swapped);
  expect_all(forest, bpf, proc);
}

}  // namespace
}  // namespace forestall::vm
