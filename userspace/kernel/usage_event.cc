// SPDX-License-Identifier: Apache-2.0
#include "kernel/usage_event.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>

namespace forestall::kernel {

Result<UsageEventFiles> open_usage_event_files(const CgroupDir& cgroup) {
  UsageEventFiles files;
  files.usage = TRY(cgroup.open_file("memory.usage_in_bytes", O_RDONLY));
  files.control = TRY(cgroup.open_file("cgroup.event_control", O_WRONLY));
  return files;
}

Result<UniqueFd> register_usage_event(const UsageEventFiles& files, Bytes line) {
  UniqueFd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event) return errno_error("eventfd", "for a usage threshold");
  const auto request = fmt::format("{} {} {}", event.get(), files.usage.get(), line.count);
  if (::write(files.control.get(), request.data(), request.size()) < 0) {
    return errno_error("write usage threshold to", "cgroup.event_control");
  }
  return event;
}

}  // namespace forestall::kernel
