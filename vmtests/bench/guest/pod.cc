// SPDX-License-Identifier: Apache-2.0
// One pod's only container, and the shim that waits for it.
//
//   bench_pod NAME OOM_SCORE_ADJ SHIMS LIVE WORK [ARGUMENT...]
//
// systemd-run starts it in the container's scope. The container becomes PID 1 of a new pid
// namespace, without signal handlers, as most containers do; the shim moves to the cgroup SHIMS, as
// a runtime's does. The file LIVE exists from the time when the pod's steady memory is allocated
// until the end of the container.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "load.h"
#include "text_file.h"

namespace forestall::bench {
namespace {

std::string own_cgroup() {
  const std::string line = read_file("/proc/self/cgroup");  // 0::/path
  return "/sys/fs/cgroup" + line.substr(3, line.find('\n') - 3);
}

// The container: named like the pod, so that traces identify it.
[[noreturn]] void contain(const std::string& name, int gate, int ready, const Work& work) {
  prctl(PR_SET_NAME, name.c_str());
  setsid();
  char byte = 0;
  if (read(gate, &byte, 1) != 1) fail("gate");
  close(gate);
  perform(work, ready);
}

int run(const std::string& name, const std::string& adj, const std::string& shims,
        const std::string& live, const Work& work) {
  const std::string scope = own_cgroup();
  if (!write_file(scope + "/memory.oom.group", "1")) fail(scope + "/memory.oom.group");
  int gate[2], ready[2];
  if (pipe(gate) != 0 || pipe(ready) != 0) fail("pipe");
  if (unshare(CLONE_NEWPID) != 0) fail("unshare");
  const pid_t container = fork();
  if (container < 0) fail("fork");
  if (container == 0) {
    close(gate[1]);
    close(ready[0]);
    contain(name, gate[0], ready[1], work);
  }
  close(gate[0]);
  close(ready[1]);
  if (!write_file(shims + "/cgroup.procs", "0")) fail(shims);
  if (!write_file("/proc/self/oom_score_adj", "-998")) fail("oom_score_adj");
  if (!write_file("/proc/" + std::to_string(container) + "/oom_score_adj", adj)) fail("adj");
  if (write(gate[1], "g", 1) != 1) fail("gate");
  char byte = 0;
  bool any = false;
  while (read(ready[0], &byte, 1) == 1) any = true;
  if (!any) fail(name + " never became ready");
  write_file(live, std::to_string(container) + "\n");
  int status = 0;
  waitpid(container, &status, 0);
  unlink(live.c_str());
  std::printf("%lld exit %s %d\n", static_cast<long long>(monotonic_us()), name.c_str(), status);
  return 0;
}

}  // namespace
}  // namespace forestall::bench

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: bench_pod NAME OOM_SCORE_ADJ SHIMS LIVE WORK [ARGUMENT...]\n", stderr);
    return 2;
  }
  return forestall::bench::run(argv[1], argv[2], argv[3], argv[4],
                               {argv[5], std::vector<std::string>(argv + 6, argv + argc)});
}
