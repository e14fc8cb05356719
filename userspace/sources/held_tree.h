// SPDX-License-Identifier: Apache-2.0
// The cgroups that an observer reads, with their descriptors, from one refresh to the next: the
// pods cgroup, watched cgroups, workloads, and cgroups near a limit of their own.
//
// A refresh lists and opens cgroups, and so waits for kernfs locks that mkdir, rmdir and rename of
// any tenant take. An observer can therefore have a standby tree: a thread refreshes it while the
// loop reads by the other one, and the loop exchanges the two (tree_scanner.h). Each has
// descriptors of its own, because a read waits for another read of the same open file.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/observation.h"
#include "sources/cgroup_reader.h"
#include "sources/held_workloads.h"
#include "sources/new_cgroups.h"
#include "sources/own_limits.h"

namespace forestall::sources {

// Thread rule: one thread at a time. The thread that refreshes it frees what the other one dropped.
class HeldTree {
 public:
  struct Watched {
    std::shared_ptr<const CgroupReader> reader;  // all thresholds of one cgroup share it
    std::size_t threshold = 0;
  };

  // `tree` must outlive the object.
  HeldTree(const kernel::CgroupTree& tree, const std::string& proc);

  // The rules of the next refresh().
  void configure(std::shared_ptr<const Config> config) { config_ = std::move(config); }
  // Uses half of the descriptors that workloads may use: there are two trees.
  void share_descriptors() { workloads_.share_descriptors(); }
  // Keeps what still exists, opens what is new, closes what is gone. When `stop` becomes true it
  // ends before the next workload, incomplete. REQUIRES: configure().
  void refresh(const std::atomic<bool>& stop = kNeverStops);
  // Whether the last refresh could list everything. What it could not list it keeps from its own
  // refresh before, which is older than that of a tree in use meanwhile.
  [[nodiscard]] bool complete() const {
    return complete_ && workloads_.complete() && own_limits_.complete();
  }
  // What the last refresh could not open.
  [[nodiscard]] const std::vector<SourceNote>& notes() const { return notes_; }
  // This tree is in use from now on instead of `before`: takes over its last readings.
  void continue_from(HeldTree& before);
  // Removes watched cgroups that no longer exist. The next refresh closes them.
  void drop_watched(const std::vector<CgroupId>& removed);

  [[nodiscard]] const std::string& pods_path() const { return pods_path_; }
  [[nodiscard]] std::optional<CgroupReader>& pods() { return pods_; }
  [[nodiscard]] const std::vector<Watched>& watched() const { return watched_; }
  [[nodiscard]] HeldWorkloads& workloads() { return workloads_; }
  [[nodiscard]] OwnLimits& own_limits() { return own_limits_; }
  [[nodiscard]] NewCgroups& new_cgroups() { return new_cgroups_; }

 private:
  void watch_new_cgroups();
  void refresh_pods();
  void refresh_watched();
  void refresh_own_limits(const std::atomic<bool>& stop);
  using WatchReaders = std::map<std::string, std::shared_ptr<const CgroupReader>>;  // by path
  [[nodiscard]] std::shared_ptr<const CgroupReader> open_watched(const std::string& path,
                                                                 WatchReaders& known);
  // Paths to watch for each threshold.
  [[nodiscard]] std::vector<std::vector<std::string>> paths_to_watch();

  const kernel::CgroupTree& tree_;
  std::shared_ptr<const Config> config_;
  bool complete_ = true;
  std::vector<SourceNote> notes_;
  std::string pods_path_;
  std::optional<CgroupReader> pods_;
  std::vector<Watched> watched_;
  std::vector<Watched> dropped_;  // closed by the next refresh
  HeldWorkloads workloads_;
  OwnLimits own_limits_;
  NewCgroups new_cgroups_;
};

}  // namespace forestall::sources
