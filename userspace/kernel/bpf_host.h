// SPDX-License-Identifier: Apache-2.0
// Facts about the machine that each BPF object needs before it is loaded.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace forestall::kernel {

// Upper bound on the rate at which memory can be filled, in bytes per microsecond. The BPF clocks
// read a subject again after headroom / this rate. A page fault that zeroes 4 KiB takes about 2 µs
// on the machines measured, and huge pages are a few times faster, so each CPU counts 4 GiB/s, up
// to the rate of a memory bus. Too high a bound costs reads; too low a bound detects crossings
// late.
[[nodiscard]] std::uint64_t fastest_fill_bytes_per_us();

// log2 of the page size.
[[nodiscard]] std::uint32_t page_shift();

// Numbers of the possible CPUs or nodes, from a list file such as
// /sys/devices/system/cpu/possible; empty if it cannot be read.
[[nodiscard]] std::vector<std::uint32_t> possible_numbers(const char* list);

// EPERM, with the remedy, in any pid namespace except the initial one. BPF programs use its pids.
// In another one, cgroup.procs omits the processes of other pods or shows them as 0: every pod
// evaluations empty, and no process of it can be signalled.
[[nodiscard]] Result<void> require_initial_pid_namespace();

}  // namespace forestall::kernel
