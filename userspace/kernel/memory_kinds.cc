// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory_kinds.h"

#include <fcntl.h>

#include <algorithm>

#include "kernel/held_file.h"
#include "kernel/memory_files.h"

namespace forestall::kernel {
namespace {

std::optional<Bytes> without(std::optional<Bytes> whole, std::optional<Bytes> part) {
  if (!whole || !part) return whole;
  return std::max(*whole - *part, Bytes{0});
}

}  // namespace

Result<MemoryKinds> parse_memory_kinds(std::string_view memory_stat) {
  const MemoryStat stat = TRY(parse_memory_stat(memory_stat));
  return MemoryKinds{stat.anon, without(stat.file, stat.shmem), stat.shmem, stat.kernel};
}

Result<MemoryKinds> parse_node_kinds(std::string_view meminfo) {
  const Meminfo node = TRY(parse_meminfo(meminfo));
  return MemoryKinds{node.anon, without(node.cached, node.shmem), node.shmem, node.slab};
}

Result<MemoryKinds> memory_kinds(const CgroupDir& cgroup, CgroupVersion version) {
  const std::string stat = TRY(cgroup.read("memory.stat"));
  MemoryKinds kinds = TRY(parse_memory_kinds(stat));
  if (version == CgroupVersion::v2) return kinds;
  // Absent if the kernel was booted with cgroup.memory=nokmem.
  const auto text = cgroup.read("memory.kmem.usage_in_bytes");
  if (text) kinds.kernel = TRY(parse_amount(*text));
  return kinds;
}

Result<MemoryKinds> node_memory_kinds(const std::string& proc) {
  const std::string path = proc + "/meminfo";
  const HeldFile meminfo = TRY(HeldFile::open(AT_FDCWD, path.c_str(), path));
  std::string text;
  return parse_node_kinds(TRY(meminfo.read(text)));
}

}  // namespace forestall::kernel
