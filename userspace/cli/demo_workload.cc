// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_workload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace forestall::cli {
namespace {

// More than any demo cgroup allows, so that only a kill ends the leak.
constexpr std::size_t kLeakBytes = std::size_t{16} << 30;

// 4 KiB pages: a fault with transparent huge pages takes 2 MiB, which would dominate the timeline.
void touch(std::size_t size) {
  if (size == 0) return;
  void* area = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) _exit(1);
  madvise(area, size, MADV_NOHUGEPAGE);
  auto* bytes = static_cast<volatile unsigned char*>(area);
  for (std::size_t at = 0; at < size; at += 4096) bytes[at] = 1;
}

[[noreturn]] void live(int commands, int replies, pid_t parent, Bytes held) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  char byte = 0;
  if (read(commands, &byte, 1) != 1) _exit(1);  // the parent has moved this process into its cgroup
  touch(static_cast<std::size_t>(held.count));
  if (write(replies, "r", 1) != 1) _exit(1);
  if (read(commands, &byte, 1) != 1) _exit(0);
  touch(kLeakBytes);
  for (;;) pause();
}

}  // namespace

Result<DemoWorkload> DemoWorkload::start(const kernel::CgroupDir& cgroup, Bytes held) {
  int commands[2];
  int replies[2];
  if (pipe2(commands, O_CLOEXEC) != 0 || pipe2(replies, O_CLOEXEC) != 0) {
    return errno_error("pipe2", "demo workload");
  }
  UniqueFd command_read(commands[0]), command_write(commands[1]);
  UniqueFd reply_read(replies[0]), reply_write(replies[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return errno_error("fork", "demo workload");
  if (pid == 0) {
    command_write.reset();
    live(command_read.get(), reply_write.get(), parent, held);
  }
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  DemoWorkload workload(pid, std::move(pidfd), std::move(command_write));
  reply_write.reset();
  TRY(cgroup.write("cgroup.procs", fmt::format("{}", pid)));
  char byte = 'g';
  if (write(workload.command_.get(), &byte, 1) != 1 || read(reply_read.get(), &byte, 1) != 1) {
    return error(fmt::format("demo workload {} did not start", cgroup.path()));
  }
  return workload;
}

DemoWorkload::DemoWorkload(DemoWorkload&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      command_(std::move(other.command_)),
      ended_by_(other.ended_by_) {}

DemoWorkload::~DemoWorkload() {
  if (pid_ <= 0 || ended_by()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Result<void> DemoWorkload::leak() const {
  if (write(command_.get(), "l", 1) != 1) return errno_error("write", "demo workload");
  return {};
}

std::optional<int> DemoWorkload::ended_by(Duration patience) {
  if (ended_by_ || pid_ <= 0) return ended_by_;
  pollfd exited{pidfd_.get(), POLLIN, 0};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  poll(&exited, 1, static_cast<int>(ms));
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    ended_by_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  return ended_by_;
}

}  // namespace forestall::cli
