// SPDX-License-Identifier: Apache-2.0
// What every BPF object of ours is told about the machine before it is loaded.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace forestall::kernel {

// A bound on how fast memory can be filled here, in bytes per microsecond: clocks look at a subject
// again after headroom / this. A page fault that zeroes 4 KiB takes about 2 µs on the machines
// measured and huge pages are a few times faster, so one CPU is credited with 4 GiB/s; the sum
// stops where memory buses do. Too high only costs looks, too low is late.
[[nodiscard]] std::uint64_t fastest_fill_bytes_per_us();

// log2 of the page size.
[[nodiscard]] std::uint32_t page_shift();

// Numbers of the possible CPUs or nodes, from a list file such as
// /sys/devices/system/cpu/possible; empty when they cannot be known.
[[nodiscard]] std::vector<std::uint32_t> possible_numbers(const char* list);

// EPERM in any pid namespace but the initial one: the programs tell and take pids of that one, and
// elsewhere a number would point at a stranger.
[[nodiscard]] Result<void> require_initial_pid_namespace();

}  // namespace forestall::kernel
