// SPDX-License-Identifier: Apache-2.0
// From the crossing of a threshold to SIGKILL, at most, by the real agent's records: with few and
// many workloads on the node, idle and with every CPU contended. And how long the agent's loop
// worked without a pause: the benchmark fails if that was longer than a limit.
//
//   react_bench [trials] [workloads...]      default: 7 trials with 5, 100 and 1000 workloads
//   FORESTALL_STRETCH_MAX_MS=N               the limit; default: 20 ms
//   FORESTALL_CHURN=N                        cgroups made and removed a second meanwhile, as
//                                            workloads of the watched cgroup; default: none
//   FORESTALL_GUARD=1                        with the guard
//   FORESTALL_PROCESSES=N                    in each workload; default: 1
//
// Each trial leaks at full speed past the threshold of a scratch cgroup. The executable is
// $FORESTALL_BIN or the one of this build, so that two can be compared.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "forestall/v1/status.pb.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr Bytes kThreshold = mib(64);
// Where the fast part of a leak ends, relative to the threshold, and its pace from there.
constexpr Bytes kPast = mib(24);
constexpr Bytes kPace = mib(1);
constexpr Bytes kRoom = mib(400);  // for the leak, up to the limit
// Of the loop's work without a pause.
constexpr double kStretchMaxMs = 20;

struct Trial {
  double wake = 0, observe = 0, decide = 0, signal = 0, total = 0;  // us
  double width = 0;  // us between the bounds of the crossing
  bool prepared = false;
};

Trial trial_of(const v1::Record& record) {
  const auto us = [](std::int64_t from, std::int64_t to) {
    return static_cast<double>(to - from) / 1000;
  };
  const auto& stages = record.stages();
  const std::int64_t signalled = record.outcome().signalled_ns();
  const std::int64_t crossed = record.crossing().last_above().at_ns();
  return {us(crossed, stages.woken_ns()),
          us(stages.woken_ns(), stages.observed_ns()),
          us(stages.observed_ns(), stages.decided_ns()),
          us(stages.decided_ns(), signalled),
          us(crossed, signalled),
          us(crossed, record.crossing().first_below().at_ns()),
          record.has_prepared()};
}

double median(const std::vector<Trial>& trials, double Trial::*what) {
  std::vector<double> values;
  for (const Trial& trial : trials) values.push_back(trial.*what);
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double largest(const std::vector<Trial>& trials, double Trial::*what) {
  return (*std::ranges::max_element(trials, {}, what)).*what;
}

int number_of(const char* variable, int otherwise) {
  const char* set = std::getenv(variable);
  return set == nullptr ? otherwise : std::atoi(set);
}

// A scratch cgroup with that many workloads of idle processes.
class Crowd {
 public:
  explicit Crowd(int count) {
    const int processes = number_of("FORESTALL_PROCESSES", 1);
    for (int i = 0; i < count * processes; ++i) {
      const std::string path = scratch.child("w" + std::to_string(i / processes));
      waiting_.emplace_back([&] {
        scratch.add(path, getpid());
        for (;;) pause();
        return 0;
      });
    }
    scratch.child("leak");
    scratch.limit(scratch.path(), scratch.usage(scratch.path()) + kRoom);
    limit_ = scratch.usage(scratch.path()) + kRoom;
  }
  [[nodiscard]] std::string config() const {
    return fmt::format(
        "guard: {2}\nevictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 60s\n"
        "watch:\n  - cgroup: {0}\n    available: {1}Mi\n"
        "workloads:\n  - {{cgroup: {0}/leak, name: leak, priority: -1}}\n"
        "  - {{cgroup: \"{0}/*\"}}\n",
        scratch.path(), kThreshold.count >> 20,
        number_of("FORESTALL_GUARD", 0) != 0 ? "on" : "off");
  }
  std::optional<Trial> run(AgentRun& agent) {
    const Hog leak(scratch, scratch.path() + "/leak", mib(4));
    leak.leak(limit_ - kThreshold + kPast - scratch.usage(scratch.path()), kPace);
    const auto record = agent.wait_kill();
    if (!record || record->outcome().victim().name() != "leak") return std::nullopt;
    return trial_of(*record);
  }

  ScratchCgroup scratch;

 private:
  std::deque<Child> waiting_;
  Bytes limit_;
};

std::deque<Child> spinners() {
  std::deque<Child> all;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    all.emplace_back([] {
      std::atomic<unsigned> turns{0};
      for (;;) turns.fetch_add(1, std::memory_order_relaxed);
      return 0;
    });
  }
  return all;
}

// Makes a workload and removes it, FORESTALL_CHURN times a second.
class Churn {
 public:
  explicit Churn(const ScratchCgroup& scratch) : parent_(scratch.directory(scratch.path())) {
    const int per_second = number_of("FORESTALL_CHURN", 0);
    if (per_second > 0) child_.emplace([&] { return run(std::max(per_second, 2)); });
  }
  ~Churn() {
    child_.reset();
    for (int i = 0; i < kNames; ++i) ::rmdir(name(i).c_str());
  }

