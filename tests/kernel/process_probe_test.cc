// SPDX-License-Identifier: Apache-2.0
#include "kernel/process_probe.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

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

// Story: earlyoom found out that seccomp killed it only when memory was short (its issue 315).
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
