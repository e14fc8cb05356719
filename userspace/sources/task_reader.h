// SPDX-License-Identifier: Apache-2.0
// Tasks on the node and their limit, as kubelet reads them (pkg/kubelet/stats/pidlimit/
// pidlimit_linux.go): capacity is the smaller of pid_max and threads-max; running is the total in
// the fourth field of /proc/loadavg, which counts threads.
//
// loadavg and threads-max cover the whole kernel. From 6.14 on, pid_max belongs to the pid
// namespace of the process that opens it (kernel/pid.c), so the agent must share the host's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/held_file.h"
#include "model/observation.h"

namespace forestall::sources {

// Existing tasks, from the text of /proc/loadavg: 3518 of "0.00 0.01 0.05 2/3518 4711". Nullopt if
// its fourth field has another form.
[[nodiscard]] std::optional<std::int64_t> parse_task_total(std::string_view loadavg);

class TaskReader {
 public:
  // Opens those of the three files that exist. `proc` is the procfs of the host.
  explicit TaskReader(const std::string& proc);

  // Fresh values. If one limit cannot be read, the other one counts. Without loadavg, sysinfo(2)
  // provides the number of tasks in 16 bits. Unknown values get a note.
  [[nodiscard]] TaskSample read(MonotonicTime now, std::vector<SourceNote>& notes) const;

 private:
  [[nodiscard]] std::optional<std::int64_t> capacity(std::vector<SourceNote>& notes) const;
  [[nodiscard]] std::optional<std::int64_t> running(std::vector<SourceNote>& notes) const;

  Result<kernel::HeldFile> pid_max_;
  Result<kernel::HeldFile> threads_max_;
  Result<kernel::HeldFile> loadavg_;
};

}  // namespace forestall::sources
