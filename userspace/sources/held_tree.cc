// SPDX-License-Identifier: Apache-2.0
#include "sources/held_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "bpf/abi/watch.h"
#include "sources/pod_paths.h"
#include "sources/watched_cgroups.h"

namespace forestall::sources {

HeldTree::HeldTree(const kernel::CgroupTree& tree, const std::string& proc)
    : tree_(tree), workloads_(tree, proc), own_limits_(tree) {}

void HeldTree::refresh(const std::atomic<bool>& stop) {
  complete_ = true;
  notes_.clear();
  dropped_.clear();
  refresh_pods();
  watch_new_cgroups();
  refresh_watched();
  workloads_.refresh(*config_, pods_path_, stop, notes_);
  refresh_own_limits(stop);
}

// A pod comes in the pods cgroup or in one of its two QoS groups, with either cgroup driver.
void HeldTree::watch_new_cgroups() {
  std::vector<std::string> globs;
  for (const WorkloadRule& rule : config_->workloads) globs.push_back(rule.cgroup);
  for (const Threshold& threshold : config_->thresholds) {
    if (is_of_watched_cgroup(threshold.signal)) globs.push_back(threshold.cgroup);
  }
  if (config_->pods && !pods_path_.empty()) {
    globs.push_back(pods_path_ + "/*");
    for (const char* group : {"burstable", "besteffort"}) {
      globs.push_back(fmt::format("{}/*{}*/*", pods_path_, group));
    }
  }
  new_cgroups_.watch(tree_, globs);
}

void HeldTree::refresh_pods() {
  auto found = find_pods_cgroup(tree_, config_->cgroup_root);
  // Unknown is not gone: the cgroup known so far stays.
  if (!found) {
    complete_ = false;
    return notes_.push_back({config_->cgroup_root, found.error().text()});
  }
  pods_path_ = std::move(found).value().value_or("");
  const bool same = pods_ && pods_->cgroup().path() == pods_path_ &&
                    pods_->cgroup().still_at_path(tree_.memory_fd());
  if (same) return;
  if (pods_path_.empty()) pods_.reset();
  if (pods_path_.empty()) return;
  auto reader = CgroupReader::open_with_limit(tree_, pods_path_);
  if (reader) {
    pods_ = std::move(reader).value();
    return;
  }
  if (kernel::is_removed(reader.error())) {
    pods_.reset();
  } else {
    complete_ = false;
  }
  notes_.push_back({pods_path_, reader.error().text()});
}

std::shared_ptr<const CgroupReader> HeldTree::open_watched(const std::string& path,
                                                           WatchReaders& known) {
  auto& held = known[path];
  if (held && held->cgroup().still_at_path(tree_.memory_fd())) return held;
  held.reset();
  auto reader = CgroupReader::open_with_limit(tree_, path);
  if (reader) {
    held = std::make_shared<const CgroupReader>(std::move(reader).value());
  } else if (!kernel::is_removed(reader.error()) || tree_.open(path)) {
    // The cgroup still exists, so this is not a race: its memory controller is off.
    notes_.push_back({path, reader.error().text()});
  }
  return held;
}

std::vector<std::vector<std::string>> HeldTree::paths_to_watch() {
  const auto& thresholds = config_->thresholds;
  std::vector<std::vector<std::string>> wanted(thresholds.size());
  for (std::size_t i = 0; i < thresholds.size(); ++i) {
    const auto& threshold = thresholds[i];
    if (!is_of_watched_cgroup(threshold.signal) || threshold.own_limits_of) continue;
    const auto matched = tree_.match(threshold.cgroup, wanted[i]);
    if (matched) continue;
    // Unknown is not gone: what was watched stays watched.
    complete_ = false;
    notes_.push_back({threshold.cgroup, matched.error().text()});
    for (const Watched& each : watched_) {
      const std::string& path = each.reader->cgroup().path();
      if (each.threshold == i && kernel::glob_matches(threshold.cgroup, path)) {
        wanted[i].push_back(path);
      }
    }
    std::ranges::sort(wanted[i]);
    const auto repeated = std::ranges::unique(wanted[i]);
    wanted[i].erase(repeated.begin(), repeated.end());
  }
  bound_watched(tree_, *config_, wanted, notes_);
  return wanted;
}

void HeldTree::refresh_watched() {
  const auto wanted = paths_to_watch();
  WatchReaders known;
  for (const Watched& each : watched_) known.emplace(each.reader->cgroup().path(), each.reader);
  std::vector<Watched> watched;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const auto& path : wanted[i]) {
      if (auto reader = open_watched(path, known)) watched.push_back({reader, i});
    }
  }
  watched_ = std::move(watched);
}

// Slots of the BPF programs that are left: the node uses one, and explicitly watched cgroups come
// first.
void HeldTree::refresh_own_limits(const std::atomic<bool>& stop) {
  const std::size_t most = watched_cgroups_max(config_->watched_cgroups_max);
  const std::size_t slots = most - std::min(watched_.size(), most);
  own_limits_.refresh(*config_, workloads_.list(), slots, SystemClock().now(), stop, notes_);
}

void HeldTree::continue_from(HeldTree& before) {
  workloads_.continue_from(before.workloads_);
  own_limits_.continue_from(before.own_limits_);
}

void HeldTree::drop_watched(const std::vector<CgroupId>& removed) {
  const auto is_there = [&](const Watched& watched) {
    return std::ranges::find(removed, watched.reader->cgroup().id()) == removed.end();
  };
  const auto gone = std::ranges::stable_partition(watched_, is_there);
  std::ranges::move(gone, std::back_inserter(dropped_));
  watched_.erase(gone.begin(), gone.end());
}

}  // namespace forestall::sources
