// SPDX-License-Identifier: Apache-2.0
// Gives the "go", and samples the node before and after it.
//
//   bench_sample LEAD_MS LAST_MS SETTLE_MS OUTPUT LIMITED [LIVE...]
//
// A row every 5 ms, every 1 ms near an agent's line and for a while after, from LEAD_MS before "go"
// to LAST_MS after it, or to SETTLE_MS after the last of the files LIVE is gone, whichever is
// first. The rows stay in memory until then, so that nothing is written while the node is short of
// it. One row: time in us, then MemFree, MemAvailable, SwapFree, kubelet's available (MemTotal less
// the working set), all in KiB, then the kernel's count of OOM kills, the microseconds all tasks
// were stalled on memory (PSI full), and in KiB how far the working set of the cgroup LIMITED is
// from its limit (-1 if LIMITED is "-").
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "load.h"
#include "text_file.h"

namespace forestall::bench {
namespace {

constexpr std::int64_t kTickUs = 1'000;
constexpr std::int64_t kTicksPerRow = 5;
constexpr std::int64_t kTicksPerSample = 100;  // PSI and the pods, which need no finer time
// Lines are at 100 MiB, or at a few percent of a small node: near them every tick is a row.
constexpr std::int64_t kNearFrom = 85 * 1024, kNearTo = 130 * 1024;  // KiB
constexpr std::int64_t kNearLimit = 40 * 1024;                       // KiB, of a cgroup's own
// The kill and the release follow within this time; the rows show them, too.
constexpr std::int64_t kNearForUs = 100'000;
constexpr std::int64_t kNoLimit = -1;

struct Row {
  std::int64_t at_us, free, available, swap_free, kubelet_available, oom_kills, full_us, limit_left;
};

// How far a cgroup is from its own limit, as kubelet counts.
class Limit {
 public:
  explicit Limit(const std::string& cgroup)
      : limit_(std::atoll(read_file(cgroup + "/memory.max").c_str())),
        usage_((cgroup + "/memory.current").c_str()),
        stat_((cgroup + "/memory.stat").c_str()) {}

  std::int64_t left_kib() {
    if (limit_ == 0) return kNoLimit;
    const auto usage = std::atoll(std::string(usage_.read()).c_str());
    const auto inactive = number_after(stat_.read(), "inactive_file");
    return std::max<std::int64_t>(limit_ - std::max<std::int64_t>(usage - inactive, 0), 0) / 1024;
  }

 private:
  std::int64_t limit_;  // bytes; 0: there is no such cgroup, or it has none
  HeldText usage_, stat_;
};

class Sampler {
 public:
  Sampler(std::size_t rows, const std::string& limited) : rows_(rows), limit_(limited) {}

  void sample() {
    if (count_ == rows_.size()) return;
    Row& row = rows_[count_];
    row.at_us = monotonic_us();
    const auto meminfo = meminfo_.read();
    row.free = number_after(meminfo, "MemFree");
    row.available = number_after(meminfo, "MemAvailable");
    row.swap_free = number_after(meminfo, "SwapFree");
    const auto total = number_after(meminfo, "MemTotal");
    const auto vmstat = vmstat_.read();
    const auto pages = number_after(vmstat, "nr_anon_pages ") +
                       number_after(vmstat, "nr_file_pages ") -
                       number_after(vmstat, "nr_inactive_file ");
    row.kubelet_available = total - pages * 4;
    row.oom_kills = number_after(vmstat, "oom_kill ");
    row.full_us = full_us_;
    row.limit_left = limit_.left_kib();
    ++count_;
    const auto near = [](std::int64_t kib) { return kib >= kNearFrom && kib < kNearTo; };
    const bool own = row.limit_left != kNoLimit && row.limit_left < kNearLimit;
    if (own || near(row.available) || near(row.available + row.swap_free) ||
        near(row.kubelet_available)) {
      near_until_us_ = row.at_us + kNearForUs;
    }
  }

  bool near_a_line() const { return count_ != 0 && rows_[count_ - 1].at_us < near_until_us_; }

