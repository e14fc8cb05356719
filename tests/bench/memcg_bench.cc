// SPDX-License-Identifier: Apache-2.0
// Cost of reading the memory of every cgroup: one pass in the kernel against the files of each, as
// the agent reads them (usage, memory.stat, processes), on held descriptors.
//
//   memcg_bench [CGROUPS]     default: 1,000; also a tenth and a quarter
//
// Prints the CPU time of the fastest of several runs, in alternation, so that other load affects
// both; `+anon`: with anonymous and shared memory besides. Compare the columns of one run only.
// Fails if the pass is less than 20 times faster.
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/parse.h"
#include "kernel/memcg_scan.h"
#include "sources/held_workload.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr int kRuns = 9;
constexpr double kLeastRatio = 20;

// CPU time of this thread, which does all the work.
double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Cgroups with one process each.
class Cgroups {
 public:
  Cgroups() : tree_(kernel::CgroupTree::discover().value()) {
    // Three to five descriptors for each cgroup.
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("RLIMIT_NOFILE");
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("RLIMIT_NOFILE");
  }

  void grow_to(std::size_t count) {
    while (readers_.size() < count) {
      const std::string path = scratch_.child("w" + std::to_string(readers_.size()));
      processes_.emplace_back([&] {
        scratch_.add(path, getpid());
        for (;;) pause();
        return 0;
      });
      while (scratch_.processes(path).empty()) {
      }
      auto opened = sources::open_readers(tree_, path);
      if (!opened.ok()) throw std::runtime_error(opened.error().text());
      readers_.push_back(std::move(*opened));
    }
  }

  // Sum of what was read, for the comparison.
  Bytes read_files() {
    Bytes sum{0};
    std::vector<SourceNote> notes;
    for (auto& reader : readers_) {
      const auto reading = reader.cgroup.read(buffer_, notes);
      const auto processes = reader.processes.count(reader.cgroup.cgroup(), buffer_);
      if (!reading.usage || !reading.inactive_file || !processes.ok() || *processes != 1)
        throw std::runtime_error("a cgroup could not be read");
      sum = sum + *reading.usage - *reading.inactive_file;
    }
    return sum;
  }

  Bytes read_pass(kernel::MemcgScan& scan, bool counters) {
    const auto done = scan.scan({counters});
    if (!done.ok()) throw std::runtime_error(done.error().text());
    Bytes sum{0};
    for (const auto& reader : readers_) {
      const auto* found = scan.find(reader.cgroup.cgroup().id());
      if (found == nullptr || found->processes != 1U || !found->inactive_file)
        throw std::runtime_error("a cgroup is not in the pass");
      sum = sum + found->usage - *found->inactive_file;
    }
    return sum;
  }

 private:
  kernel::CgroupTree tree_;
  ScratchCgroup scratch_;
  std::deque<Child> processes_;
  std::deque<sources::WorkloadReaders> readers_;
  std::string buffer_ = std::string(std::size_t{64} << 10, '\0');
};

struct MemcgCost {
  double pass_us = 0, counters_us = 0, files_us = 0;
};

MemcgCost measure(Cgroups& cgroups, kernel::MemcgScan& scan) {
  const auto timed = [](const auto& work) {
    const double before = cpu_us();
    work();
    return cpu_us() - before;
  };
  std::array<double, kRuns> passes{}, counters{}, files{};
  for (std::size_t i = 0; i < kRuns; ++i) {
    passes[i] = timed([&] { cgroups.read_pass(scan, false); });
    counters[i] = timed([&] { cgroups.read_pass(scan, true); });
    files[i] = timed([&] { cgroups.read_files(); });
  }
  return {std::ranges::min(passes), std::ranges::min(counters), std::ranges::min(files)};
}

int run(std::size_t most) {
  auto scan = kernel::MemcgScan::load();
  if (!scan.ok()) {
    std::cerr << scan.error().text() << '\n';
    return 1;
  }
  std::cout << (*scan)->evidence() << '\n';
  Cgroups cgroups;
  std::printf("%10s %10s %12s %12s %12s %10s %8s\n", "cgroups", "in pass", "pass us", "+anon us",
              "files us", "us/cgroup", "ratio");
  MemcgCost cost;
  for (const std::size_t count : {most / 10, most / 4, most}) {
    cgroups.grow_to(count);
    cost = measure(cgroups, **scan);
    const std::size_t all = (*scan)->all().size();
    std::printf("%10zu %10zu %12.0f %12.0f %12.0f %10.3f %8.1f\n", count, all, cost.pass_us,
                cost.counters_us, cost.files_us, cost.pass_us / static_cast<double>(all),
                cost.files_us / cost.pass_us);
    std::fflush(stdout);
  }
  const double ratio = cost.files_us / cost.pass_us;
  std::printf("@metric memcg_pass_us %.0f us\n@metric memcg_ratio %.1f\n", cost.pass_us, ratio);
  return ratio < kLeastRatio ? 1 : 0;
}

}  // namespace
}  // namespace forestall::test

int main(int argc, char** argv) {
  const auto most = forestall::parse_u64(argc > 1 ? argv[1] : "1000");
  if (!most || *most < 10 || *most > 10'000) {
    std::cerr << "memcg_bench [CGROUPS]\n";
    return 2;
  }
  return forestall::test::run(*most);
}
