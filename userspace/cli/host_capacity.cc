// SPDX-License-Identifier: Apache-2.0
#include "cli/host_capacity.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/parse.h"
#include "intake/config_file.h"
#include "kernel/memory_files.h"

namespace forestall::cli {
namespace {

Result<std::int64_t> read_number(const char* path) {
  const std::string text = TRY(intake::read_text_file(path));
  const auto number = parse_i64(trim(text));
  if (!number) return error(fmt::format("{}: not a number", path));
  return *number;
}

}  // namespace

Result<policy::NodeCapacity> host_capacity(const std::string& nodefs) {
  policy::NodeCapacity capacity;
  const std::string text = TRY(intake::read_text_file("/proc/meminfo"));
  const auto meminfo = TRY(kernel::parse_meminfo(text));
  if (!meminfo.total) return error("/proc/meminfo: no MemTotal");
  capacity.memory = binary(meminfo.total->count);
  capacity.cpu = decimal(sysconf(_SC_NPROCESSORS_ONLN));
  // If the kubelet's directory does not exist yet, use its nearest existing parent.
  std::string path = nodefs;
  struct statvfs filesystem {};
  while (statvfs(path.c_str(), &filesystem) != 0) {
    if (errno != ENOENT || path == "/") return errno_error("statvfs", path);
    path.resize(std::max<std::size_t>(path.find_last_of('/'), 1));
  }
  capacity.ephemeral_storage =
      binary(static_cast<std::int64_t>(filesystem.f_blocks * filesystem.f_frsize));
  const std::int64_t pid_max = TRY(read_number("/proc/sys/kernel/pid_max"));
  const std::int64_t threads_max = TRY(read_number("/proc/sys/kernel/threads-max"));
  capacity.pids = decimal(std::min(pid_max, threads_max));
  return capacity;
}

}  // namespace forestall::cli
