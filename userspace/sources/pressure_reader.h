// SPDX-License-Identifier: Apache-2.0
// Reads what the kernel counts of memory pressure on the node: for recordings and pictures. Nothing
// is decided by it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "kernel/held_file.h"
#include "model/pressure.h"

namespace forestall::sources {

// From the texts of /proc/pressure/memory and /proc/vmstat; what they lack is absent.
[[nodiscard]] MemoryPressure parse_memory_pressure(std::string_view psi, std::string_view vmstat);

// Thread rule: one thread.
class PressureReader {
 public:
  // Files that are not there are left out: PSI may be off. `proc` is the procfs of the host.
  explicit PressureReader(const std::string& proc = "/proc");

  // Two preads, some 30 us: /proc/vmstat is summed over all CPUs for each.
  [[nodiscard]] MemoryPressure read(MonotonicTime now);

 private:
  std::optional<kernel::HeldFile> psi_;
  std::optional<kernel::HeldFile> vmstat_;
  std::string psi_buffer_;
  std::string vmstat_buffer_;
};

}  // namespace forestall::sources
