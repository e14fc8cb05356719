// SPDX-License-Identifier: Apache-2.0
#include "sources/shared_memory.h"

#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace forestall::sources {
namespace {

// One sample of each address space found so far, in the order of `compare`. Processes exec and exit
// meanwhile, so the order may be inconsistent. A binary search stays within its bounds even then;
// std::sort() would not.
class Spaces {
 public:
  Spaces(std::vector<ProcessSample>& samples, const MemoryOrder& compare)
      : samples_(samples), compare_(compare) {}

  // The id of the address space of `owner`; 0 if unknown.
  std::uint64_t id_of(const MemoryOwner& owner) {
    bool compared = false;
    std::size_t first = 0;
    std::size_t last = known_.size();
    while (first != last) {
      const std::size_t middle = first + (last - first) / 2;
      const MemoryOwner& other = known_[middle];
      const auto order = compare_(owner.thread, other.thread);
      if (!order) {
        if (order.error().code != ESRCH || !compare_(owner.thread, owner.thread)) return 0;
        // The other process has exited: it gives no order for the living ones.
        known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(middle));
        --last;
        continue;
      }
      compared = true;
      if (*order == std::strong_ordering::equal) return samples_[other.sample].memory_id;
      if (*order == std::strong_ordering::less) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    // Without permission it may share the memory of a later process.
    if (!compared && !compare_(owner.thread, owner.thread)) return 0;
    known_.insert(known_.begin() + static_cast<std::ptrdiff_t>(first), owner);
    return static_cast<std::uint64_t>(samples_[owner.sample].id.pid);
  }

 private:
  std::vector<ProcessSample>& samples_;
  const MemoryOrder& compare_;
  std::vector<MemoryOwner> known_;
};

}  // namespace

Result<std::strong_ordering> kcmp_memory(pid_t a, pid_t b) {
  switch (::syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0)) {
    case 0: return std::strong_ordering::equal;
    case 1: return std::strong_ordering::less;
    case 2: return std::strong_ordering::greater;
    case 3: return Error{ENOTSUP, "kcmp: the kernel has no order for these processes"};
    default: return errno_error("kcmp", fmt::format("{} and {}", a, b));
  }
}

void report_shared_memory(std::vector<ProcessSample>& samples, std::vector<MemoryOwner>& owners,
                          const MemoryOrder& compare) {
  std::ranges::sort(owners, [](const MemoryOwner& a, const MemoryOwner& b) {
    return a.layout != b.layout ? a.layout < b.layout : a.sample < b.sample;
  });
  for (auto begin = owners.begin(); begin != owners.end();) {
    const auto end = std::find_if(begin, owners.end(), [&](const MemoryOwner& owner) {
      return owner.layout != begin->layout;
    });
    const bool alone = end - begin == 1;
    Spaces spaces(samples, compare);
    for (; begin != end; ++begin) {
      auto& sample = samples[begin->sample];
      sample.memory_id = 0;
      if (!begin->layout.known()) continue;
      sample.memory_id = alone ? static_cast<std::uint64_t>(sample.id.pid) : spaces.id_of(*begin);
    }
  }
}

}  // namespace forestall::sources
