// SPDX-License-Identifier: Apache-2.0
// The guard's lists in the memory-mapped arrays that the programs share.
#pragma once

#include <bpf/libbpf.h>
#include <forestall_guard.skel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "bpf/abi/guard.h"
#include "kernel/guard.h"
#include "kernel/mapped_array.h"

namespace forestall::kernel {

// Thread rule: one thread writes; the programs read at the same time.
class MappedLists {
 public:
  static Result<MappedLists> map(const forestall_guard& skeleton) {
    const auto& maps = skeleton.maps;
    auto slots = TRY(MappedArray<abi_guard_slot>::map(bpf_map__fd(maps.guard_slots),
                                                      ABI_GUARD_SLOTS, "BPF map guard_slots"));
    auto workloads = TRY(MappedArray<abi_standing_workload>::map(
        bpf_map__fd(maps.standing_workloads), std::size_t{2} * ABI_STANDING_WORKLOADS,
        "BPF map standing_workloads"));
    auto processes = TRY(MappedArray<abi_guard_victim>::map(bpf_map__fd(maps.standing_processes),
                                                            std::size_t{2} * ABI_STANDING_PROCESSES,
                                                            "BPF map standing_processes"));
    return MappedLists(std::move(slots), std::move(workloads), std::move(processes));
  }

  [[nodiscard]] std::uint64_t firings(std::size_t slot) const {
    return __atomic_load_n(&slots_.data()[slot].firings, __ATOMIC_ACQUIRE);
  }
  [[nodiscard]] bool published(std::size_t slot) const {
    return __atomic_load_n(&slots_.data()[slot].published, __ATOMIC_RELAXED) != 0;
  }
  void withdraw(std::size_t slot) {
    __atomic_store_n(&slots_.data()[slot].published, 0, __ATOMIC_SEQ_CST);
  }
  // Fills the bank that is not in force, then publishes it. A program that reads any of the new
  // list must also read that the bank is no longer in force, so the stores before come first.
  void publish(std::size_t slot, const abi_guard_list& list) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    slots_.data()[slot].banks[list.generation % 2] = list;
    __atomic_store_n(&slots_.data()[slot].published, list.generation, __ATOMIC_SEQ_CST);
  }
  // The same for the standing list, whose workloads and processes have maps of their own.
  void publish(const abi_guard_list& list, const StandingGuardList& standing) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    const std::size_t bank = list.generation % 2;
    std::copy_n(standing.workloads.begin(), list.workload_count,
                workloads_.data() + bank * ABI_STANDING_WORKLOADS);
    std::copy_n(standing.processes.begin(),
                std::min<std::size_t>(standing.processes.size(), ABI_STANDING_PROCESSES),
                processes_.data() + bank * ABI_STANDING_PROCESSES);
    publish(ABI_GUARD_STANDING, list);
  }

 private:
  MappedLists(MappedArray<abi_guard_slot> slots, MappedArray<abi_standing_workload> workloads,
              MappedArray<abi_guard_victim> processes)
      : slots_(std::move(slots)),
        workloads_(std::move(workloads)),
        processes_(std::move(processes)) {}
  MappedArray<abi_guard_slot> slots_;
  MappedArray<abi_standing_workload> workloads_;
  MappedArray<abi_guard_victim> processes_;
};

}  // namespace forestall::kernel
