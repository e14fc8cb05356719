// SPDX-License-Identifier: Apache-2.0
// All workloads of the node with their descriptors, from one refresh of the tree to the next.
//
// A failed open is the agent's loss, not a property of the workload. EMFILE, ENFILE and ENOMEM
// therefore never remove a known workload from the candidates, nor make its values unknown: the
// policy evicts workloads without values first. It keeps the values that were last read.
//
// With a MemcgScan one pass in the kernel replaces the files of all workloads. A workload that is
// not in the pass, or not completely, or is removed, is read from its files, which prove that it
// was removed. Candidates are compared by values of one kind: where files serve, memory.stat is
// read again for those whose last values are from a pass.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_cgroup.h"
#include "kernel/memcg_scan.h"
#include "model/config.h"
#include "model/observation.h"
#include "sources/held_workload.h"
#include "sources/inferred_facts.h"
#include "sources/own_place.h"

namespace forestall::sources {

class HeldWorkloads {
 public:
  // `tree` must outlive this.
  HeldWorkloads(const kernel::CgroupTree& tree, const std::string& proc);

  // Keeps what still exists, opens what is new, closes what is gone. When `stop` becomes true it
  // ends, incomplete.
  void refresh(const Config& config, const std::string& pods_path, const std::atomic<bool>& stop,
               std::vector<SourceNote>& notes);

  [[nodiscard]] std::size_t size() const { return workloads_.size(); }
  [[nodiscard]] const Workload& at(std::size_t index) const { return workloads_[index].workload; }
  // Source of all cgroups in one pass; null (initially): files only. Not owned.
  void set_scan(kernel::MemcgScan* scan);
  // Reads all cgroups if that costs less than `wanted` workloads do by their files; else, and if it
  // fails, files serve the samples that follow. Without a call they use the last pass. `urgent`: a
  // kill waits for it. Else the number of cgroups is found again if it may have become smaller.
  void begin_samples(std::size_t wanted, bool urgent, std::vector<SourceNote>& notes);
  // Reads all cgroups if that costs less than the files of `wanted` cgroups do. False: it did not,
  // and samples that were begun go on as before.
  [[nodiscard]] bool pass_for(std::size_t wanted, bool urgent, std::vector<SourceNote>& notes);
  // The descriptors of a workload. Nullopt: it is none, or it could not be opened.
  [[nodiscard]] std::optional<kernel::HeldCgroup> held(CgroupId cgroup) const;
  // What the last pass read of any cgroup; null: files serve, or it was not read completely.
  [[nodiscard]] const kernel::MemcgUsage* passed(CgroupId cgroup) const;
  // kinds_of() that cgroup, by a pass of its own. All are unset if the pass failed, and on a node
  // with so many cgroups that it would take too long.
  [[nodiscard]] MemoryKinds read_kinds(CgroupId cgroup, std::vector<SourceNote>& notes);
  // Whether the last pass is too old for further samples.
  [[nodiscard]] bool pass_expired() const;
  // Whether the last refresh could list everything.
  [[nodiscard]] bool complete() const { return complete_; }

  // Appends a sample, unless the workload was removed or never read.
  void sample(std::size_t index, std::vector<WorkloadSample>& samples,
              std::vector<SourceNote>& notes);
  // Fresh usage and process count; inactive_file only if usage moved. False: it was removed.
  [[nodiscard]] bool resample(WorkloadSample& sample, std::vector<SourceNote>& notes);
  // Drops those that sample() found removed. The next refresh() closes them.
  void drop_removed();
  // Holds half as many descriptors from the next refresh() on.
  void share_descriptors() { descriptors_max_ /= 2; }
  // These workloads are in use from now on instead of `before`: takes over the values that were
  // last read and the scan, and counts on.
  void continue_from(HeldWorkloads& before);

  [[nodiscard]] std::vector<const Workload*> list() const;
  // Number of changes of the set: by refresh(), or by drop_removed().
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  // How often a known workload could not be opened.
  [[nodiscard]] std::uint64_t unread() const { return unread_; }

 private:
  // A loss of one refresh.
  struct Loss {
    std::size_t workloads = 0;
    std::string problem;  // of the first one
  };
  // `before`: the workload of the same path at the last refresh, or null.
  void add(Workload workload, HeldWorkload* before, Loss& loss, std::vector<SourceNote>& notes);
  [[nodiscard]] WorkloadReaders* readers_of(HeldWorkload& held,
                                            std::optional<WorkloadReaders>& opened,
                                            std::vector<SourceNote>& notes);
  [[nodiscard]] std::optional<std::uint64_t> count_processes(WorkloadReaders& readers,
                                                             const std::string& path,
                                                             std::vector<SourceNote>& notes);

  // Whether it succeeded.
  bool pass(const kernel::MemcgQuery& query, std::vector<SourceNote>& notes);
  [[nodiscard]] bool pass_is_cheaper(std::size_t wanted, bool urgent) const;
  // Values of the pass; nullopt: files have to be read.
  [[nodiscard]] std::optional<LastReading> take_from_pass(HeldWorkload& held,
                                                          std::vector<SourceNote>& notes);

  const kernel::CgroupTree& tree_;
  bool complete_ = true;
  kernel::MemcgScan* scan_ = nullptr;
  MonotonicTime pass_again_{};
  // Cgroups of the last pass, halved at each rescan: without a pass it is not known that they left.
  std::size_t pass_size_ = 0;
  bool pass_failed_ = false;                // the last one: its size is not known
  std::optional<MonotonicTime> passed_at_;  // nullopt: files serve the samples
  OwnPlace self_;
  OwnPlace init_;
  const InferenceHost inference_host_;
  std::vector<HeldWorkload> workloads_;  // sorted by path
  std::vector<HeldWorkload> dropped_;
  std::size_t next_ = 0;         // index after that of the last resample()
  std::size_t descriptors_ = 0;  // held on workloads_
  std::size_t descriptors_max_ = descriptors_for_workloads();
  std::uint64_t changes_ = 0;
  std::uint64_t unread_ = 0;
  std::string buffer_;
};

}  // namespace forestall::sources
