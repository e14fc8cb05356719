// SPDX-License-Identifier: Apache-2.0
// pidfds and /proc/PID/stat. The system calls are made by number: glibc 2.36 declares them, but its
// <sys/pidfd.h> lacks extern "C".
//
// All of this is on the kill path: it reads /proc into a buffer on the stack and allocates only
// error texts.
#include "kernel/process_ref.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "base/parse.h"

namespace forestall::kernel {
namespace {

// include/linux/sched.h
constexpr std::uint64_t kKernelThreadFlag = 0x0020'0000;  // PF_KTHREAD
constexpr std::uint64_t kExitingFlag = 0x4;               // PF_EXITING

// comm is at most 16 bytes (64 for a kworker) and the 50 numbers at most 20 digits each.
constexpr std::size_t kStatBytesMax = 2048;

Error malformed(std::string_view what) {
  return error("/proc/PID/stat: " + std::string(what));
}

// The word `n` places after the current one.
std::string_view skip_to(std::string_view& rest, int n) {
  std::string_view word;
  for (int i = 0; i < n; ++i) word = next_word(rest);
  return word;
}

}  // namespace

Result<ProcessStat> parse_process_stat(std::string_view stat) {
  const auto comm_end = stat.rfind(')');
  if (comm_end == std::string_view::npos) return malformed("no ')' after the name");
  std::string_view rest = stat.substr(comm_end + 1);
  // Fields after the name: 3 is the state, 4 the parent, 9 the flags, 22 the start time.
  const std::string_view state = next_word(rest);
  const auto parent = parse_u64(next_word(rest));
  if (!parent) return malformed("field 4 (parent) is not a number");
  const auto flags = parse_u64(skip_to(rest, 5));
  if (!flags) return malformed("field 9 (flags) is not a number");
  const auto start = parse_u64(skip_to(rest, 13));
  if (!start) return malformed("field 22 (start time) is not a number");
  const bool exited = state == "Z" || state == "X";
  return ProcessStat{static_cast<pid_t>(*parent), (*flags & kKernelThreadFlag) != 0, *start, exited,
                     (*flags & kExitingFlag) != 0};
}

Result<ProcessStat> read_process_stat(pid_t pid) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  const UniqueFd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) errno = ESRCH;
    return errno_error("open", path.data());
  }
  std::array<char, kStatBytesMax> text{};
  // One read suffices: seq_file returns a record that fits the buffer in one piece.
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return errno_error("read", path.data());
  return parse_process_stat({text.data(), static_cast<std::size_t>(size)});
}

Result<ProcessId> read_process_id(pid_t pid) {
  return ProcessId{pid, TRY(read_process_stat(pid)).start_ticks};
}

std::uint64_t resident_pages(pid_t pid) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/statm", pid);
  const UniqueFd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : 0;
  if (size <= 0) return 0;
  std::string_view rest(text.data(), static_cast<std::size_t>(size));
  next_word(rest);  // total pages
  return parse_u64(next_word(rest)).value_or(0);
}

Result<UniqueFd> open_pidfd(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return errno_error("pidfd_open", std::to_string(pid));
  return fd;
}

Result<ProcessRef> ProcessRef::open(pid_t pid) {
  UniqueFd fd = TRY(open_pidfd(pid));
  const ProcessStat stat = TRY(read_process_stat(pid));
  ProcessRef ref({pid, stat.start_ticks}, stat.kernel_thread, std::move(fd));
  // The kernel reuses a pid only after its process was reaped. If the pidfd still refers to a
  // process now, /proc/PID/stat above belonged to it.
  if (auto alive = ref.send_signal(0); !alive && alive.error().code != EPERM) {
    return alive.error();
  }
  return ref;
}

Result<void> ProcessRef::send_signal(int signal) const {
  if (::syscall(SYS_pidfd_send_signal, fd_.get(), signal, nullptr, 0) == 0) return {};
  return errno_error("pidfd_send_signal", std::to_string(id_.pid));
}

Result<void> ProcessRef::release_memory() const {
  const int code = release_memory_of(fd_.get());
  if (code == 0) return {};
  errno = code;
  return errno_error("process_mrelease", std::to_string(id_.pid));
}

bool ProcessRef::exited() const {
  pollfd exit{fd_.get(), POLLIN, 0};
  return ::poll(&exit, 1, 0) == 1;
}

Result<UniqueFd> ProcessRef::duplicate() const {
  UniqueFd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return errno_error("fcntl F_DUPFD_CLOEXEC pidfd of", std::to_string(id_.pid));
  return copy;
}

Result<ProcessRef> ProcessRef::copy() const {
  return ProcessRef(id_, kernel_thread_, TRY(duplicate()));
}

int release_memory_of(int pidfd) {
  return ::syscall(SYS_process_mrelease, pidfd, 0) == 0 ? 0 : errno;
}

bool is_running(const ProcessId& process) {
  const auto found = ProcessRef::open(process.pid);
  return found && found->id() == process && !found->exited();
}

}  // namespace forestall::kernel
