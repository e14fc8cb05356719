// SPDX-License-Identifier: Apache-2.0
#include "load.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

#include "heap.h"
#include "text_file.h"

namespace forestall::bench {
namespace {

// A pace: next() returns when the next period begins, at once if it is late.
class Pace {
 public:
  explicit Pace(std::int64_t period_us) : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
    itimerspec every{};
    every.it_interval.tv_sec = period_us / 1'000'000;
    every.it_interval.tv_nsec = period_us % 1'000'000 * 1000;
    every.it_value = every.it_interval;
    if (fd_ < 0 || timerfd_settime(fd_, 0, &every, nullptr) != 0) fail("timerfd");
  }
  ~Pace() { close(fd_); }

  // How many periods have begun since the last call.
  std::int64_t next() {
    std::uint64_t begun = 0;
    if (read(fd_, &begun, sizeof begun) != sizeof begun) fail("timerfd");
    return static_cast<std::int64_t>(begun);
  }

 private:
  int fd_;
};

[[noreturn]] void rest() {
  for (;;) pause();
}

void wait_for_go() {
  if (open(kGoFifo, O_RDONLY | O_CLOEXEC) < 0) fail(kGoFifo);
}

void report_ready(int fd) {
  if (write(fd, "r", 1) != 1) fail("ready");
  close(fd);
}

// Splits the work over processes: returns in each of them, the first one included.
void spread(std::int64_t processes) {
  for (std::int64_t i = 1; i < processes; ++i) {
    if (fork() == 0) return;
  }
}

[[noreturn]] void leak(std::int64_t rate, std::int64_t most) {
  constexpr std::int64_t kPeriodUs = 1'000;  // small steps: crossings are interpolated
  Heap heap(most);
  Pace pace(kPeriodUs);
  for (std::int64_t begun = 0, due = 0; !heap.full();) {
    begun += pace.next();
    const std::int64_t owed = begun * kPeriodUs * rate / 1'000'000 - due;
    heap.grow(owed / kPage * kPage);
    due += owed / kPage * kPage;
  }
  rest();
}

[[noreturn]] void read_over_and_over(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path);
  static char buffer[1 << 17];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0) fail(path);
    if (got == 0 && lseek(fd, 0, SEEK_SET) != 0) fail(path);
  }
}

[[noreturn]] void spin() {
  for (volatile std::uint64_t i = 0;;) i = i + 1;
}

// Children do the same as their parents: the number doubles with every period.
[[noreturn]] void fork_for_ever(std::int64_t size, std::int64_t period_us, int most) {
  void* const shared = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail("mmap");
  auto& count = *new (shared) std::atomic<int>{1};
  for (;;) {
    Heap heap(size);
    heap.grow(size);
    Pace pace(period_us);
    for (bool child = false; !child;) {
      pace.next();
      if (count.fetch_add(1) >= most) rest();
      child = fork() == 0;
    }
  }
}

// Delays of a normal process, written to a file filled beforehand, so that writing them does not
// wait for memory.
[[noreturn]] void probe(const std::string& path) {
  constexpr std::int64_t kPeriodUs = 10'000;
  constexpr std::int64_t kWorthNotingUs = 2'000;
  constexpr std::size_t kMost = 8192;
  struct Delay {
    std::int64_t at_us, late_us;
  };
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || posix_fallocate(fd, 0, sizeof(Delay) * kMost) != 0) fail(path);
  void* const at =
      mmap(nullptr, sizeof(Delay) * kMost, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_LOCKED, fd, 0);
  if (at == MAP_FAILED) fail(path);
  auto* const delays = static_cast<Delay*>(at);
  std::memset(at, 0, sizeof(Delay) * kMost);
  Heap heap(std::int64_t{4} << 20);
  heap.grow(std::int64_t{4} << 20);
  std::size_t noted = 0;
  std::int64_t due = monotonic_us();
  for (;;) {
    due += kPeriodUs;
    const timespec until{.tv_sec = due / 1'000'000, .tv_nsec = due % 1'000'000 * 1000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    Heap fresh(16 * kPage);
    fresh.grow(16 * kPage);
    read_file("/etc/os-release");
    const std::int64_t now = monotonic_us();
    if (now - due > kWorthNotingUs && noted < kMost) delays[noted++] = {now, now - due};
    due = std::max(due, now - kPeriodUs);
    fresh.release();
  }
}

// The hot half of a heap, a tenth of it each 100 ms. A file has two numbers: how many tenths, and
// the microseconds that they took.
[[noreturn]] void touch_half(Heap& heap, const std::string& path) {
  constexpr std::int64_t kPeriodUs = 100'000;
  constexpr std::int64_t kParts = 10;
  struct Touches {
    std::int64_t count, all_us;
  };
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(Touches)) != 0) fail(path);
  void* const at = mmap(nullptr, sizeof(Touches), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) fail(path);
  auto* const touches = static_cast<Touches*>(at);
  Pace pace(kPeriodUs);
  for (std::int64_t part = 0;; part = (part + 1) % kParts) {
    pace.next();
    const std::int64_t begin = monotonic_us();
    heap.touch(part, 2 * kParts);
    touches->all_us += monotonic_us() - begin;
    ++touches->count;
  }
}

}  // namespace

void perform(const Work& work, int ready_fd) {
  const auto& words = work.arguments;
  const auto bytes = [&](std::size_t i, std::int64_t otherwise) {
    return i < words.size() ? parse_bytes(words[i]) : otherwise;
  };
  if (work.kind == "hold") {
    const std::int64_t processes = bytes(1, 1);
    // The reader waits until the last of these processes has closed its end.
    spread(processes);
    Heap heap(bytes(0, 0) / processes);
    heap.grow(bytes(0, 0) / processes);
    report_ready(ready_fd);
    rest();
  }
  if (work.kind == "halves") {
    Heap heap(bytes(0, 0));
    heap.grow(bytes(0, 0));
    report_ready(ready_fd);
    wait_for_go();
    touch_half(heap, words.at(1));
  }
  report_ready(ready_fd);
  if (work.kind == "probe") probe(words.at(0));
  if (work.kind == "busy" || work.kind == "burst") spread(bytes(work.kind == "busy" ? 0 : 1, 1));
  wait_for_go();
  if (work.kind == "leak") leak(bytes(0, 0), bytes(1, std::int64_t{64} << 30));
  if (work.kind == "burst") {
    Heap heap(bytes(0, 0) / bytes(1, 1));
    heap.grow(bytes(0, 0) / bytes(1, 1));
    rest();
  }
  if (work.kind == "cache") read_over_and_over(words.at(0));
  if (work.kind == "busy") spin();
  if (work.kind == "forks") {
    fork_for_ever(bytes(0, 0), bytes(1, 0) * 1000, static_cast<int>(bytes(2, 0)));
  }
  errno = EINVAL;
  fail("work " + work.kind);
}

}  // namespace forestall::bench
