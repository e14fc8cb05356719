// SPDX-License-Identifier: Apache-2.0
// The reference for what a kill costs at least: it is given the victims, and does nothing else.
//
//   known_victim LINE CGROUP...
//
// Every ms it reads MemAvailable. If that is less than LINE, it writes cgroup.kill of the first
// cgroup that has processes, unless the one before still ends.
#include <sched.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "text_file.h"

namespace forestall::bench {
namespace {

bool has_processes(const std::string& cgroup) {
  return number_after(read_file(cgroup + "/cgroup.events"), "populated ") == 1;
}

int make_timer() {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const timespec period{.tv_sec = 0, .tv_nsec = 1'000'000};
  const itimerspec every{.it_interval = period, .it_value = period};
  if (timer < 0 || timerfd_settime(timer, 0, &every, nullptr) != 0) fail("timerfd");
  return timer;
}

[[noreturn]] void run(std::int64_t line, const std::vector<std::string>& cgroups) {
  const sched_param priority{.sched_priority = 50};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) fail("SCHED_FIFO");
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) fail("mlockall");
  HeldText meminfo("/proc/meminfo");
  const int timer = make_timer();
  std::string killed;
  for (;;) {
    std::uint64_t expired = 0;
    if (read(timer, &expired, sizeof expired) != sizeof expired) fail("timerfd");
    if (number_after(meminfo.read(), "MemAvailable") * 1024 >= line) continue;
    if (!killed.empty() && has_processes(killed)) continue;
    for (const std::string& cgroup : cgroups) {
      if (!has_processes(cgroup)) continue;
      if (!write_file(cgroup + "/cgroup.kill", "1")) fail(cgroup + "/cgroup.kill");
      killed = cgroup;
      break;
    }
  }
}

}  // namespace
}  // namespace forestall::bench

int main(int argc, char** argv) {
  using namespace forestall::bench;
  if (argc < 3) {
    std::fputs("usage: known_victim LINE CGROUP...\n", stderr);
    return 2;
  }
  run(parse_bytes(argv[1]), {argv + 2, argv + argc});
}
