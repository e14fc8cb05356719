// SPDX-License-Identifier: Apache-2.0
// The programs of `forestall trace` (bpf/trace.bpf.c), a separate BPF object.
//
// Kinds for which this kernel lacks or refuses a hook are left out and reported. Programs of kinds
// that were not requested are not attached.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bpf/abi/trace.h"
#include "kernel/cgroup_tree.h"
#include "model/feature.h"
#include "model/ids.h"

namespace forestall::kernel {

using TraceKinds = std::bitset<ABI_TRACE_KIND_COUNT>;

struct TraceSelection {
  TraceKinds kinds = TraceKinds().set();
  bool reports_events = true;                      // records
  bool reports_begins = false;                     // records of begins too
  bool sums = false;                               // by cgroup
  bool filters = false;                            // only spans in a cgroup of include_cgroup()
  Duration shortest{0};                            // shorter spans count in the totals only
  std::size_t ring_bytes = std::size_t{16} << 20;  // a power of two, at least a page
};

// Whether a kind is traced, with the hooks in use or the reason why not.
struct TraceKindReport {
  abi_trace_kind kind = ABI_TRACE_memcg_reclaim;
  FeatureState state = FeatureState::in_use;
  std::string evidence = {};
};

// Sums by cgroup and kind since the programs were loaded, or since the last sums were removed.
struct TraceSum {
  CgroupId cgroup;
  abi_trace_kind kind = ABI_TRACE_memcg_reclaim;
  abi_trace_sum sum{};
  bool last = false;  // they were removed from the map: later spans count from 0
};

// Thread rule: one thread.
class TracePrograms {
 public:
  // Loads and attaches the requested kinds that are available. An error: none is. `disabled`: bpf
  // turns all kinds off, bpf_stall those that need fentry.
  static Result<std::unique_ptr<TracePrograms>> load(const TraceSelection& selection,
                                                     const CgroupTree& tree,
                                                     const FeatureSet& disabled);
  ~TracePrograms();

  // One for each requested kind.
  [[nodiscard]] const std::vector<TraceKindReport>& reports() const;

  // Adds a cgroup and its descendants to the filter. ENOSPC: the filter has ABI_TRACE_WANTED
  // cgroups.
  [[nodiscard]] Result<void> include_cgroup(CgroupId cgroup);
  // Removes a cgroup from the filter, after the cgroup itself was removed.
  void unwant(CgroupId cgroup);

  // Ring of records: a pollable descriptor, and a drain that never blocks. A record is valid until
  // its visit returns; one of kind oom_kill or path is the head of a longer one.
  [[nodiscard]] int ring_fd() const;
  // Returns the number of records visited, at most kDrainMax, so that a caller that reads more
  // slowly than the kernel writes still handles its other work.
  static constexpr std::size_t kDrainMax = 65536;
  std::size_t drain(const std::function<void(const abi_trace_event&)>& visit);
  // Call this before a wait on ring_fd(): the next record then wakes the caller. Otherwise no
  // record does, and the caller polls.
  void about_to_wait();

  // Detaches the programs: the totals and the ring do not change any more.
  void stop();

  // Program runs that the kernel skipped because the same program was already running, interrupted,
  // on that CPU (kernel/bpf/trampoline.c, kernel/trace/bpf_trace.c). No total includes them.
  [[nodiscard]] std::uint64_t passed_over() const;

  // Summed over CPUs.
  [[nodiscard]] Result<abi_trace_totals> totals() const;
  // In no order. If `gone` returns true for a cgroup, its sums are removed, which frees their
  // entries: only an exiting task could still add to them.
  using Gone = std::function<bool(CgroupId)>;
  [[nodiscard]] Result<std::vector<TraceSum>> sums(const Gone& gone = nullptr) const;

 private:
  class Loaded;
  explicit TracePrograms(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
