// SPDX-License-Identifier: Apache-2.0
// A poller with kubelet's rules, as a peer: every PERIOD_MS it reads what is available (MemTotal
// less the working set). If that is less than LINE, it kills one pod: usage over request first,
// then the lower priority, then the larger excess.
//
//   kubelet_poll PERIOD_MS LINE PODS
//
// PODS: one pod per line, as in the bench's `pods` table (name, scope, request, priority). It calls
// no runtime and uses no cached statistics, so it is faster than kubelet.
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <tuple>
#include <vector>

#include "text_file.h"

namespace forestall::bench {
namespace {

struct Pod {
  std::string name, cgroup;
  std::int64_t request = 0, priority = 0, working_set = 0;

  // The greater is first.
  auto rank() const { return std::tuple(working_set > request, -priority, working_set - request); }
};

std::vector<Pod> read_pods(const std::string& path) {
  std::vector<Pod> pods;
  std::istringstream lines(read_file(path));
  for (Pod pod; lines >> pod.name >> pod.cgroup >> pod.request >> pod.priority;) {
    pods.push_back(pod);
  }
  return pods;
}

std::int64_t available() {
  const std::string vmstat = read_file("/proc/vmstat");
  const auto pages = number_after(vmstat, "nr_anon_pages ") +
                     number_after(vmstat, "nr_file_pages ") -
                     number_after(vmstat, "nr_inactive_file ");
  return number_after(read_file("/proc/meminfo"), "MemTotal") * 1024 - pages * 4096;
}

// The running pods in kubelet's order.
std::vector<Pod> ranked(std::vector<Pod> pods) {
  for (Pod& pod : pods) {
    const std::string usage = read_file(pod.cgroup + "/memory.current");
    const std::string stat = read_file(pod.cgroup + "/memory.stat");
    pod.working_set =
        usage.empty() ? -1 : std::atoll(usage.c_str()) - number_after(stat, "inactive_file ");
  }
  std::erase_if(pods, [](const Pod& pod) { return pod.working_set < 0; });
  std::sort(pods.begin(), pods.end(),
            [](const Pod& a, const Pod& b) { return a.rank() > b.rank(); });
  return pods;
}

int run(std::int64_t period_ms, std::int64_t line, const std::vector<Pod>& pods) {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const timespec period{.tv_sec = period_ms / 1000, .tv_nsec = period_ms % 1000 * 1'000'000};
  const itimerspec every{.it_interval = period, .it_value = period};
  if (timer < 0 || timerfd_settime(timer, 0, &every, nullptr) != 0) fail("timerfd");
  for (;;) {
    std::uint64_t expired = 0;
    if (read(timer, &expired, sizeof expired) != sizeof expired) fail("timerfd");
    const std::int64_t now = available();
    std::printf("%lld available %lld MiB\n", static_cast<long long>(monotonic_us()),
                static_cast<long long>(now >> 20));
    std::fflush(stdout);
    if (now >= line) continue;
    const std::vector<Pod> order = ranked(pods);
    if (order.empty()) continue;
    write_file(order.front().cgroup + "/cgroup.kill", "1");
    std::printf("%lld killed %s\n", static_cast<long long>(monotonic_us()),
                order.front().name.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace forestall::bench

int main(int argc, char** argv) {
  using namespace forestall::bench;
  if (argc != 4) {
    std::fputs("usage: kubelet_poll PERIOD_MS LINE PODS\n", stderr);
    return 2;
  }
  const std::vector<Pod> pods = read_pods(argv[3]);
  if (pods.empty()) {
    std::fprintf(stderr, "%s names no pod\n", argv[3]);
    return 2;
  }
  return run(std::atoll(argv[1]), parse_bytes(argv[2]), pods);
}
