// SPDX-License-Identifier: Apache-2.0
// Cost of reading every process: the walk in the kernel against the same data from /proc (status,
// statm, oom_score_adj, cgroup), for sleeping processes in a scratch cgroup.
//
//   scan_bench [PROCESSES]     default: 10,000; also a tenth, a quarter and a half
//
// Prints the CPU time of the fastest of several runs, in alternation, so that other load affects
// both. Compare the columns of one run only. The last line shows how far the time per process
// deviates from that of all processes: the walk is linear.
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <vector>

#include "base/parse.h"
#include "bench/signalled_child.h"
#include "kernel/task_scan.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr int kRuns = 7;
constexpr Pages kTotalPages = 1 << 20;  // the total does not matter here

// Forks sleeping processes on command and reports each command's end. They end with it.
class Nursery {
 public:
  explicit Nursery(ScratchCgroup& scratch) : child_(fork_sleepers) {
    scratch.add(scratch.child("sleepers"), child_.pid());
  }
  void fork_more(int count) const { child_.report(count); }

 private:
  static std::optional<int> fork_sleepers(int count) {
    const pid_t self = getpid();
    for (int i = 0; i < count; ++i) {
      const pid_t pid = fork();
      if (pid < 0) return std::nullopt;
      if (pid > 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != self) _exit(0);
      for (;;) pause();
    }
    return count;
  }

  SignalledChild<int, int> child_;
};

// Reads every process of /proc without parsing, which would only add time.
int read_proc() {
  constexpr std::array kFiles{"status", "statm", "oom_score_adj", "cgroup"};
  std::array<char, 8192> text{};
  DIR* proc = opendir("/proc");
  if (proc == nullptr) throw std::runtime_error("/proc");
  int processes = 0;
  while (const dirent* entry = readdir(proc)) {
    if (!parse_u64(entry->d_name)) continue;
    const int directory = openat(dirfd(proc), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) continue;
    for (const char* name : kFiles) {
      const int file = openat(directory, name, O_RDONLY | O_CLOEXEC);
      if (file < 0) continue;
      while (read(file, text.data(), text.size()) > 0) {
      }
      close(file);
    }
    close(directory);
    ++processes;
  }
  closedir(proc);
  return processes;
}

struct Cost {
  int processes = 0;
  double scan_us = 0;
  double sum_us = 0;  // with sums over CPUs besides
  double proc_us = 0;
};

// CPU time of this thread, which does all the work.
double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

Cost measure(kernel::TaskScan& scan) {
  Cost cost;
  const auto timed = [](const auto& work) {
    const double before = cpu_us();
    work();
    return cpu_us() - before;
  };
  const auto walk = [&](bool both_ways) {
    cost.processes = 0;
    const auto done = scan.visit({std::nullopt, kTotalPages, both_ways},
                                 [&](const abi_task&) { ++cost.processes; });
    if (!done.ok()) throw std::runtime_error(done.error().text());
  };
  std::array<double, kRuns> scans{}, sums{}, procs{};
  for (std::size_t i = 0; i < kRuns; ++i) {
    scans[i] = timed([&] { walk(false); });
    sums[i] = timed([&] { walk(true); });
    procs[i] = timed([] { read_proc(); });
  }
  cost.scan_us = std::ranges::min(scans);
  cost.sum_us = std::ranges::min(sums);
  cost.proc_us = std::ranges::min(procs);
  return cost;
}

int run(int most) {
  auto scan = kernel::TaskScan::load();
  if (!scan.ok()) {
    std::cerr << scan.error().text() << '\n';
    return 1;
  }
  ScratchCgroup scratch;
  const Nursery nursery(scratch);
  std::printf("%10s %12s %12s %12s %10s %8s\n", "processes", "bpf us", "+sums us", "/proc us",
              "us/process", "ratio");
  std::vector<Cost> costs;
  int forked = 0;
  for (const int count : {most / 10, most / 4, most / 2, most}) {
    nursery.fork_more(count - forked);
    forked = count;
    const Cost cost = measure(**scan);
    std::printf("%10d %12.0f %12.0f %12.0f %10.3f %8.1f\n", cost.processes, cost.scan_us,
                cost.sum_us, cost.proc_us, cost.scan_us / cost.processes,
                cost.proc_us / cost.scan_us);
    std::fflush(stdout);
    costs.push_back(cost);
  }
  double worst = 0;
  const double whole = costs.back().scan_us / costs.back().processes;
  for (const Cost& cost : costs) {
    worst = std::max(worst, std::abs(cost.scan_us / cost.processes / whole - 1));
  }
  std::printf("@metric scan_ratio %.1f\n@metric scan_us_per_process %.3f\n",
              costs.back().proc_us / costs.back().scan_us, whole);
  std::printf("@metric scan_stray_from_linear %.0f %%\n", worst * 100);
  return 0;
}

}  // namespace
}  // namespace forestall::test

int main(int argc, char** argv) {
  const auto most = forestall::parse_u64(argc > 1 ? argv[1] : "10000");
  if (!most || *most < 10 || *most > 1'000'000) {
    std::cerr << "scan_bench [PROCESSES]\n";
    return 2;
  }
  return forestall::test::run(static_cast<int>(*most));
}
