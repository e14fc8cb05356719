// SPDX-License-Identifier: Apache-2.0
#include "agent/tree_refresher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/workload_example.h"
#include "policy/protection.h"

namespace forestall::agent {
namespace {

// A workload that came since the last scan is no candidate, and others would die for it. inotify
// reports most of them (sources/new_cgroups.h). For the rest, where no other source reports new
// cgroups, an older tree is rescanned before candidates are ranked: after this many times the
// length of a scan, but at most after kTreeAgeMax.
constexpr int kScansBehind = 4;
constexpr Duration kTreeAgeMax = std::chrono::milliseconds(500);
// A scan up to this length costs a decision less than a list of the next victims gains.
constexpr Duration kShortScan = std::chrono::milliseconds(5);
// Without one, and with longer scans, a list of the next victims is not used longer than this after
// a rescan: workloads that came since are not on it.
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

// Logs when inference begins and when it ends, not for every pod that comes.
void TreeRefresher::count_pod_facts() {
  exports::PodFactCounts counts;
  for (const Workload* workload : observer_.workloads()) {
    if (workload->kind != WorkloadKind::pod) continue;
    ++(policy::priority_unknown(*workload) ? counts.inferred : counts.known);
    if (policy::protection_of(*workload) == Protection::may_be_critical) {
      ++counts.may_be_critical;
    }
  }
  const auto before = std::exchange(pod_facts_, counts);
  if ((before.inferred > 0) == (counts.inferred > 0)) return;
  exports::LogLine line("pod-facts");
  line.field("known", counts.known)
      .field("inferred", counts.inferred)
      .field("protected_may_be_critical", counts.may_be_critical);
  if (counts.inferred > 0) {
    line.field("problem",
               "the priority of some pods is unknown: a system-cluster-critical pod cannot be "
               "distinguished from others")
        .field("remedy", "set podList or manifest");
  }
  log_.write(counts.inferred > 0 ? exports::LogLevel::warning : exports::LogLevel::info, line);
}

// An agent that may kill nothing says so at its start, and says when that first changes: workloads
// that come and go later are ordinary.
void TreeRefresher::report_candidates() {
  if (had_candidates_ == true) return;
  const auto workloads = observer_.workloads();
  const bool any = std::ranges::any_of(workloads, [](const Workload* each) {
    return policy::protection_of(*each) == Protection::none;
  });
  const auto before = std::exchange(had_candidates_, any);
  if (any) {
    if (!before) return;
    log_.write(exports::LogLevel::info,
               exports::LogLine("candidates").field("workloads", workloads.size()));
    return;
  }
  if (before) return;
  exports::LogLine line("no-candidates");
  line.field("protected", workloads.size()).field("problem", kNoCandidates);
  // Where all are protected, as on a control-plane node, that may well be intended.
  if (!workloads.empty()) return log_.write(exports::LogLevel::warning, line);
  // For people: whole lines without a time or quotes, to be pasted as they are.
  if (log_.format() == exports::LogFormat::text) {
    line.sentence(fmt::format("{}; add lines such as these to the configuration:\n{}",
                              kNoCandidates, fmt::join(kWorkloadExample, "\n")));
    return log_.write(exports::LogLevel::warning, line);
  }
  line.field("remedy", "add lines such as the following to the configuration");
  log_.write(exports::LogLevel::warning, line);
  for (const std::string_view each : kWorkloadExample) {
    log_.write(exports::LogLevel::warning, exports::LogLine("example").field("line", each));
  }
}

Duration TreeRefresher::age_min() const {
  return std::max(kTreeAgeMin, scan_length_ * kScanRest);
}

Duration TreeRefresher::age_max() const {
  return std::min(kTreeAgeMax, scan_length_ * kScansBehind);
}

void TreeRefresher::refresh() {
  const exports::LoopWorkScope rescans(work_, exports::LoopWork::rescan);
  const MonotonicTime began = clock_.now();
  const std::uint64_t changes = observer_.workload_changes();
  std::vector<std::string> problems;
  for (const SourceNote& note : observer_.refresh()) problems.push_back(ProblemLog::text_of(note));
  problems_.report(std::move(problems));
  count_pod_facts();
  report_candidates();
  refreshed_at_ = clock_.now();
  scan_length_ = refreshed_at_ - began;
  recheck_at_ = refreshed_at_ + std::min(recheck_in_, config_.recheck_interval);
  changed_ = false;
  if (changes != observer_.workload_changes()) watchdog_.withdraw();
  rescanned_();
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
  if (has_cgroup_events_ && settled && !changed_ && now - refreshed_at_ < rest) {
    recheck_at_ = now + config_.recheck_interval;
    return;
  }
  recheck_in_ = std::min(recheck_in_ * kSettlingGrowth, config_.recheck_interval);
  refresh();
}

void TreeRefresher::note_new_cgroups() {
  if (observer_.has_new_cgroups()) changed_ = true;
}

void TreeRefresher::refresh_if_changed_or_stale() {
  note_new_cgroups();
  if (changed_) return refresh();
  refresh_if_stale(clock_.now());
}

void TreeRefresher::refresh_if_stale(MonotonicTime now) {
  if (!has_cgroup_events_ && now - refreshed_at_ > age_max()) refresh();
}

bool TreeRefresher::knows_workloads(MonotonicTime now) {
  note_new_cgroups();
  if (changed_) return false;
  if (has_cgroup_events_) return true;
  return now - refreshed_at_ < (scan_length_ > kShortScan ? kListedTreeAgeMax : age_max());
}

}  // namespace forestall::agent
