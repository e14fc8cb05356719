// SPDX-License-Identifier: Apache-2.0
// The observer reads fresh values for one decision: never a cached figure, never an average.
//
// Descriptors on the node's files and on every watched cgroup and workload are held open, so that
// a look under pressure opens nothing: a look is preads and parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/observation.h"
#include "sources/disk_walker.h"
#include "sources/filesystem_reader.h"
#include "sources/pod_statistics.h"
#include "sources/process_source.h"
#include "sources/task_reader.h"

namespace forestall::sources {

// What add_workloads() may spend on the kernel's points where the configuration ranks as the kernel
// does.
struct Scoring {
  bool wanted = true;
  // A scan of the processes for an observation made since then will do; nothing: only one of its
  // own.
  std::optional<MonotonicTime> since = std::nullopt;
};
inline constexpr Scoring kUnscored{false, std::nullopt};

class Observer {
 public:
  // `proc` is the procfs of the host. `tree` must outlive the observer.
  static Result<std::unique_ptr<Observer>> create(const kernel::CgroupTree& tree,
                                                  const Config& config,
                                                  const std::string& proc = "/proc");
  ~Observer();

  // Takes a new configuration; the next refresh() applies its rules.
  void configure(const Config& config);
  // Walks the tree for the pods cgroup, watched cgroups and workloads, and looks where the
  // filesystems are; keeps what is still there, opens what is new, closes what is gone. Costly: on
  // start, on reload, on workload_change and on recheck; not on the way from a crossing to a kill.
  // Returns what could not be opened.
  std::vector<SourceNote> refresh();

  // The cheap part: node, pods cgroup, watched cgroups, filesystems, tasks.
  [[nodiscard]] Observation observe(const Wake& wake, MonotonicTime now);
  // The costly part: usage, inactive_file and process count of every workload, or for a `subject`
  // that is not empty of those at, below and above it: the policy spares what lies in a protected
  // workload, and can only do so when it sees that one. Drops a workload whose cgroup was removed
  // meanwhile. Scoring, where it is wanted and configured, scans the whole node on the caller's
  // thread whatever the subject is: WorkloadScorer::scan() tells what that costs.
  void add_workloads(Observation& observation, std::string_view subject, Scoring scoring = {});

  // What a decision that cannot wait needs of observe(): fresh values of the subjects named (inode
  // 0: the node's memory) and nothing else. Everything else stays unknown.
  [[nodiscard]] Observation glance(const Wake& wake, MonotonicTime now,
                                   std::span<const CgroupId> subjects);
  // add_workloads() by parts, so that whoever has time ahead gives way to wakes in between, and
  // unscored: samples the next `count` of the workloads related to `subject`, from the `next`-th
  // known on, and moves `next`. False when that was the last. A refresh() in between starts it
  // over.
  [[nodiscard]] bool add_some_workloads(Observation& observation, std::string_view subject,
                                        std::size_t& next, std::size_t count);
  // Fresh usage of workloads sampled before, by identity, and where it moved by more than 256 KiB
  // fresh inactive_file too; drops those removed meanwhile. How many processes they have is not
  // counted again. REQUIRES: workloads are there.
  void resample_workloads(Observation& observation);

  // Where add_workloads() takes the kernel's points of every process from when the configuration
  // ranks as the kernel does; not owned, must outlive the observer. Null (at first): they stay
  // unscored.
  void set_processes(ProcessSource* processes);

  // What the workloads of `observation` occupy on disk: fills their statistics from the last walk
  // over the pods' files, and says in disk_usage_read whether that walk is recent enough to decide
  // on; with `since`, whether it also began no earlier. Nothing is read. REQUIRES: add_workloads()
  // before.
  void add_statistics(Observation& observation,
                      std::optional<MonotonicTime> since = std::nullopt) const;
  // Starts such a walk over all pods known, unless one is under way or the last one is not older
  // than `age_max`. Its end shows on the walker's descriptor (DiskUsageSource).
  void ask_disk_usage(MonotonicTime now, Duration age_max = DiskWalker::kAgeMax);
  // What the container runtime says of writable layers, from now on.
  void set_writable_layers(WritableLayers layers);
  // The working set of each container of one pod, by the names `workload.pod` knows them under,
  // else those of their cgroups: for the words about a victim. Opens files.
  void add_container_samples(WorkloadSample& sample);

  // These live as long as the observer.
  [[nodiscard]] DiskWalker& disk_walker();
  [[nodiscard]] FilesystemReader& filesystems();
  [[nodiscard]] const TaskReader& tasks() const;

  // Workloads known at the last refresh.
  [[nodiscard]] std::size_t workload_count() const;
  // Counts the refreshes that found other workloads than were known.
  [[nodiscard]] std::uint64_t workload_changes() const;
  [[nodiscard]] const std::string& pods_path() const;  // empty: no pods cgroup on this host

 private:
  class Reader;
  explicit Observer(std::unique_ptr<Reader> reader);
  std::unique_ptr<Reader> reader_;
};

}  // namespace forestall::sources
