// SPDX-License-Identifier: Apache-2.0
#include "agent/preparation_controller.h"

#include <algorithm>
#include <chrono>

namespace forestall::agent {
namespace {

// A list of 1,000 workloads takes dozens of turns, and expires three seconds after its evaluation.
constexpr Duration kGuardOverdue = std::chrono::milliseconds(10);

}  // namespace

std::optional<MonotonicTime> PreparationController::next_due() const {
  std::optional<MonotonicTime> next = parts_.victim_cache.next_due();
  for (const auto& due : {parts_.growth.next_due(), parts_.agent.guard.preparation_due()}) {
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

bool PreparationController::pre_rank(MonotonicTime now) {
  VictimCache& cache = parts_.victim_cache;
  const auto due = cache.next_due();
  if (!due || *due > now) return false;
  if (!cache.working()) return true;
  parts_.tree.refresh_if_stale(now);
  if (cache.work(parts_.config, parts_.kills.all_kills(), now)) publish_list();
  return false;
}

void PreparationController::take_pins() {
  if (parts_.victim_cache.take_pins()) publish_list();
}

void PreparationController::publish_list() {
  parts_.kills.post_orders(parts_.config);
  parts_.agent.guard.ranked();
  parts_.reporter.report_next_victims(parts_.victim_cache.next_victims(
      parts_.config, nullptr, parts_.kills.all_kills(), parts_.agent.clock.now()));
}

void PreparationController::sample_for_growth(MonotonicTime now) {
  const auto due = parts_.growth.next_due();
  if (!due || *due > now) return;
  const exports::LoopWorkScope work_scope(parts_.agent.counts->work, exports::LoopWork::sample);
  if (is_outside_warning_zones()) {
    parts_.growth.work();
  } else {
    parts_.growth.stop();
  }
}

void PreparationController::prepare_guard(MonotonicTime now) {
  const auto due = parts_.agent.guard.preparation_due();
  if (!due || *due > now) return;
  const exports::LoopWorkScope work_scope(parts_.agent.counts->work, exports::LoopWork::guard);
  parts_.agent.guard.prepare(parts_.config, parts_.growth);
}

// The event loop serves events before these, and a tenant may cause events without a pause.
void PreparationController::catch_up_guard() {
  parts_.agent.guard.take_lists();
  prepare_guard(parts_.agent.clock.now() - kGuardOverdue);
}

void PreparationController::rechecked() {
  if (is_outside_warning_zones()) parts_.growth.begin_sampling(parts_.config);
}

bool PreparationController::is_outside_warning_zones() const {
  return !parts_.scheduler.awaits_retry() && parts_.victim_cache.subjects().empty();
}

}  // namespace forestall::agent
