// SPDX-License-Identifier: Apache-2.0
// The kernel's time to unmap an address space: the minimum cost of any kill.
//
//   bench_unmap SIZE TIMES
//
// Fills SIZE as a leaking pod does and unmaps it, TIMES times. Prints, as facts of a run, the size,
// the median time, and the part in huge pages, which are freed hundreds of times faster. Uses less
// memory if the node has less than twice as much available, and none if that is hardly any, because
// what a run left must not be killed for this. Runs before all others, to measure the kernel's time
// without their load.
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "heap.h"
#include "text_file.h"

namespace forestall::bench {
namespace {

constexpr std::int64_t kLeast = std::int64_t{16} << 20;

int run(std::int64_t wanted, int times) {
  const std::int64_t available = number_after(read_file("/proc/meminfo"), "MemAvailable") * 1024;
  const std::int64_t size = std::min(wanted, available / 2) / kPage * kPage;
  if (size < kLeast) return 0;
  const sched_param priority{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) fail("SCHED_FIFO");
  std::vector<std::int64_t> took;
  std::int64_t huge_kib = 0;
  for (int i = 0; i < times; ++i) {
    Heap heap(size);
    heap.grow(size);
    huge_kib = number_after(read_file("/proc/self/smaps_rollup"), "AnonHugePages");
    const std::int64_t before = monotonic_us();
    heap.release();
    took.push_back(monotonic_us() - before);
  }
  std::sort(took.begin(), took.end());
  std::printf("unmap_kib %lld\nunmap_us %lld\nunmap_huge_kib %lld\n",
              static_cast<long long>(size / 1024), static_cast<long long>(took[took.size() / 2]),
              static_cast<long long>(huge_kib));
  return 0;
}

}  // namespace
}  // namespace forestall::bench

int main(int argc, char** argv) {
  using namespace forestall::bench;
  const int times = argc == 3 ? std::atoi(argv[2]) : 0;
  if (times < 1) {
    std::fputs("usage: bench_unmap SIZE TIMES\n", stderr);
    return 2;
  }
  return run(parse_bytes(argv[1]), times);
}
