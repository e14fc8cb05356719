// SPDX-License-Identifier: Apache-2.0
// The observer reads fresh values for one decision: never a cached figure, never an average.
//
// It holds descriptors on the node's files and on every watched cgroup and workload, so an
// evaluation under pressure opens nothing: it only reads and parses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_cgroup.h"
#include "kernel/memcg_scan.h"
#include "model/config.h"
#include "model/observation.h"
#include "sources/disk_walker.h"
#include "sources/filesystem_reader.h"
#include "sources/held_tree.h"
#include "sources/pod_statistics.h"
#include "sources/process_source.h"
#include "sources/task_reader.h"

namespace forestall::sources {

// Whether add_workloads() also computes the kernel's badness points, if the configuration ranks as
// the kernel does.
struct Scoring {
  bool wanted = true;
  // The oldest process scan to reuse; nullopt: always a new scan.
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
  // Walks the tree for the pods cgroup, watched cgroups and workloads, and locates the filesystems.
  // Keeps what still exists, opens what is new, closes what is gone. Expensive: called on start,
  // reload, workload_change and recheck, not between a crossing and a kill. Returns what could not
  // be opened.
  std::vector<SourceNote> refresh();

  // refresh() on another thread (agent/tree_scanner.h): it refreshes a standby tree, which is then
  // exchanged for the one in use.
  //
  // Makes the standby tree; without it take_standby_tree() returns null. REQUIRES: no refresh()
  // before.
  void make_standby_tree();
  // Null if it is taken already.
  [[nodiscard]] std::unique_ptr<HeldTree> take_standby_tree();
  // Takes it back unused.
  void put_standby_tree(std::unique_ptr<HeldTree> standby);
  // The refreshed tree is in use from now on, as if this were its refresh(). Opens no cgroup.
  std::vector<SourceNote> exchange_tree(std::unique_ptr<HeldTree> refreshed);

  // Whether a cgroup that refresh() would find may have come since. Costs one system call.
  [[nodiscard]] bool has_new_cgroups();
  // Their paths, each with all that lies below it. Nullopt: they are not all known.
  [[nodiscard]] std::optional<std::span<const std::string>> new_cgroups();

  // The cheap part: node, pods cgroup, watched cgroups, filesystems, tasks.
  [[nodiscard]] Observation sample_node(const Wake& wake, MonotonicTime now);
  // The expensive part: usage, inactive_file and process count of every workload. If one pass in
  // the kernel reads them, it replaces usage and inactive_file of the cgroups of sample_node() too:
  // their memory.stat may be two seconds old while their children grow. With a `subject`,
  // only the workloads at, below and above it: the policy spares a workload inside a protected one,
  // and needs that one for it. Drops workloads whose cgroup was removed meanwhile. Scoring, if
  // wanted and configured, scans the whole node on the caller's thread whatever the subject is; see
  // WorkloadScorer::scan() for its cost.
  void add_workloads(Observation& observation, std::string_view subject, Scoring scoring = {});

  // For an urgent decision: fresh values of the named subjects only (inode 0:
  // the node's memory). All other values stay unset.
  [[nodiscard]] Observation sample_subjects(const Wake& wake, MonotonicTime now,
                                            std::span<const CgroupId> subjects);
  // add_workloads() in parts and without scores, so that the caller can handle wakes in between.
  // Samples the next `count` workloads related to `subject`, starting at index `next`, and advances
  // `next`. Returns false after the last one. A refresh() in between restarts it.
  [[nodiscard]] bool add_some_workloads(Observation& observation, std::string_view subject,
                                        std::size_t& next, std::size_t count);
  // Fresh usage and process counts of the workloads sampled before, matched by identity. Where
  // usage moved by more than 256 KiB, also fresh inactive_file. Drops removed workloads. REQUIRES:
  // workloads are there.
  void resample_workloads(Observation& observation);

  // Source of the kernel's points for add_workloads(). Not owned; must outlive the observer. Null
  // (initially): workloads stay unscored.
  void set_processes(ProcessSource* processes);

  // Reads all workloads in one pass in the kernel. Not owned; must outlive the observer, and
  // nothing else may use it. Null (initially): files.
  void set_memcgs(kernel::MemcgScan* scan);

  // Fills the statistics of the workloads from the last walk over the pods' files. Sets
  // disk_usage_read if that walk is recent enough to decide on and, with `since`, began no earlier.
  // Reads nothing. REQUIRES: add_workloads() before.
  void add_statistics(Observation& observation,
                      std::optional<MonotonicTime> since = std::nullopt) const;
  // Starts such a walk over all known pods, unless one is running or the last one is at most
  // `age_max` old. The walker's descriptor (DiskUsageSource) signals its end.
  void request_disk_usage(MonotonicTime now, Duration age_max = DiskWalker::kAgeMax);
  // Replaces the writable layers reported by the container runtime.
  void set_writable_layers(WritableLayers layers);
  // The working set of each container of one pod, named as in `workload.pod`, otherwise after its
  // cgroup. Used in the message about a victim. Opens files.
  void add_container_samples(WorkloadSample& sample);

  // What the memory of this cgroup, with its descendants, consists of. memory.stat of a cgroup with
  // children may be two seconds old while they grow (kernel/memcg_scan.h), so all that one pass in
  // the kernel reads is taken from there. Nullopt: memory.stat cannot be read.
  [[nodiscard]] std::optional<MemoryKinds> memory_kinds(const kernel::CgroupDir& cgroup,
                                                        std::vector<SourceNote>& notes);

  // These live as long as the observer.
  [[nodiscard]] DiskWalker& disk_walker();
  [[nodiscard]] FilesystemReader& filesystems();
  [[nodiscard]] const TaskReader& tasks() const;

  // Workloads known at the last refresh.
  [[nodiscard]] std::size_t workload_count() const;
  // The same, each with what is declared or inferred of it; valid until the next call.
  [[nodiscard]] std::vector<const Workload*> workloads() const;
  // The open directory and usage file of one of them. Opens nothing. Nullopt: there are too many
  // workloads to hold all of them open, or it is none.
  [[nodiscard]] std::optional<kernel::HeldCgroup> held(CgroupId cgroup) const;
  // Number of changes of the set of workloads, by a refresh or because a removed one was dropped.
  [[nodiscard]] std::uint64_t workload_changes() const;
  // How often a known workload could not be opened; see HeldWorkloads.
  [[nodiscard]] std::uint64_t unread_workloads() const;
  [[nodiscard]] const std::string& pods_path() const;  // empty: no pods cgroup on this host

 private:
  class Reader;
  explicit Observer(std::unique_ptr<Reader> reader);
  std::unique_ptr<Reader> reader_;
};

}  // namespace forestall::sources
