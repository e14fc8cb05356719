// SPDX-License-Identifier: Apache-2.0
#include "cli/look.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/exit_code.h"
#include "policy/step.h"
#include "sources/observer.h"

namespace forestall::cli {
namespace {

Result<void> fill(const Options& options, Look& look) {
  const kernel::CgroupTree tree = TRY(kernel::CgroupTree::discover(options.cgroup_mount));
  const auto observer = TRY(sources::Observer::create(tree, look.config));
  auto notes = observer->refresh();
  const MonotonicTime now = SystemClock().now();
  look.observation = observer->observe(Wake{WakeSource::command, now, {}, {}}, now);
  observer->add_workloads(look.observation, {});
  for (SourceNote& note : notes) look.observation.notes.push_back(std::move(note));
  look.decision = policy::step(look.config, {}, look.observation).decision;
  return {};
}

}  // namespace

std::variant<Look, LookFailure> look_at_host(const Options& options) {
  Look look;
  auto config = effective_config(options, look.warnings);
  if (!config) return LookFailure{config.error(), true};
  look.config = std::move(*config);
  if (const auto filled = fill(options, look); !filled) return LookFailure{filled.error(), false};
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
