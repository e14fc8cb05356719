// SPDX-License-Identifier: Apache-2.0
#include "agent/tree_refresher.h"

#include <algorithm>
#include <utility>

namespace forestall::agent {
namespace {

// Without a source that reports new cgroups, an older tree is rescanned before candidates are
// ranked.
constexpr Duration kTreeAgeMax = std::chrono::milliseconds(500);
// Without one, a list of the next victims is not used longer than this after a rescan: workloads
// that came since are not on it.
constexpr Duration kListedTreeAgeMax = std::chrono::milliseconds(1500);
// With one, the tree is rescanned at most this often.
constexpr Duration kTreeAgeMin = std::chrono::milliseconds(100);
// A scan is followed by this many times its length without one: at most 5 % of a CPU while cgroups
// come and go all the time, and 0.02 % once settled, where it finds what no event reports.
constexpr int kScanRest = 20;
constexpr int kScanRestSettled = 5000;
constexpr Duration kTreeAgeSettled = std::chrono::minutes(5);
// The first rescan after a change, and by how much the interval grows from one to the next.
constexpr Duration kSettling = std::chrono::milliseconds(100);
constexpr int kSettlingGrowth = 10;

}  // namespace

Duration TreeRefresher::age_min() const {
  return std::max(kTreeAgeMin, scan_length_ * kScanRest);
}

void TreeRefresher::refresh() {
  const MonotonicTime began = clock_.now();
  const std::uint64_t changes = observer_.workload_changes();
  std::vector<std::string> problems;
  for (const SourceNote& note : observer_.refresh()) problems.push_back(ProblemLog::text_of(note));
  problems_.report(std::move(problems));
  refreshed_at_ = clock_.now();
  scan_length_ = refreshed_at_ - began;
  recheck_at_ = refreshed_at_ + std::min(recheck_in_, config_.recheck_interval);
  changed_ = false;
  if (changes != observer_.workload_changes()) watchdog_.withdraw();
}

void TreeRefresher::refresh_changed() {
  recheck_in_ = std::min(kSettling, config_.recheck_interval);
  refresh();
}

void TreeRefresher::recheck() {
  const bool settled = recheck_in_ >= config_.recheck_interval;
  const MonotonicTime now = clock_.now();
  if (now - refreshed_at_ < age_min()) {
    recheck_at_ = change_due();
    return;
  }
  const Duration rest = std::min(scan_length_ * kScanRestSettled, kTreeAgeSettled);
  if (told_of_cgroups_ && settled && !changed_ && now - refreshed_at_ < rest) {
    recheck_at_ = now + config_.recheck_interval;
    return;
  }
  recheck_in_ = std::min(recheck_in_ * kSettlingGrowth, config_.recheck_interval);
  refresh();
}

void TreeRefresher::refresh_if_changed_or_stale() {
  if (changed_) return refresh();
  refresh_if_stale(clock_.now());
}

void TreeRefresher::refresh_if_stale(MonotonicTime now) {
  if (!told_of_cgroups_ && now - refreshed_at_ > kTreeAgeMax) refresh();
}

bool TreeRefresher::knows_workloads(MonotonicTime now) const {
  if (changed_) return false;
  return told_of_cgroups_ || now - refreshed_at_ < kListedTreeAgeMax;
}

}  // namespace forestall::agent
