// SPDX-License-Identifier: Apache-2.0
#include "sources/held_workload.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace forestall::sources {

std::optional<LastReading> reading_of(const kernel::MemcgUsage& passed) {
  if (passed.removed || !passed.inactive_file) return std::nullopt;
  return LastReading{passed.usage, passed.inactive_file, passed.processes, /*from_pass=*/true};
}

MemoryKinds kinds_of(const kernel::MemcgUsage& passed) {
  MemoryKinds kinds;
  kinds.anon = passed.anon;
  kinds.shmem = passed.shmem;
  if (passed.inactive_file && passed.active_file) {
    kinds.file = *passed.inactive_file + *passed.active_file;
  }
  return kinds;
}

Result<WorkloadReaders> open_readers(const kernel::CgroupTree& tree, const std::string& path) {
  auto reader = TRY(CgroupReader::open(tree, path));
  ProcessCounter processes(reader.cgroup());
  return WorkloadReaders{std::move(reader), std::move(processes)};
}

std::size_t descriptors_for_workloads() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) / 2;
}

}  // namespace forestall::sources
