// SPDX-License-Identifier: Apache-2.0
// Tasks on the node against their ceiling, as kubelet reads them (pkg/kubelet/stats/pidlimit/
// pidlimit_linux.go): capacity is the lesser of pid_max and threads-max, running the total in the
// fourth field of /proc/loadavg, which counts threads.
//
// loadavg and threads-max speak of the whole kernel. pid_max became a property of the pid namespace
// of who opens it (6.14, kernel/pid.c), so the agent must share the host's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/held_file.h"
#include "model/observation.h"

namespace forestall::sources {

// Tasks that exist, from the text of /proc/loadavg: 3518 of "0.00 0.01 0.05 2/3518 4711". Nothing
// if its fourth field is not of that form.
[[nodiscard]] std::optional<std::int64_t> parse_task_total(std::string_view loadavg);

class TaskReader {
 public:
  // Holds what is there of the three files. `proc` is the procfs of the host.
  explicit TaskReader(const std::string& proc);

  // Fresh values. A ceiling that cannot be read leaves the other one; without loadavg, sysinfo(2)
  // tells the tasks, 16 bits of them. What stays unknown gets a note.
  [[nodiscard]] TaskSample read(MonotonicTime now, std::vector<SourceNote>& notes) const;

 private:
  [[nodiscard]] std::optional<std::int64_t> capacity(std::vector<SourceNote>& notes) const;
  [[nodiscard]] std::optional<std::int64_t> running(std::vector<SourceNote>& notes) const;

  Result<kernel::HeldFile> pid_max_;
  Result<kernel::HeldFile> threads_max_;
  Result<kernel::HeldFile> loadavg_;
};

}  // namespace forestall::sources
