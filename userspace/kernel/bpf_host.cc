// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_host.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <string>

#include "bpf/abi/task.h"
#include "kernel/held_file.h"
#include "kernel/number_list.h"

namespace forestall::kernel {

std::uint64_t fastest_fill_bytes_per_us() {
  constexpr std::uint64_t kPerCpu = 4096;
  constexpr std::uint64_t kWholeMachine = 65536;
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  return std::min(kWholeMachine, kPerCpu * static_cast<std::uint64_t>(std::max(cpus, 1L)));
}

std::uint32_t page_shift() {
  return static_cast<std::uint32_t>(
      std::countr_zero(static_cast<unsigned long>(::sysconf(_SC_PAGESIZE))));
}

std::vector<std::uint32_t> possible_numbers(const char* list) {
  std::string text;
  const auto file = HeldFile::open(AT_FDCWD, list, list);
  if (!file.ok()) return {};
  const auto numbers = file->read(text);
  if (!numbers.ok()) return {};
  return parse_number_list(*numbers, ABI_TASK_CPUS).value_or(std::vector<std::uint32_t>{});
}

Result<void> require_initial_pid_namespace() {
  constexpr ino_t kInitial = 0xEFFFFFFC;  // include/linux/proc_ns.h PROC_PID_INIT_INO
  struct stat own {};
  if (::stat("/proc/self/ns/pid", &own) != 0) return errno_error("stat", "/proc/self/ns/pid");
  if (own.st_ino == kInitial) return {};
  return Error{EPERM,
               "not in the host's pid namespace, so processes of other pods are invisible; set "
               "hostPID: true in the pod (docker run --pid=host)"};
}

}  // namespace forestall::kernel
