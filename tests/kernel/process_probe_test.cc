// SPDX-License-Identifier: Apache-2.0
#include "kernel/process_probe.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>

#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::kernel {
namespace {

using test::Child;

CgroupTree host() {
  auto tree = CgroupTree::discover();
  if (!tree.ok()) throw std::runtime_error(tree.error().text());
  return std::move(tree).value();
}

TEST(ProbeProcesses, FindsAllThreeOnAHostWithCgroup2) {
  const auto tree = host();
  const auto reports = probe_processes(tree, {});
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].feature, Feature::cgroup_kill);
  EXPECT_EQ(reports[1].feature, Feature::pidfd);
  EXPECT_EQ(reports[2].feature, Feature::process_mrelease);
  EXPECT_EQ(reports[1].state, FeatureState::in_use) << reports[1].evidence;
  EXPECT_EQ(reports[2].state, FeatureState::in_use) << reports[2].evidence;
  EXPECT_EQ(reports[0].state, tree.unified_fd() < 0 ? FeatureState::absent : FeatureState::in_use)
      << reports[0].evidence;
}

TEST(ProbeProcesses, LeavesNoCgroupBehind) {
  const auto tree = host();
  (void)probe_processes(tree, {});
  const std::string name = "forestall-probe-" + std::to_string(getpid());
  const auto& mounts = test::mounts();
  EXPECT_FALSE(std::filesystem::exists(mounts.memory + "/" + name));
  EXPECT_FALSE(!mounts.unified.empty() && std::filesystem::exists(mounts.unified + "/" + name));
}

TEST(ProbeProcesses, ForcedOffIsNotTried) {
  FeatureSet disabled;
  disabled.set(static_cast<std::size_t>(Feature::cgroup_kill));
  disabled.set(static_cast<std::size_t>(Feature::pidfd));
  for (const auto& report : probe_processes(host(), disabled)) {
    EXPECT_EQ(report.state, FeatureState::forced_off) << to_string(report.feature);
  }
}

// Drops a capability of this thread for the duration of a scope.
class WithoutCapability {
 public:
  explicit WithoutCapability(unsigned capability) {
    EXPECT_EQ(::syscall(SYS_capget, &header_, before_.data()), 0);
    auto now = before_;
    now[CAP_TO_INDEX(capability)].effective &= ~CAP_TO_MASK(capability);
    EXPECT_EQ(::syscall(SYS_capset, &header_, now.data()), 0);
  }
  WithoutCapability(const WithoutCapability&) = delete;
  WithoutCapability& operator=(const WithoutCapability&) = delete;
  ~WithoutCapability() { EXPECT_EQ(::syscall(SYS_capset, &header_, before_.data()), 0); }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> before_{};
};

// A child of the probe can be killed without it, processes of other users cannot.
TEST(ProbeProcesses, PidfdIsRefusedWithoutCapKill) {
  const auto tree = host();
  const WithoutCapability without(CAP_KILL);
  const auto reports = probe_processes(tree, {});
  EXPECT_EQ(reports[1].state, FeatureState::refused);
  EXPECT_NE(reports[1].evidence.find("CAP_KILL"), std::string::npos) << reports[1].evidence;
}

// As in a pod with hostPID: false: a child of the probe can be killed, processes of pods cannot.
TEST(ProbeProcesses, EveryWayToKillIsRefusedInAnotherPidNamespace) {
  Child outside([] {
    if (unshare(CLONE_NEWPID) != 0) return 2;
    Child inside([] {
      for (const auto& report : probe_processes(host(), {})) {
        if (report.state != FeatureState::refused) return 3;
        if (report.evidence.find("set hostPID: true") == std::string::npos) return 4;
      }
      return 0;
    });
    if (!inside.wait_exit()) return 5;
    const int status = inside.reap();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 6;
  });
  ASSERT_TRUE(outside.wait_exit());
  const int status = outside.reap();
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

// Regression in earlyoom (issue 315): it noticed that seccomp forbids kills only when memory was
// short.
TEST(ProbeProcesses, ASyscallFilterIsFoundAtTheStart) {
  Child agent([] {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_mrelease, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{4, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 2;
    const auto reports = probe_processes(host(), {});
    return reports[1].state == FeatureState::in_use && reports[2].state == FeatureState::refused
               ? 0
               : 1;
  });
  ASSERT_TRUE(agent.wait_exit());
  EXPECT_EQ(agent.reap(), 0);
}

}  // namespace
}  // namespace forestall::kernel
