// SPDX-License-Identifier: Apache-2.0
// Hostile environments: system calls that the kernel refuses, and victims that fork faster than
// they die.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "integration/ladder_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

// From now on `number` fails with EPERM in this process and in its later threads.
bool forbid(long number) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof(program) / sizeof(program[0]), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Runs `body` in a child process where `number` is forbidden; returns its exit status.
int where_forbidden(long number, const std::function<int()>& body) {
  Child agent([&] { return forbid(number) ? body() : 100; });
  if (!agent.wait_exit()) return 101;
  const int status = agent.reap();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 102;
}

TEST(LadderRefused, SignalsForbiddenFailTheKillAndAreRemembered) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(8));
  const int result = where_forbidden(SYS_pidfd_send_signal, [&] {
    LadderRun run({.usable = kByPidfd});
    const auto victim = run.rank(path);
    const Outcome outcome = run.kill(victim);
    if (outcome.state != KillState::failed || outcome.processes != 0) return 1;
    const Attempt* sigkill = attempt_on(outcome, Rung::sigkill);
    if (sigkill == nullptr || !sigkill->failure || sigkill->failure->code != EPERM) return 2;
    const auto progress = run.progress_of(victim.workload.cgroup);
    return progress && progress->state == KillState::failed ? 0 : 3;
  });
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(hog.alive());
}

TEST(LadderRefused, ReportsAForbiddenMreleaseAndStillKills) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(64));
  const int result = where_forbidden(SYS_process_mrelease, [&] {
    LadderRun run({.usable = kByPidfd, .release_timeout = std::chrono::seconds(20)});
    const Outcome outcome = run.kill(run.rank(path));
    return outcome.state == KillState::released && outcome.freed >= mib(60) ? 0 : 1;
  });
  EXPECT_EQ(result, 0);
  EXPECT_FALSE(hog.alive());
}

TEST(LadderRefused, PidfdsForbiddenFailTheKill) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(8));
  const int result = where_forbidden(SYS_pidfd_open, [&] {
    LadderRun run({.usable = kByPidfd});
    const Outcome outcome = run.kill(run.rank(path));
    if (outcome.state != KillState::failed) return 1;
    const Attempt* pidfds = attempt_on(outcome, Rung::pidfds);
    return pidfds->failure && pidfds->failure->code == EPERM ? 0 : 2;
  });
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(hog.alive());
}

// A group in the pids hierarchy that may hold `limit` processes; removed at the end.
class ScratchPids {
 public:
  ScratchPids(const ScratchCgroup& scratch, const std::string& path, int limit)
      : directory_(mounts().v1 ? "/sys/fs/cgroup/pids/forestall-test-" + std::to_string(getpid())
                               : scratch.directory(path)) {
    if (mounts().v1) mkdir(directory_.c_str(), 0755);
    std::ofstream(directory_ + "/pids.max") << limit << std::flush;
  }
  ScratchPids(const ScratchPids&) = delete;
  ScratchPids& operator=(const ScratchPids&) = delete;
  ~ScratchPids() {
    if (mounts().v1) rmdir(directory_.c_str());
  }
  void add(pid_t pid) const { std::ofstream(directory_ + "/cgroup.procs") << pid << std::flush; }

 private:
  std::string directory_;
};

// Forks until it is killed, and so do its children. By system call, because a sanitizer's fork()
// does more. Each child ends by itself in case this test is killed.
int breed() {
  signal(SIGCHLD, SIG_IGN);  // killed children leave no zombies
  alarm(60);
  for (;;) {
    const long pid = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (pid == 0) alarm(60);
    if (pid < 0) sched_yield();
  }
}

class ForkBombTest : public ::testing::TestWithParam<bool> {};

TEST_P(ForkBombTest, IsKilledToTheLastProcess) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  const ScratchPids pids(scratch, path, 60);
  Child bomb([&] {
    scratch.add(path, getpid());
    pids.add(getpid());
    return breed();
  });
  while (scratch.processes(path).size() < 50) {
    ASSERT_FALSE(bomb.ended()) << "the bomb did not go off";
    sched_yield();
  }

  const bool by_cgroup = GetParam();
  LadderRun run({.usable = by_cgroup ? kAllOfKilling : kByPidfd,
                 .release_timeout = std::chrono::seconds(20)});
  const Outcome outcome = run.kill(run.rank(path));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_TRUE(outcome.exited);
  EXPECT_GE(outcome.processes, 40U);
  EXPECT_TRUE(scratch.processes(path).empty());
}

INSTANTIATE_TEST_SUITE_P(Ways, ForkBombTest, ::testing::Bool(), [](const auto& by_cgroup) {
  return by_cgroup.param ? "everything" : "no_cgroup_kill";
});

// A process that ends during its kill must not count as one that cannot be killed.
TEST(LadderRaces, VictimsThatExitWhileTheyAreKilled) {
  LadderRun run({.usable = kByPidfd, .release_timeout = std::chrono::seconds(20)});
  for (int round = 0; round < 20; ++round) {
    ScratchCgroup scratch;
    const auto path = scratch.child("victim");
    std::vector<Child> children;
    for (int i = 0; i < 16; ++i) {
      children.emplace_back([&] {
        scratch.add(path, getpid());
        for (int turn = 0; turn < 1000 * round; ++turn) sched_yield();
        return 0;
      });
    }
    const WorkloadSample victim = run.rank(path);
    const Outcome outcome = run.kill(victim);
    if (outcome.state != KillState::failed) continue;
    EXPECT_TRUE(outcome.exited) << describe(outcome);
    EXPECT_FALSE(run.progress_of(victim.workload.cgroup)) << "remembered as unkillable";
  }
}

}  // namespace
}  // namespace forestall::test
