// SPDX-License-Identifier: Apache-2.0
// Bursts of memory at random moments, while a tenant disturbs what the agent reads: it makes and
// removes cgroups 20 times a second, renames one (cgroup v1), sets xattrs, reads memory.stat
// without a pause, and keeps every CPU busy. No burst may reach the kernel's OOM killer or cost
// another workload. FORESTALL_BURSTS is the number of bursts, FORESTALL_SEED repeats their phases.
//
// From the crossing to SIGKILL is printed, by two witnesses that are independent of the agent:
// a sampler of usage and the kernel's trace of signals.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <random>

#include "support/agent_run.h"
#include "support/child.h"
#include "support/kill_trace.h"
#include "support/scratch_cgroup.h"
#include "usage_sampler.h"

namespace forestall::test {
namespace {

constexpr Bytes kBurstRoom = mib(256);
constexpr Bytes kBurstThreshold = mib(64);
constexpr double kSlowMs = 5;
constexpr Duration kPhaseMax = std::chrono::milliseconds(200);

int burst_setting(const char* variable, int otherwise) {
  const char* set = std::getenv(variable);
  return set != nullptr ? std::atoi(set) : otherwise;
}

// Waits for a time, which is the phase of a burst.
void pass(Duration time) {
  const UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec once{{0, 0}, {0, static_cast<long>(std::max<std::int64_t>(time.count(), 1))}};
  std::uint64_t turns = 0;
  ASSERT_EQ(::timerfd_settime(timer.get(), 0, &once, nullptr), 0);
  ASSERT_EQ(::read(timer.get(), &turns, sizeof turns), static_cast<ssize_t>(sizeof turns));
}

// The tenant's processes, each in its own cgroup below the watched one.
class Disturbance {
 public:
  explicit Disturbance(ScratchCgroup& scratch) : scratch_(scratch) {
    home_ = scratch.directory(scratch.child("tenant"));
    start([this] { return churn(); });
    start([this] { return name(); });
    for (int i = 0; i < 2; ++i) start([this] { return read_stat(); });
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) start(spin);
  }
  ~Disturbance() {
    processes_.clear();
    for (const char* left : {"/churn-0", "/churn-1", "/named", "/renamed"}) {
      ::rmdir((scratch_.directory(scratch_.path()) + left).c_str());
    }
  }

 private:
  void start(const std::function<int()>& body) {
    processes_.emplace_back([this, body] {
      scratch_.add(scratch_.path() + "/tenant", getpid());
      return body();
    });
  }
  static int spin() {
    for (volatile unsigned turns = 0;;) turns = turns + 1;
  }
  [[nodiscard]] int churn() const {
    const UniqueFd pace(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    const timespec each{0, 50'000'000};
    const itimerspec periodic{each, each};
    if (::timerfd_settime(pace.get(), 0, &periodic, nullptr) != 0) return 1;
    for (unsigned i = 0;; ++i) {
      const std::string path =
          fmt::format("{}/churn-{}", scratch_.directory(scratch_.path()), i % 2);
      ::mkdir(path.c_str(), 0755);
      std::uint64_t turns = 0;
      if (::read(pace.get(), &turns, sizeof turns) != sizeof turns) return 1;
      ::rmdir(path.c_str());
    }
  }
  // Names: xattrs, and on cgroup v1 the cgroup's own.
  [[nodiscard]] int name() const {
    const std::string one = scratch_.directory(scratch_.path()) + "/named";
    const std::string other = scratch_.directory(scratch_.path()) + "/renamed";
    ::mkdir(one.c_str(), 0755);
    const std::string value(1000, 'x');
    for (;;) {
      ::setxattr(home_.c_str(), "user.x", value.data(), value.size(), 0);
      ::setxattr(home_.c_str(), "trusted.x", value.data(), value.size(), 0);
      ::rename(one.c_str(), other.c_str());
      ::rename(other.c_str(), one.c_str());
    }
  }
  // Allocates nothing: a sanitizer keeps what was freed, and the tenant would be the largest.
  [[nodiscard]] int read_stat() const {
    const UniqueFd file(::open((home_ + "/../memory.stat").c_str(), O_RDONLY | O_CLOEXEC));
    static char text[65536];
    for (;;) {
      if (::pread(file.get(), text, sizeof text, 0) <= 0) return 1;
    }
  }

  ScratchCgroup& scratch_;
  std::string home_;
  std::deque<Child> processes_;
};

// One watched node for all bursts.
class BurstNode {
 public:
  BurstNode() {
    for (const char* name : {"keep", "leak"}) scratch.child(name);
    const int idle = burst_setting("FORESTALL_WORKLOADS", 0);
    for (int i = 0; i < idle; ++i) {
      const std::string path = scratch.child("idle-" + std::to_string(i));
      idle_.emplace_back([this, path] {
        scratch.add(path, getpid());
        for (;;) pause();
        return 0;
      });
    }
    // Of the idle processes too, which hold some memory each.
    limit_ = scratch.usage(scratch.path()) + kBurstRoom;
    scratch.limit(scratch.path(), limit_);
  }
  [[nodiscard]] Bytes limit() const { return limit_; }
  [[nodiscard]] std::string config() const {
    return fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\nranking: kubelet+growth\n"
        "releaseTimeout: 20s\nwatch:\n  - cgroup: {0}\n    available: {1}Mi\nworkloads:\n"
        "  - {{cgroup: {0}/leak, name: leak}}\n  - {{cgroup: \"{0}/*\"}}\n",
        scratch.path(), kBurstThreshold.count >> 20);
  }

