// SPDX-License-Identifier: Apache-2.0
#include "cli/look.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <cstdio>

#include "cli/exit_code.h"
#include "cli/oom_look.h"
#include "policy/growth_baseline.h"
#include "policy/step.h"
#include "sources/observer.h"

namespace forestall::cli {
namespace {

// Blocks: the command has no other work meanwhile.
Result<void> walk_disks(sources::Observer& observer) {
  const SystemClock clock;
  observer.ask_disk_usage(clock.now());
  sources::DiskWalker& walker = observer.disk_walker();
  while (!walker.collect(clock.now())) {
    pollfd ended{walker.fd(), POLLIN, 0};
    if (::poll(&ended, 1, -1) < 0 && errno != EINTR) return errno_error("poll", "the disk walk");
  }
  return {};
}

// Reads the workloads as the baseline for growth over `duration`. Blocks for that time: the command
// has no other work meanwhile.
policy::GrowthBaseline watch_growth(sources::Observer& observer, Duration duration) {
  policy::GrowthBaseline baseline;
  const SystemClock clock;
  const MonotonicTime began = clock.now();
  Observation before = observer.observe(Wake{WakeSource::command, began, {}, {}}, began);
  observer.add_workloads(before, {}, sources::kUnscored);
  baseline.take(*before.workloads, began);
  for (Duration left = duration; left > Duration::zero(); left = began + duration - clock.now()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec wait{seconds.count(), (left - seconds).count()};
    ::ppoll(nullptr, 0, &wait, nullptr);
  }
  return baseline;
}

Result<void> fill(const Options& options, Depth depth, Duration growth_over, Look& look) {
  const kernel::CgroupTree tree = TRY(kernel::CgroupTree::discover(options.cgroup_mount));
  OpenedProcesses processes;
  if (look.config.ranking == Ranking::kernel) {
    processes = TRY(open_processes(tree, look.config.disabled));
  }
  const auto observer = TRY(sources::Observer::create(tree, look.config));
  observer->set_processes(processes.source.get());
  auto notes = observer->refresh();
  if (depth == Depth::disk) TRY(walk_disks(*observer));
  policy::GrowthBaseline baseline;
  if (growth_over > Duration::zero()) baseline = watch_growth(*observer, growth_over);
  const MonotonicTime now = SystemClock().now();
  look.observation = observer->observe(Wake{WakeSource::command, now, {}, {}}, now);
  observer->add_workloads(look.observation, {});
  baseline.apply(*look.observation.workloads);
  if (depth == Depth::disk) observer->add_statistics(look.observation);
  for (SourceNote& note : notes) look.observation.notes.push_back(std::move(note));
  look.decision = policy::step(look.config, {}, look.observation).decision;
  return {};
}

}  // namespace

std::variant<Look, LookFailure> look_at_host(const Options& options, Depth depth,
                                             Duration growth_over) {
  Look look;
  auto config = effective_config(options, look.warnings);
  if (!config) return LookFailure{config.error(), true};
  look.config = std::move(*config);
  const auto filled = fill(options, depth, growth_over, look);
  if (!filled) return LookFailure{filled.error(), false};
  return look;
}

int report_failure(const char* command, const LookFailure& failure) {
  if (failure.usage) {
    fmt::print(stderr, "{}\n", failure.error.text());
    return kExitUsage;
  }
  fmt::print(stderr, "forestall {}: {}\n", command, failure.error.text());
  return kExitFailed;
}

}  // namespace forestall::cli