  // PSI's second line: "full avg10=0.00 avg60=0.00 avg300=0.00 total=0".
  void sample_pressure() {
    const auto text = pressure_.read();
    const auto full = text.find("full ");
    const auto total = full == text.npos ? full : text.find("total=", full);
    if (total != text.npos) full_us_ = std::atoll(text.data() + total + 6);
  }

  void write(const char* path) {
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr) fail(path);
    for (std::size_t i = 0; i < count_; ++i) {
      const Row& row = rows_[i];
      std::fprintf(file, "%lld %lld %lld %lld %lld %lld %lld %lld\n",
                   static_cast<long long>(row.at_us), static_cast<long long>(row.free),
                   static_cast<long long>(row.available), static_cast<long long>(row.swap_free),
                   static_cast<long long>(row.kubelet_available),
                   static_cast<long long>(row.oom_kills), static_cast<long long>(row.full_us),
                   static_cast<long long>(row.limit_left));
    }
    std::fclose(file);
  }

 private:
  std::vector<Row> rows_;
  std::size_t count_ = 0;
  std::int64_t full_us_ = 0, near_until_us_ = 0;
  Limit limit_;
  HeldText meminfo_{"/proc/meminfo"}, vmstat_{"/proc/vmstat"}, pressure_{"/proc/pressure/memory"};
};

// Before all other processes, and without waiting for memory.
void come_first() {
  const sched_param priority{.sched_priority = 60};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) fail("SCHED_FIFO");
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) fail("mlockall");
  if (!write_file("/proc/self/oom_score_adj", "-1000")) fail("oom_score_adj");
}

bool any_lives(const std::vector<const char*>& live) {
  for (const char* each : live) {
    if (access(each, F_OK) == 0) return true;
  }
  return live.empty();
}

// The pods wait for this open for writing; without any pod it would block.
std::int64_t say_go() {
  const std::int64_t now = monotonic_us();
  open(kGoFifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  return now;
}

int run(std::int64_t lead_ms, std::int64_t last_ms, std::int64_t settle_ms, const char* output,
        const char* limited, const std::vector<const char*>& live) {
  Sampler sampler(static_cast<std::size_t>((lead_ms + last_ms) * 1000 / kTickUs + 1000), limited);
  come_first();
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const timespec period{.tv_sec = 0, .tv_nsec = kTickUs * 1000};
  const itimerspec every{.it_interval = period, .it_value = period};
  if (timer < 0 || timerfd_settime(timer, 0, &every, nullptr) != 0) fail("timerfd");
  const std::int64_t begun = monotonic_us();
  std::int64_t go = 0, gone = 0;
  for (std::int64_t tick = 0;;) {
    std::uint64_t expired = 0;
    if (read(timer, &expired, sizeof expired) != sizeof expired) fail("timerfd");
    const std::int64_t before = std::exchange(tick, tick + static_cast<std::int64_t>(expired));
    const auto due = [&](std::int64_t ticks) { return before / ticks != tick / ticks; };
    if (due(kTicksPerSample)) sampler.sample_pressure();
    if (due(kTicksPerRow) || sampler.near_a_line()) sampler.sample();
    const std::int64_t now = monotonic_us();
    if (go == 0 && now - begun >= lead_ms * 1000) go = say_go();
    if (go == 0) continue;
    if (due(kTicksPerSample) && gone == 0 && !any_lives(live)) gone = now;
    if (now - go >= last_ms * 1000 || (gone != 0 && now - gone >= settle_ms * 1000)) break;
  }
  sampler.sample_pressure();
  sampler.sample();
  const std::int64_t end = monotonic_us();
  sampler.write(output);
  std::printf("go %lld\nend %lld\n", static_cast<long long>(go), static_cast<long long>(end));
  return 0;
}

}  // namespace
}  // namespace forestall::bench

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: bench_sample LEAD_MS LAST_MS SETTLE_MS OUTPUT LIMITED [LIVE...]\n", stderr);
    return 2;
  }
  return forestall::bench::run(std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]),
                               argv[4], argv[5], {argv + 6, argv + argc});
}