  ScratchCgroup scratch;

 private:
  std::deque<Child> idle_;
  Bytes limit_;
};

struct BurstResult {
  v1::Record record;
  MonotonicTime killed;  // the first SIGKILL, by the kernel's trace
  // Nullopt: usage was beyond the line for less time than lies between two readings.
  std::optional<SeenCrossing> crossing;

  [[nodiscard]] double at_most_ms() const {
    return crossing ? to_ms(killed - crossing->below) : to_ms(kSampledEach);
  }
  [[nodiscard]] double at_least_ms() const {
    return crossing ? to_ms(killed - crossing->reached) : 0;
  }
  // By the agent's record, which is an upper bound as well.
  [[nodiscard]] double own_ms() const { return since_crossing_ms(record.outcome().signalled_ns()); }
  [[nodiscard]] double since_crossing_ms(std::int64_t at_ns) const {
    return to_ms(Duration(at_ns - record.crossing().last_above().at_ns()));
  }
};

// One to three processes of one workload grow at once, as fast as they can. Nothing: no kill of all
// of them was seen.
std::optional<BurstResult> burst(const BurstNode& node, AgentRun& agent, UsageSampler& sampler,
                                 const KillTrace& trace, std::mt19937& dice) {
  std::deque<Hog> hogs;
  const std::size_t count = 1 + dice() % 3;
  for (std::size_t i = 0; i < count; ++i) {
    hogs.emplace_back(node.scratch, node.scratch.path() + "/leak", mib(2));
  }
  pass(Duration(dice() % kPhaseMax.count()));
  trace.clear();
  sampler.rearm();
  for (const Hog& hog : hogs) hog.grow(kBurstRoom);
  const auto record = agent.wait_kill();
  if (!record) return std::nullopt;
  std::optional<MonotonicTime> first;
  for (Hog& hog : hogs) {
    if (!hog.child().wait_exit()) return std::nullopt;
    const auto killed = trace.killed_at(hog.pid());
    if (killed && (!first || *killed < *first)) first = killed;
  }
  if (!first) return std::nullopt;
  return BurstResult{*record, *first, sampler.crossing()};
}

// What took the time, after the agent's last reading above the line.
void print_slow(int burst, const BurstResult& result) {
  const auto& stages = result.record.stages();
  std::printf("burst %d: %.1f ms; woken after %.1f, observed %.1f, decided %.1f, signalled %.1f\n",
              burst, result.at_most_ms(), result.since_crossing_ms(stages.woken_ns()),
              result.since_crossing_ms(stages.observed_ns()),
              result.since_crossing_ms(stages.decided_ns()), result.own_ms());
}

double part_of(std::vector<double> values, double part) {
  std::ranges::sort(values);
  const auto at = static_cast<std::size_t>(part * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}

void print_figures(const char* what, const std::vector<double>& values) {
  std::printf("%s: median %.2f ms, p99 %.2f, maximum %.2f\n", what, part_of(values, 0.5),
              part_of(values, 0.99), part_of(values, 1));
}

TEST(BurstTrial, NoneIsLostWhileATenantDisturbs) {
  const int bursts = burst_setting("FORESTALL_BURSTS", 5);
  const auto seed = static_cast<unsigned>(burst_setting("FORESTALL_SEED", 29));
  BurstNode node;
  const Hog keep(node.scratch, node.scratch.path() + "/keep", mib(24));
  AgentRun agent(node.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const Disturbance tenant(node.scratch);
  UsageSampler sampler(node.scratch, node.limit() - kBurstThreshold);
  ASSERT_TRUE(sampler.is_raised());
  const KillTrace trace;
  std::mt19937 dice(seed);
  std::vector<double> at_most, at_least, own, apart;
  int lost = 0;
  for (int i = 0; i < bursts; ++i) {
    const std::uint64_t before = node.scratch.oom_kills(node.scratch.path());
    const auto result = burst(node, agent, sampler, trace, dice);
    const std::uint64_t by_kernel = node.scratch.oom_kills(node.scratch.path()) - before;
    if (by_kernel != 0) ++lost;
    EXPECT_EQ(by_kernel, 0U) << "burst " << i << ", seed " << seed;
    ASSERT_TRUE(result && keep.alive()) << "burst " << i << '\n' << agent.process().log();
    EXPECT_EQ(result->record.outcome().victim().name(), "leak");
    if (result->at_most_ms() > kSlowMs) print_slow(i, *result);
    at_most.push_back(result->at_most_ms());
    at_least.push_back(result->at_least_ms());
    own.push_back(result->own_ms());
    apart.push_back(std::max(result->at_least_ms() - result->own_ms(),
                             result->own_ms() - result->at_most_ms()));
  }
  std::printf("%d bursts, seed %u, %d lost to the kernel's OOM killer\n", bursts, seed, lost);
  print_figures("crossing to SIGKILL, at most", at_most);
  print_figures("crossing to SIGKILL, at least", at_least);
  print_figures("by the agent's records, at most", own);
  print_figures("by how much the agent's figure is outside of the two bounds", apart);
}

}  // namespace
}  // namespace forestall::test