 private:
  static constexpr int kNames = 16;

  [[nodiscard]] std::string name(int i) const { return fmt::format("{}/churn-{}", parent_, i); }
  [[nodiscard]] int run(int per_second) const {
    const UniqueFd pace(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    const timespec each{0, 1'000'000'000 / per_second};
    const itimerspec periodic{each, each};
    if (::timerfd_settime(pace.get(), 0, &periodic, nullptr) != 0) return 1;
    for (int i = 0;; i = (i + 1) % kNames) {
      ::mkdir(name(i).c_str(), 0755);
      std::uint64_t turns = 0;
      if (::read(pace.get(), &turns, sizeof turns) != sizeof turns) return 1;
      ::rmdir(name(i).c_str());
    }
  }

  const std::string parent_;
  std::optional<Child> child_;
};

void print(int workloads, bool loaded, const std::vector<Trial>& trials) {
  const auto prepared = std::ranges::count(trials, true, &Trial::prepared);
  fmt::print(
      "{:>9} {:>5} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.0f} {:>9.0f} {:>9.0f} {:>8.0f} {:>8.0f} "
      "{:>6}/{}\n",
      workloads, loaded ? "full" : "idle", median(trials, &Trial::wake),
      median(trials, &Trial::observe), median(trials, &Trial::decide),
      median(trials, &Trial::signal), median(trials, &Trial::total), largest(trials, &Trial::total),
      median(trials, &Trial::width), largest(trials, &Trial::width), prepared, trials.size());
}

double stretch_max_ms() {
  const char* set = std::getenv("FORESTALL_STRETCH_MAX_MS");
  return set == nullptr ? kStretchMaxMs : std::atof(set);
}

// Prints the longest stretch of the loop and what it consisted of. False: longer than the limit.
bool print_loop(AgentRun& agent) {
  const Ran ran = run_forestall({"status", "--run-dir", agent.directory() / "", "-o", "json"});
  v1::AgentStatus status;
  if (ran.exit_code != 0 || !messages::from_json(ran.output, status)) {
    fmt::print(stderr, "no status: {}\n", ran.errors);
    return false;
  }
  const double longest = static_cast<double>(status.loop().longest_ns()) / 1e6;
  fmt::print("{:>9} longest stretch of the loop: {:.2f} ms:", "", longest);
  for (const auto& each : status.loop().work()) {
    if (each.in_longest_ns() < 10'000) continue;
    fmt::print(" {} {:.2f}", each.work(), static_cast<double>(each.in_longest_ns()) / 1e6);
  }
  fmt::print("\n{:>9} longest of each kind, ms:", "");
  for (const auto& each : status.loop().work()) {
    if (each.longest_ns() < 10'000) continue;
    fmt::print(" {} {:.2f}", each.work(), static_cast<double>(each.longest_ns()) / 1e6);
  }
  fmt::print("\n");
  if (longest <= stretch_max_ms()) return true;
  fmt::print(stderr, "the loop worked for {:.2f} ms without a pause; the limit is {:.2f} ms\n",
             longest, stretch_max_ms());
  return false;
}

int measure(int workloads, int trials) {
  Crowd crowd(workloads);
  AgentRun agent(crowd.config());
  if (agent.failure()) {
    fmt::print(stderr, "{}\n", agent.failure()->text());
    return 1;
  }
  const Churn churn(crowd.scratch);
  double idle = 0;
  for (const bool loaded : {false, true}) {
    const std::deque<Child> load = loaded ? spinners() : std::deque<Child>();
    std::vector<Trial> done;
    for (int i = 0; i < trials; ++i) {
      const auto trial = crowd.run(agent);
      if (!trial) {
        fmt::print(stderr, "no kill, or of another:\n{}\n", agent.process().log());
        return 1;
      }
      done.push_back(*trial);
    }
    print(workloads, loaded, done);
    const double total = median(done, &Trial::total);
    if (loaded) fmt::print("{:>9} full/idle: {:.2f}\n", workloads, total / idle);
    idle = total;
  }
  return print_loop(agent) ? 0 : 1;
}

}  // namespace
}  // namespace forestall::test

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::atoi(argv[1]) : 7;
  std::vector<int> counts;
  for (int i = 2; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
  if (counts.empty()) counts = {5, 100, 1000};
  fmt::print(
      "medians of {} trials, us; crossing to SIGKILL and its parts; bounds of the crossing\n",
      trials);
  fmt::print("{:>9} {:>5} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8}\n", "workloads",
             "CPUs", "wake", "observe", "decide", "signal", "total", "worst", "width", "worst",
             "prepared");
  for (const int count : counts) {
    if (const int failed = forestall::test::measure(count, trials)) return failed;
  }
  return 0;
}
