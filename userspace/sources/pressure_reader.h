// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's memory pressure counters of the node, for recordings and pictures. No decision
// uses them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "kernel/held_file.h"
#include "model/pressure.h"

namespace forestall::sources {

// From the texts of /proc/pressure/memory and /proc/vmstat; missing values stay unset.
[[nodiscard]] MemoryPressure parse_memory_pressure(std::string_view psi, std::string_view vmstat);

// Thread rule: one thread.
class PressureReader {
 public:
  // Missing files are left out: PSI may be off. `proc` is the procfs of the host.
  explicit PressureReader(const std::string& proc = "/proc");

  // Two preads, about 30 us: the kernel sums /proc/vmstat over all CPUs each time.
  [[nodiscard]] MemoryPressure read(MonotonicTime now);

 private:
  std::optional<kernel::HeldFile> psi_;
  std::optional<kernel::HeldFile> vmstat_;
  std::string psi_buffer_;
  std::string vmstat_buffer_;
};

}  // namespace forestall::sources
