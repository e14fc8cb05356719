// SPDX-License-Identifier: Apache-2.0
#include "cli/host_evaluation.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <cstdio>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/process_input.h"
#include "policy/growth_baseline.h"
#include "policy/step.h"
#include "sources/host_sample.h"

namespace forestall::cli {
namespace {

// Reads the workloads as the baseline for growth over `duration`. Blocks for that time: the command
// has no other work meanwhile.
Result<policy::GrowthBaseline> watch_growth(sources::Observer& observer, Duration duration) {
  policy::GrowthBaseline baseline;
  const SystemClock clock;
  const Observation before = TRY(sources::sample_host(observer, {sources::kUnscored}));
  const MonotonicTime began = before.at;
  baseline.take(*before.workloads, began);
  for (Duration left = duration; left > Duration::zero(); left = began + duration - clock.now()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec wait{seconds.count(), (left - seconds).count()};
    ::ppoll(nullptr, 0, &wait, nullptr);
  }
  return baseline;
}

Result<void> fill(const Options& options, Depth depth, Duration growth_over,
                  HostEvaluation& evaluation) {
  const kernel::CgroupTree tree = TRY(kernel::CgroupTree::discover(options.cgroup_mount));
  OpenedProcesses processes;
  if (evaluation.config.ranking == Ranking::kernel) {
    processes = TRY(open_processes(tree, evaluation.config.disabled));
  }
  const auto observer = TRY(sources::Observer::create(tree, evaluation.config));
  observer->set_processes(processes.source.get());
  policy::GrowthBaseline baseline;
  if (growth_over > Duration::zero()) baseline = TRY(watch_growth(*observer, growth_over));
  evaluation.observation = TRY(sources::sample_host(*observer, {{}, depth == Depth::disk}));
  baseline.apply(*evaluation.observation.workloads);
  evaluation.decision = policy::step(evaluation.config, {}, evaluation.observation).decision;
  return {};
}

}  // namespace

std::variant<HostEvaluation, EvaluationFailure> evaluate_host(const Options& options, Depth depth,
                                                              Duration growth_over) {
  HostEvaluation evaluation;
  auto loaded = host_config(options);
  if (!loaded) return EvaluationFailure{loaded.error(), true};
  evaluation.warnings = std::move(loaded->warnings);
  evaluation.config = std::move(loaded->config);
  const auto filled = fill(options, depth, growth_over, evaluation);
  if (!filled) return EvaluationFailure{filled.error(), false};
  return evaluation;
}

int report_failure(const char* command, const EvaluationFailure& failure) {
  if (failure.usage) {
    fmt::print(stderr, "{}\n", printable_lines(failure.error.text()));
    return kExitUsage;
  }
  fmt::print(stderr, "forestall {}: {}\n", command, failure.error.text());
  return kExitFailed;
}

}  // namespace forestall::cli
