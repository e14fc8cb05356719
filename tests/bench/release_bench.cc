// SPDX-License-Identifier: Apache-2.0
// Time from SIGKILL to free memory, against the minimum: the kernel's time to unmap the same
// address space when its owner calls munmap.
//
//   release_bench [ROUNDS]     default: 9 rounds
//
// For 256 MiB and 1 GiB, in 4 KiB pages and in huge ones, each round measures in turn
//   munmap      of the region by its owner, at SCHED_FIFO
//   exit        SIGKILL of a process that holds it, until the kernel has freed its memory
//   mrelease    SIGKILL, then process_mrelease by this thread, until that returns
//   ladder      the agent's way: SIGKILL until the ladder reports the memory as free
// so that other load affects all of them. Compare within one run.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <vector>

#include "bench/spread.h"
#include "integration/ladder_run.h"
#include "kernel/process_ref.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct Shape {
  Bytes size;
  bool huge = false;
};

// A touched region of that shape, with huge pages where the kernel provides them.
class Region {
 public:
  explicit Region(Shape shape) : length_(static_cast<std::size_t>(shape.size.count) + kHugePage) {
    area_ = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area_ == MAP_FAILED) std::abort();
    madvise(area_, length_, shape.huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    auto* bytes = static_cast<volatile unsigned char*>(area_);
    for (std::size_t at = 0; at < static_cast<std::size_t>(shape.size.count); at += 4096) {
      bytes[at] = 1;
    }
  }
  Region(const Region&) = delete;
  ~Region() {
    if (area_ != MAP_FAILED) munmap(area_, length_);
  }
  void release() {
    munmap(area_, length_);
    area_ = MAP_FAILED;
  }

 private:
  std::size_t length_;
  void* area_ = MAP_FAILED;
};

double ms_since(MonotonicTime begin) {
  return to_us(SystemClock().now() - begin) / 1000;
}

double unmap(Shape shape) {
  Region region(shape);
  const MonotonicTime begin = SystemClock().now();
  region.release();
  return ms_since(begin);
}

// A process in a cgroup of its own that holds such a region.
class Victim {
 public:
  Victim(ScratchCgroup& scratch, Shape shape)
      : scratch_(scratch), path_(scratch.child("victim")), ready_(make_pipe()), child_([&] {
          char go = 0;
          if (read(ready_[2], &go, 1) != 1) return 1;
          const Region region(shape);
          if (write(ready_[1], "r", 1) != 1) return 1;
          for (;;) pause();
        }) {
    scratch.add(path_, child_.pid());
    char done = 0;
    if (write(ready_[3], "g", 1) != 1 || read(ready_[0], &done, 1) != 1) std::abort();
  }
  Victim(const Victim&) = delete;
  ~Victim() {
    child_.reap();
    for (const int end : ready_) close(end);
    scratch_.remove_child(path_);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Child& child() const { return child_; }

 private:
  static std::array<int, 4> make_pipe() {
    std::array<int, 4> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0 || pipe2(ends.data() + 2, O_CLOEXEC) != 0) std::abort();
    return ends;
  }
  ScratchCgroup& scratch_;
  std::string path_;
  std::array<int, 4> ready_;
  Child child_;
};

double exit_alone(ScratchCgroup& scratch, Shape shape) {
  Victim victim(scratch, shape);
  const MonotonicTime begin = SystemClock().now();
  kill(victim.child().pid(), SIGKILL);
  // A process is reaped after its memory is free.
  if (!victim.child().wait_exit()) std::abort();
  return ms_since(begin);
}

double release(ScratchCgroup& scratch, Shape shape) {
  Victim victim(scratch, shape);
  const MonotonicTime begin = SystemClock().now();
  kill(victim.child().pid(), SIGKILL);
  int code = EAGAIN;
  while (code == EAGAIN || code == EINTR) code = kernel::release_memory_of(victim.child().pidfd());
  return ms_since(begin);
}

double by_ladder(ScratchCgroup& scratch, LadderRun& run, Shape shape) {
  Victim victim(scratch, shape);
  const Outcome outcome = run.kill(run.rank(victim.path()));
  if (!outcome.signalled || !outcome.released) {
    fmt::print(stderr, "{}\n", describe(outcome));
    std::abort();
  }
  return to_us(*outcome.released - *outcome.signalled) / 1000;
}

void bench(Shape shape, int rounds) {
  actuators::LadderOptions options;
  options.usable = kByPidfd;
  options.release_timeout = std::chrono::seconds(30);
  LadderRun run(options);
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), shape.size + mib(256));
  std::map<std::string, std::vector<double>> took;
  for (int i = 0; i < rounds; ++i) {
    took["munmap"].push_back(unmap(shape));
    took["exit"].push_back(exit_alone(scratch, shape));
    took["mrelease"].push_back(release(scratch, shape));
    took["ladder"].push_back(by_ladder(scratch, run, shape));
  }
  const std::string name =
      fmt::format("{}MiB_{}", shape.size.count >> 20, shape.huge ? "huge" : "4k");
  const double least = spread_of(took["munmap"]).median;
  for (const char* way : {"munmap", "exit", "mrelease", "ladder"}) {
    const Spread spread = spread_of(took[way]);
    fmt::print("  {:<12} {:<9} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", name, way, spread.median,
               spread.least, spread.most, spread.median / least);
    fmt::print("@metric release_{}_{} {:.3f} ms\n", name, way, spread.median);
    fmt::print("@metric release_{}_{}_ratio {:.2f}\n", name, way, spread.median / least);
  }
}

int main_of(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  if (rounds < 1) {
    fmt::print(stderr, "usage: release_bench [ROUNDS]\n");
    return 2;
  }
  // The priority of the loop and of the reapers; if refused, all ways run without it.
  const sched_param priority{.sched_priority = 1};
  const bool real_time = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0;
  fmt::print("{} rounds{}; ms: median, least, most; against munmap's median\n", rounds,
             real_time ? "" : ", without real time");
  for (const Bytes size : {mib(256), gib(1)}) {
    for (const bool huge : {false, true}) bench({size, huge}, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace forestall::test

int main(int argc, char** argv) {
  return forestall::test::main_of(argc, argv);
}
