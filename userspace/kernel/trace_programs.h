// SPDX-License-Identifier: Apache-2.0
// The programs of `forestall trace` (bpf/trace.bpf.c): a BPF object that nobody else loads.
//
// What this kernel has no hook for, or does not permit, is left out and said so; what is not asked
// for is not attached, and costs nothing.
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

struct TraceAsked {
  TraceKinds kinds = TraceKinds().set();
  bool tells = true;                               // records
  bool tells_begins = false;                       // also when something begins
  bool sums = false;                               // by cgroup
  bool filters = false;                            // only what lies in a cgroup of want()
  Duration shortest{0};                            // what is shorter is summed in the totals only
  std::size_t ring_bytes = std::size_t{16} << 20;  // a power of two, at least a page
};

// Whether a kind is seen, and what that rests on or what keeps it from being seen.
struct TraceKindReport {
  abi_trace_kind kind = ABI_TRACE_memcg_reclaim;
  FeatureState state = FeatureState::in_use;
  std::string evidence = {};
};

// Sums by cgroup and kind since the programs were loaded, or since the last that were taken out.
struct TraceSum {
  CgroupId cgroup;
  abi_trace_kind kind = ABI_TRACE_memcg_reclaim;
  abi_trace_sum sum{};
  bool last = false;  // they were taken out: what may come yet is counted from nothing
};

// The name of a kind in its abi: "memcg_reclaim".
[[nodiscard]] const char* trace_kind_name(abi_trace_kind kind);

// Thread rule: one thread.
class TracePrograms {
 public:
  // Loads and attaches what is asked for and may be had. An error: nothing of it may.
  // `disabled`: bpf turns all of it off, bpf_stall what needs fentry.
  static Result<std::unique_ptr<TracePrograms>> load(const TraceAsked& asked,
                                                     const CgroupTree& tree,
                                                     const FeatureSet& disabled);
  ~TracePrograms();

  // One for each kind that was asked for.
  [[nodiscard]] const std::vector<TraceKindReport>& reports() const;

  // Adds a cgroup, and what lies below it, to those that are asked for. ENOSPC: there are
  // ABI_TRACE_WANTED.
  [[nodiscard]] Result<void> want(CgroupId cgroup);
  // It was removed: makes room for another.
  void unwant(CgroupId cgroup);

  // Ring of records: pollable descriptor, and a drain that never blocks. A record lives until its
  // visit returns; one of kind oom_kill or path is the head of a longer one.
  [[nodiscard]] int ring_fd() const;
  // Returns how many were visited: kDrainMax at most, so that whoever reads more slowly than the
  // kernel writes still comes to look at anything else.
  static constexpr std::size_t kDrainMax = 65536;
  std::size_t drain(const std::function<void(const abi_trace_event&)>& visit);
  // To be called before waiting at ring_fd(): the next record wakes. Without it none does, and
  // whoever reads looks again by itself.
  void about_to_wait();

  // Nothing more happens to the totals: what is in the ring is all there will be.
  void stop();

  // Runs of programs that the kernel passed over because the same one was under way on that CPU,
  // interrupted: none of the totals knows of them (kernel/bpf/trampoline.c,
  // kernel/trace/bpf_trace.c).
  [[nodiscard]] std::uint64_t passed_over() const;

  // Summed over CPUs.
  [[nodiscard]] Result<abi_trace_totals> totals() const;
  // In no order. Those of a cgroup that `gone` says is gone are taken out, which makes room for
  // others: nobody is in it who could add to them but a task that is ending.
  using Gone = std::function<bool(CgroupId)>;
  [[nodiscard]] Result<std::vector<TraceSum>> sums(const Gone& gone = nullptr) const;

 private:
  class Loaded;
  explicit TracePrograms(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
