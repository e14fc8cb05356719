// SPDX-License-Identifier: Apache-2.0
// The kill ladder on systems that the host is not: cgroup v2 with cgroup.kill in the charged
// hierarchy, and a machine whose pids are reused within milliseconds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

#include "integration/ladder_run.h"
#include "kernel/process_probe.h"
#include "kernel/process_ref.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::vm {
namespace {

using test::Child;
using test::describe;
using test::Hog;
using test::LadderRun;
using test::ScratchCgroup;

// Emulated machines are slow, and the time of the release is not under test.
constexpr Duration kReleaseTimeout = std::chrono::seconds(60);

int live() {
  for (;;) pause();
  return 0;
}

TEST(Ladder, EveryWayOfKillingIsInUse) {
  const auto tree = LadderRun::must(kernel::CgroupTree::discover());
  for (const auto& report : kernel::probe_processes(tree, {})) {
    EXPECT_EQ(report.state, FeatureState::in_use)
        << to_string(report.feature) << ": " << report.evidence;
  }
}

TEST(Ladder, KillsByPidfdAndCgroupKillAndReapsByPidfd) {
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog first(scratch, scratch.child("victim/a"), mib(32));
  Hog second(scratch, scratch.child("victim/b"), mib(16));
  Hog bystander(scratch, scratch.child("other"), mib(4));
  LadderRun run({.usable = test::kAllOfKilling, .release_timeout = kReleaseTimeout});
  const Outcome outcome = run.kill(run.rank(path));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_GE(outcome.freed, mib(40)) << describe(outcome);
  EXPECT_EQ(outcome.processes, 2U);
  const Attempt* sigkill = test::attempt_on(outcome, Rung::sigkill);
  ASSERT_NE(sigkill, nullptr) << describe(outcome);
  EXPECT_EQ(sigkill->processes, 2U) << describe(outcome);
  const Attempt* by_cgroup = test::attempt_on(outcome, Rung::cgroup_kill);
  ASSERT_NE(by_cgroup, nullptr) << describe(outcome);
  EXPECT_FALSE(by_cgroup->failure) << describe(outcome);
  ASSERT_NE(test::attempt_on(outcome, Rung::mrelease), nullptr) << describe(outcome);
  EXPECT_FALSE(first.alive());
  EXPECT_FALSE(second.alive());
  EXPECT_TRUE(bystander.alive());
}

// A frozen v2 cgroup is killable, unlike a v1 one.
TEST(Ladder, KillsAFrozenCgroup) {
  if (test::mounts().v1)
    GTEST_SKIP()
        << "not applicable: v1 freezes otherwise; LadderFrozenTest, on the host, is for that";
  ScratchCgroup scratch;
  const auto path = scratch.child("victim");
  Hog hog(scratch, path, mib(32));
  scratch.write(path, "cgroup.freeze", "1");
  LadderRun run({.usable = test::kAllOfKilling, .release_timeout = kReleaseTimeout});
  const Outcome outcome = run.kill(run.rank(path));
  EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
  EXPECT_TRUE(outcome.exited);
}

// Few pids, while this object exists; only inside a VM.
class FewPids {
 public:
  explicit FewPids(int max) : before_(test::read_text(kFile)) { write(std::to_string(max)); }
  FewPids(const FewPids&) = delete;
  FewPids& operator=(const FewPids&) = delete;
  ~FewPids() { write(before_); }

 private:
  static constexpr const char* kFile = "/proc/sys/kernel/pid_max";
  static void write(const std::string& text) { std::ofstream(kFile) << text << std::flush; }
  std::string before_;
};

bool in_vm() {
  const char* environment = std::getenv("FORESTALL_TEST_ENV");
  return environment != nullptr && std::string(environment).starts_with("vm:");
}

TEST(LadderPidReuse, AHeldProcessIsNeverTakenForTheNextOfItsPid) {
  ASSERT_TRUE(in_vm()) << "it changes pid_max";
  const FewPids few(400);
  // Pids under RESERVED_PIDS (300, kernel/pid.c) are allocated once after boot and never again.
  pid_t pid = 0;
  for (int tries = 0; tries < 1000 && pid <= 300; ++tries) pid = Child(live).pid();
  ASSERT_GT(pid, 300);
  Child first(live);
  pid = first.pid();
  const auto held = kernel::ProcessRef::open(pid);
  ASSERT_TRUE(held.ok());
  first.reap();
  for (int tries = 0; tries < 2000; ++tries) {
    Child next(live);
    if (next.pid() != pid) continue;
    EXPECT_EQ(held->send_signal(SIGKILL).error().code, ESRCH);
    EXPECT_FALSE(next.ended());
    return;
  }
  FAIL() << "the pid was never given out again: nothing was compared";
}

// Victims and bystanders fork continuously from a few hundred pids, so every pid that the ladder
// reads may be another process's a moment later. No bystander may ever be signalled.
TEST(LadderPidReuse, NoBystanderIsHitWhilePidsAreReused) {
  ASSERT_TRUE(in_vm()) << "it changes pid_max";
  const FewPids few(400);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd stop_read(ends[0]);
  UniqueFd stop_write(ends[1]);
  void* shared = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& lives = *new (shared) std::atomic<int>(0);
  Child bystanders([&] {
    stop_write.reset();
    fcntl(stop_read.get(), F_SETFL, O_NONBLOCK);
    for (;; ++lives) {
      char byte = 0;
      if (read(stop_read.get(), &byte, 1) == 0) return 0;
      const pid_t pid = fork();
      if (pid == 0) _exit(0);
      int status = 0;
      if (pid > 0 && (waitpid(pid, &status, 0) != pid || status != 0)) return 1;
    }
  });
  // Enough rounds that some bystanders have lived, and were reaped, during the kills.
  const MonotonicTime deadline = SystemClock().now() + std::chrono::seconds(60);
  for (int round = 0; round < 10 || (lives < 200 && SystemClock().now() < deadline); ++round) {
    ScratchCgroup scratch;
    const auto path = scratch.child("victim");
    Child breeder([&] {
      scratch.add(path, getpid());
      for (;;) {
        const pid_t pid = fork();
        if (pid == 0) _exit(0);
        if (pid > 0) waitpid(pid, nullptr, 0);
      }
      return 0;
    });
    while (scratch.processes(path).empty()) sched_yield();
    LadderRun run({.usable = round % 2 == 0 ? test::kAllOfKilling : test::kByPidfd,
                   .release_timeout = kReleaseTimeout});
    const Outcome outcome = run.kill(run.rank(path));
    EXPECT_EQ(outcome.state, KillState::released) << describe(outcome);
    EXPECT_TRUE(scratch.processes(path).empty());
  }
  stop_write.reset();
  ASSERT_TRUE(bystanders.wait_exit(std::chrono::seconds(60)));
  EXPECT_EQ(bystanders.reap(), 0) << "a bystander died of a signal";
  EXPECT_GE(lives, 200) << "too few bystanders were at risk";
}

}  // namespace
}  // namespace forestall::vm
