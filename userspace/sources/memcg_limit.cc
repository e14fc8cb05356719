// SPDX-License-Identifier: Apache-2.0
#include "sources/memcg_limit.h"

#include <fcntl.h>

#include <algorithm>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"

namespace forestall::sources {
namespace {

Result<std::optional<Bytes>> read_limit(const kernel::CgroupDir& cgroup, const char* file) {
  const auto text = TRY(cgroup.read(file));
  auto amount = kernel::parse_amount(text);
  if (!amount) return amount.error().in(cgroup.path() + "/" + file);
  return amount;
}

// The file is missing where swap is not accounted (swapaccount=0, or no CONFIG_SWAP); the kernel's
// counter is unlimited then.
Result<std::optional<Bytes>> read_swap_limit(const kernel::CgroupDir& cgroup, const char* file) {
  auto limit = read_limit(cgroup, file);
  if (!limit && limit.error().code == ENOENT) return std::optional<Bytes>();
  return limit;
}

Result<std::int64_t> to_swappiness(std::string_view text) {
  const auto value = parse_i64(trim(text));
  if (!value) return error("swappiness: not a number");
  return *value;
}

}  // namespace

Result<MemcgLimits> read_memcg_limits(const kernel::CgroupTree& tree,
                                      const kernel::CgroupDir& cgroup, const std::string& proc) {
  MemcgLimits limits;
  if (tree.version() == kernel::CgroupVersion::v1) {
    limits.memory = TRY(read_limit(cgroup, "memory.limit_in_bytes"));
    limits.memory_and_swap = TRY(read_swap_limit(cgroup, "memory.memsw.limit_in_bytes"));
    const auto text = TRY(cgroup.read("memory.swappiness"));
    limits.swappiness = TRY(to_swappiness(text));
    return limits;
  }
  limits.memory = TRY(read_limit(cgroup, "memory.max"));
  limits.swap = TRY(read_swap_limit(cgroup, "memory.swap.max"));
  const auto path = proc + "/sys/vm/swappiness";
  const auto file = TRY(kernel::HeldFile::open(AT_FDCWD, path.c_str(), path));
  std::string buffer;
  const auto text = TRY(file.read(buffer));
  limits.swappiness = TRY(to_swappiness(text));
  return limits;
}

std::optional<Pages> memcg_total_pages(const MemcgLimits& limits, Pages swap_pages,
                                       std::int64_t page_bytes) {
  if (!limits.memory) return std::nullopt;
  const Pages memory = limits.memory->count / page_bytes;
  Pages swap = swap_pages;
  if (limits.swap) swap = std::min(swap, limits.swap->count / page_bytes);
  if (limits.memory_and_swap) {
    // The kernel keeps it at least as large as the memory limit.
    const Pages both = limits.memory_and_swap->count / page_bytes;
    swap = std::min(swap, std::max<Pages>(both - memory, 0));
  }
  if (limits.swappiness == 0) swap = 0;
  return std::max<Pages>(memory + swap, 1);  // constrained_alloc: never 0
}

}  // namespace forestall::sources
