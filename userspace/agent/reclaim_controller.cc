// SPDX-License-Identifier: Apache-2.0
#include "agent/reclaim_controller.h"

namespace forestall::agent {
namespace {

// Between two rounds of reclaim: kubelet's monitoring interval
// (pkg/kubelet/kubelet.go evictionMonitoringPeriod).
constexpr Duration kReclaimInterval = std::chrono::seconds(10);

}  // namespace

ReclaimState RuntimeReclaimController::state(const Config& config,
                                             const policy::State& state) const {
  // A dry run removes nothing.
  if (config.dry_run) return ReclaimState::unavailable;
  if (over_) return ReclaimState::done;
  const bool recent = ended_at_ && clock_.now() - *ended_at_ < kReclaimInterval;
  if (!state.reclaim && recent) return ReclaimState::unavailable;
  return reclaim_.running() ? ReclaimState::running : ReclaimState::ready;
}

bool RuntimeReclaimController::finish(exports::Log& log) {
  const auto result = reclaim_.take();
  if (!result) return false;
  over_ = true;
  ended_at_ = clock_.now();
  exports::LogLine line("node-reclaim");
  line.field("took_us", result->took);
  if (result->dead) {
    line.field("containers", result->dead->containers)
        .field("sandboxes", result->dead->sandboxes)
        .field("containers_failed", result->dead->failures.count);
  }
  if (result->images) {
    line.field("images", result->images->images)
        .field("images_young", result->images->young)
        .field("freed", result->images->freed)
        .field("images_failed", result->images->failures.count);
  }
  for (const Error& failure : result->failures) line.field("failure", failure.text());
  log.write(exports::LogLevel::info, line);
  return true;
}

}  // namespace forestall::agent
