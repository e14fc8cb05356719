// SPDX-License-Identifier: Apache-2.0
// A workload with the descriptors that it is read by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/memcg_scan.h"
#include "model/memory_kinds.h"
#include "model/workload.h"
#include "sources/cgroup_reader.h"
#include "sources/inferred_facts.h"
#include "sources/process_counter.h"

namespace forestall::sources {

struct WorkloadReaders {
  CgroupReader cgroup;
  ProcessCounter processes;

  // The directory, two files, and those of the counter.
  [[nodiscard]] std::size_t descriptors() const { return 3 + processes.descriptors(); }
};

// Values of the last sample.
struct LastReading {
  std::optional<Bytes> usage;
  std::optional<Bytes> inactive_file;
  std::optional<std::uint64_t> processes;
  bool from_pass = false;  // memory: by kernel::MemcgScan, else by memory.stat, which lags
};

struct HeldWorkload {
  Workload workload;
  // Nullopt: too many workloads, or it could not be opened; opened for each read
  std::optional<WorkloadReaders> readers;
  bool removed = false;
  PodInference inference = {};
  std::optional<LastReading> last = std::nullopt;
};

// Nullopt: its memory is incomplete, or it was removed; its files have to be read. Processes may be
// unknown.
[[nodiscard]] std::optional<LastReading> reading_of(const kernel::MemcgUsage& passed);

// Kinds that the pass did not read stay unset, and `kernel` always. `file` is what reclaim can
// free, without locked pages.
[[nodiscard]] MemoryKinds kinds_of(const kernel::MemcgUsage& passed);

// ENOENT or ENODEV: there is no cgroup at `path`.
[[nodiscard]] Result<WorkloadReaders> open_readers(const kernel::CgroupTree& tree,
                                                   const std::string& path);

// Workloads may use half of the descriptors: a kill needs some for each process of its victim, and
// without any left the agent cannot read anything.
[[nodiscard]] std::size_t descriptors_for_workloads();

}  // namespace forestall::sources
