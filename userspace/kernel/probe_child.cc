// SPDX-License-Identifier: Apache-2.0
#include "kernel/probe_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "kernel/process_ref.h"

namespace forestall::kernel {
namespace {

constexpr std::size_t kPageBytes = 4096;

// The child has only one thread of its multi-threaded parent, so until its end it may make only
// async-signal-safe calls.
[[noreturn]] void live_to_be_killed(pid_t parent, int ready, std::size_t size) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  void* area = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) _exit(2);
  auto* bytes = static_cast<volatile unsigned char*>(area);
  for (std::size_t at = 0; at < size; at += kPageBytes) bytes[at] = 1;
  if (write(ready, "r", 1) != 1) _exit(3);
  for (;;) pause();
}

bool readable(int fd, Duration patience) {
  pollfd ready{fd, POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
  return poll(&ready, 1, static_cast<int>(ms)) == 1;
}

}  // namespace

Result<ProbeChild> ProbeChild::start(Bytes memory) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno_error("pipe2", "for a probe child");
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return errno_error("fork", "a probe child");
  if (pid == 0) {
    live_to_be_killed(parent, writing.get(), static_cast<std::size_t>(memory.count));
  }
  ProbeChild child(pid);
  writing.reset();
  char ready = 0;
  if (!readable(reading.get(), std::chrono::seconds(5)) || read(reading.get(), &ready, 1) != 1) {
    return error("a probe child did not start");
  }
  return child;
}

ProbeChild::ProbeChild(ProbeChild&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

ProbeChild::~ProbeChild() {
  if (pid_ < 0) return;
  // An unreaped child keeps its pid, so this needs no pidfd.
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<int> ProbeChild::wait_end(Duration patience) {
  const UniqueFd pidfd = TRY(open_pidfd(pid_));
  if (!readable(pidfd.get(), patience)) {
    return Error{ETIMEDOUT, "waiting for the end of probe child " + std::to_string(pid_)};
  }
  int status = 0;
  if (waitpid(pid_, &status, 0) < 0) return errno_error("waitpid", std::to_string(pid_));
  pid_ = -1;
  return status;
}

}  // namespace forestall::kernel
