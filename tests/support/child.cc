// SPDX-License-Identifier: Apache-2.0
#include "support/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

bool wait_readable(int fd, Duration patience) {
  pollfd ready{fd, POLLIN, 0};
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  return poll(&ready, 1, static_cast<int>(ms)) == 1;
}

// More than any test allows, so that growth by this much ends by a kill.
constexpr Bytes kEndless = gib(64);

struct GrowCommand {
  std::int64_t total;
  std::int64_t bytes_per_second;
};

// Touches `total` bytes of fresh 4 KiB pages, in 1 MiB steps at the given rate. Not instrumented,
// because the sanitizer's shadow memory would be charged as well: TSan's is four times as much, and
// ASan's an eighth on kernels that charge pages which were only read.
__attribute__((no_sanitize("thread", "address"))) void take_memory(std::int64_t total,
                                                                   std::int64_t bytes_per_second) {
  if (total <= 0) return;  // the fast part is over already
  const auto size = static_cast<std::size_t>(total);
  void* area = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) _exit(3);
  madvise(area, size, MADV_NOHUGEPAGE);
  auto* bytes = static_cast<volatile unsigned char*>(area);
  timespec next{};
  clock_gettime(CLOCK_MONOTONIC, &next);
  for (std::size_t at = 0; at < size; at += 4096) {
    bytes[at] = 1;
    if (bytes_per_second == 0 || at % (1 << 20) != 0) continue;
    next.tv_nsec += static_cast<long>((1LL << 20) * 1'000'000'000LL / bytes_per_second);
    next.tv_sec += next.tv_nsec / 1'000'000'000;
    next.tv_nsec %= 1'000'000'000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);  // this sleep keeps the rate
  }
}

int run_hog(int commands, int replies, Bytes start) {
  take_memory(start.count, 0);
  for (;;) {
    if (write(replies, "r", 1) != 1) return 1;
    GrowCommand command{};
    if (read(commands, &command, sizeof(command)) != sizeof(command)) return 0;
    take_memory(command.total, command.bytes_per_second);
  }
}

std::pair<UniqueFd, UniqueFd> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

Child::Child(const std::function<int()>& body) {
  const pid_t parent = getpid();
  // Or the child inherits unwritten text, and exit() writes it once more or blocks on a full pipe.
  std::fflush(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // 0: the parent is outside of this process's pid namespace.
    if (const pid_t found = getppid(); found != parent && found != 0) _exit(1);
    _exit(body());
  }
  pidfd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

Child::~Child() {
  if (pid_ > 0) reap();
}

bool Child::wait_exit(Duration patience) const {
  return pid_ < 0 || wait_readable(pidfd_.get(), patience);
}

int Child::reap() {
  if (!ended()) kill(pid_, SIGKILL);
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

Hog::Hog(const ScratchCgroup& scratch, const std::string& path, Bytes start)
    : child_([&] {
        auto [command_read, command_write] = make_pipe();
        auto [reply_read, reply_write] = make_pipe();
        command_read_ = std::move(command_read);
        command_write_ = std::move(command_write);
        reply_read_ = std::move(reply_read);
        reply_write_ = std::move(reply_write);
        return Child([&] {
          scratch.add(path, getpid());
          command_write_.reset();
          return run_hog(command_read_.get(), reply_write_.get(), start);
        });
      }()) {
  reply_write_.reset();  // so that the child's death ends the replies
  if (!wait_grown()) throw std::runtime_error("the hog did not come up in " + path);
}

void Hog::grow(Bytes total, Bytes bytes_per_second) const {
  const GrowCommand command{total.count, bytes_per_second.count};
  // The parent holds the read end as well: a command to a dead child stays in the pipe, unread.
  if (write(command_write_.get(), &command, sizeof(command)) != sizeof(command)) {
    throw std::runtime_error("the hog does not listen");
  }
}

void Hog::leak(Bytes spurt, Bytes bytes_per_second) const {
  grow(spurt);
  grow(kEndless, bytes_per_second);
}

bool Hog::wait_grown(Duration patience) const {
  char reply = 0;
  return wait_readable(reply_read_.get(), patience) && read(reply_read_.get(), &reply, 1) == 1;
}

}  // namespace forestall::test
