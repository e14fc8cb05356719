// SPDX-License-Identifier: Apache-2.0
#include "agent/tree_refresher.h"

#include <algorithm>
#include <utility>

#include "agent/unlisted_cgroups.h"

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
// The longest that a tree which lacks a reported change is used for a kill. allows() has the new
// cgroups from inotify; what only other sources report counts as listed until then.
constexpr Duration kLackingChangeMax = std::chrono::milliseconds(500);
// The same while a scan takes longer than usual. It lasts as long as a tenant's process that holds
// a kernfs lock is off the CPU (0.5 s measured on a busy host). The loop would wait for the same
// lock, and the kernel's OOM killer would act meanwhile.
constexpr Duration kHeldUpMax = std::chrono::seconds(10);
// While a scan runs, changes cause an evaluation this often.
constexpr Duration kLongScan = std::chrono::seconds(1);
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

Duration TreeRefresher::age_max() const {
  return std::min(kTreeAgeMax, scan_length_ * kScansBehind);
}

MonotonicTime TreeRefresher::rescan_at() const {
  // The end of a scan is an event.
  return scan_began_ ? *scan_began_ + kLongScan : refreshed_at_ + age_min();
}

void TreeRefresher::refresh() {
  const exports::LoopWorkScope rescans(work_, exports::LoopWork::rescan);
  const MonotonicTime began = clock_.now();
  const std::uint64_t changes = observer_.workload_changes();
  const auto notes = observer_.refresh();
  scan_length_ = clock_.now() - began;
  listed_from_ = began;
  changed_since_.reset();
  scanned_since_.reset();  // the result of a scan that runs is older than this tree
  listed(notes, changes);
}

void TreeRefresher::listed(const std::vector<SourceNote>& notes, std::uint64_t changes_before) {
  reporter_.report(observer_.workloads(), notes);
  refreshed_at_ = clock_.now();
  recheck_at_ = refreshed_at_ + std::min(recheck_in_, config_.recheck_interval);
  if (changes_before != observer_.workload_changes()) watchdog_.withdraw();
  rescanned_();
}

void TreeRefresher::scan() {
  if (scan_began_) return;
  auto tree = scanner_.exists() ? observer_.take_standby_tree() : nullptr;
  if (tree == nullptr) return refresh();
  scan_began_ = clock_.now();
  scanned_since_ = std::exchange(changed_since_, std::nullopt);
  recheck_at_ = *scan_began_ + config_.recheck_interval;
  scanner_.start(std::move(tree));
}

bool TreeRefresher::take_scan() {
  auto scan = scanner_.finish();
  if (!scan) return false;
  const MonotonicTime began = *std::exchange(scan_began_, std::nullopt);
  if (began < listed_from_) {
    observer_.put_standby_tree(std::move(scan->tree));
    return false;
  }
  if (!scan->tree->complete()) {
    // The tree in use holds more of what could not be listed.
    observer_.put_standby_tree(std::move(scan->tree));
    refresh();
    return true;
  }
  const exports::LoopWorkScope rescans(work_, exports::LoopWork::rescan);
  const std::uint64_t changes = observer_.workload_changes();
  const auto notes = observer_.exchange_tree(std::move(scan->tree));
  scan_length_ = scan->took;
  listed_from_ = began;
  scanned_since_.reset();
  listed(notes, changes);
  return true;
}

void TreeRefresher::refresh_changed() {
  recheck_in_ = std::min(kSettling, config_.recheck_interval);
  refresh();
}

bool TreeRefresher::scan_changed() {
  recheck_in_ = std::min(kSettling, config_.recheck_interval);
  scan();
  return !scan_began_;
}

void TreeRefresher::recheck() {
  const bool settled = recheck_in_ >= config_.recheck_interval;
  const MonotonicTime now = clock_.now();
  if (now < rescan_at()) {
    recheck_at_ = rescan_at();
    return;
  }
  const Duration rest = std::min(scan_length_ * kScanRestSettled, kTreeAgeSettled);
  if (has_cgroup_events_ && settled && !changed() && now - refreshed_at_ < rest) {
    recheck_at_ = now + config_.recheck_interval;
    return;
  }
  recheck_in_ = std::min(recheck_in_ * kSettlingGrowth, config_.recheck_interval);
  scan();
}

// The event of a cgroup may come after inotify's, which caused a rescan already. What comes before
// mkdir() has returned need not be listed, but inotify reports it then.
bool TreeRefresher::is_listed(MonotonicTime at) {
  if (at >= listed_from_) return false;
  const auto came = observer_.new_cgroups();
  return came && came->empty();
}

void TreeRefresher::note_change(MonotonicTime at) {
  if (is_listed(at)) {
    // The runtime may write its limit later.
    recheck_in_ = std::min(kSettling, config_.recheck_interval);
    recheck_at_ = std::min(recheck_at_, clock_.now() + recheck_in_);
  } else {
    noted_at_ = clock_.now();
    if (!changed_since_) changed_since_ = noted_at_;
  }
}

void TreeRefresher::note_new_cgroups() {
  if (observer_.has_new_cgroups() && !changed_since_) changed_since_ = clock_.now();
}

bool TreeRefresher::refresh_before_kill(bool urgent) {
  note_new_cgroups();
  const MonotonicTime now = clock_.now();
  if (!lacks_change() && !is_stale(now)) return true;
  if (urgent && is_recent(now)) return false;
  refresh();
  return true;
}

bool TreeRefresher::is_recent(MonotonicTime now) const {
  if (!scanner_.exists() || is_stale(now)) return false;
  const auto since = scanned_since_ ? scanned_since_ : changed_since_;
  const bool held_up = scan_began_ && now - *scan_began_ > age_max();
  return !since || now - *since <= (held_up ? kHeldUpMax : kLackingChangeMax);
}

bool TreeRefresher::allows(const Decision& decision) const {
  const UnlistedCgroups unlisted{observer_.new_cgroups(), observer_.pods_path()};
  return unlisted_cannot_change(decision, unlisted, config_);
}

bool TreeRefresher::has_all_inside(const Workload& victim) {
  const bool complete = refresh_before_kill(/*urgent=*/true);
  // Of a change that other sources reported inotify need not have the path.
  const bool may_lack_paths = noted_at_ && *noted_at_ >= listed_from_;
  UnlistedCgroups unlisted{std::nullopt, observer_.pods_path()};
  if (!may_lack_paths) unlisted.paths = observer_.new_cgroups();
  return (complete && unlisted.paths) || !may_be_reached(victim, unlisted, config_);
}

bool TreeRefresher::is_stale(MonotonicTime now) const {
  return !has_cgroup_events_ && now - refreshed_at_ > age_max();
}

void TreeRefresher::refresh_if_stale(MonotonicTime now) {
  if (is_stale(now)) scan();
}

bool TreeRefresher::has_all_workloads(MonotonicTime now) {
  note_new_cgroups();
  if (lacks_change()) return false;
  if (has_cgroup_events_) return true;
  return now - refreshed_at_ < (scan_length_ > kShortScan ? kListedTreeAgeMax : age_max());
}

}  // namespace forestall::agent
