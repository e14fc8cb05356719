// SPDX-License-Identifier: Apache-2.0
// Costs of the kill ladder and gains of its reapers, on small victims in scratch cgroups.
//
//   BeginToSignal/N   begin() of a pinned victim of N processes up to its first SIGKILL, and up
//                     to begin()'s return: the cost of a decision for the loop
//   Release/way/MiB   SIGKILL to memory free, with process_mrelease and without, while every
//                     CPU is contended. Compare the two ways of one run only: absolute
//                     numbers depend on the machine and its load.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "integration/ladder_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

actuators::LadderOptions options_with(const FeatureSet& usable) {
  actuators::LadderOptions options;
  options.usable = usable;
  options.release_timeout = std::chrono::seconds(30);
  return options;
}

void BeginToSignal(benchmark::State& state) {
  const auto processes = static_cast<int>(state.range(0));
  LadderRun run(options_with(kByPidfd));
  const SystemClock clock;
  Duration to_signal{0};
  for (auto _ : state) {
    ScratchCgroup scratch;
    const auto path = scratch.child("victim");
    std::vector<Hog> hogs;
    hogs.reserve(static_cast<std::size_t>(processes));
    for (int i = 0; i < processes; ++i) hogs.emplace_back(scratch, path, kib(256));
    const auto victim = run.rank(path);
    const MonotonicTime before = clock.now();
    run.ladder().begin(victim);
    state.SetIterationTime(std::chrono::duration<double>(clock.now() - before).count());
    const Outcome outcome = run.next_outcome();
    if (!outcome.signalled) return state.SkipWithError(describe(outcome).c_str());
    to_signal += *outcome.signalled - outcome.began;
  }
  state.counters["to_signal_us"] = to_us(to_signal) / static_cast<double>(state.iterations());
}
BENCHMARK(BeginToSignal)
    ->Arg(1)
    ->Arg(8)
    ->Arg(64)
    ->Iterations(20)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// A process that only uses a CPU.
Child spinner() {
  return Child([] {
    for (unsigned turns = 0;; ++turns) benchmark::DoNotOptimize(turns);
    return 0;
  });
}

void Release(benchmark::State& state, const FeatureSet& usable) {
  const Bytes held = mib(state.range(0));
  LadderRun run(options_with(usable));
  std::vector<Child> spinners;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    spinners.push_back(spinner());
  }
  for (auto _ : state) {
    ScratchCgroup scratch;
    const auto path = scratch.child("victim");
    scratch.limit(scratch.path(), held + mib(64));
    Hog hog(scratch, path, held);
    // A dying process frees its memory on its own share of the CPU, which is small here.
    setpriority(PRIO_PROCESS, static_cast<id_t>(hog.pid()), 10);
    const Outcome outcome = run.kill(run.rank(path));
    if (!outcome.released) return state.SkipWithError(describe(outcome).c_str());
    state.SetIterationTime(
        std::chrono::duration<double>(*outcome.released - *outcome.signalled).count());
  }
}
BENCHMARK_CAPTURE(Release, mrelease, kByPidfd)
    ->Arg(256)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Release, plain_exit, features({Feature::pidfd}))
    ->Arg(256)
    ->Iterations(5)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace forestall::test

BENCHMARK_MAIN();
