// SPDX-License-Identifier: Apache-2.0
// Each call changes the process permanently, so each runs in a child. Permissions differ between
// machines, so the test compares each report with the kernel's state.
#include "kernel/scheduling.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>

#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

using test::Child;

void expect_in_child(const std::function<bool()>& body) {
  Child child([&] { return body() ? 0 : 1; });
  ASSERT_TRUE(child.wait_exit());
  EXPECT_EQ(child.reap(), 0);
}

FeatureSet only(Feature feature) {
  FeatureSet set;
  set.set(static_cast<std::size_t>(feature));
  return set;
}

TEST(UseRealTime, ReportMatchesTheKernel) {
  expect_in_child([] {
    const auto report = use_real_time({});
    const int policy = sched_getscheduler(0);
    if (report.feature != Feature::sched_fifo || report.evidence.empty()) return false;
    if (report.state != FeatureState::in_use) {
      return (policy & ~SCHED_RESET_ON_FORK) == SCHED_OTHER &&
             report.evidence.find("nice") != std::string::npos;
    }
    sched_param parameters{};
    sched_getparam(0, &parameters);
    return policy == (SCHED_FIFO | SCHED_RESET_ON_FORK) &&
           parameters.sched_priority == kRealTimePriority;
  });
}

TEST(UseRealTime, IsNotInheritedByChildren) {
  expect_in_child([] {
    if (use_real_time({}).state != FeatureState::in_use) return true;
    Child grandchild([] { return sched_getscheduler(0) == SCHED_OTHER ? 0 : 1; });
    return grandchild.wait_exit() && grandchild.reap() == 0;
  });
}

TEST(UseRealTime, ForcedOffFallsBackToNice) {
  expect_in_child([] {
    const auto report = use_real_time(only(Feature::sched_fifo));
    return report.state == FeatureState::forced_off &&
           (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_OTHER &&
           report.evidence.find("nice") != std::string::npos;
  });
}

// A thread of real-time priority would keep a loop without it off its CPU.
TEST(UseRealTime, ForcedOffHoldsForServiceThreads) {
  expect_in_child([] {
    static_cast<void>(use_real_time(only(Feature::sched_fifo)));
    use_service_priority();
    return (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_OTHER;
  });
}

TEST(UseRealTime, NiceIsNotInheritedByChildren) {
  expect_in_child([] {
    static_cast<void>(use_real_time(only(Feature::sched_fifo)));
    if (getpriority(PRIO_PROCESS, 0) >= 0) return true;  // refused: without CAP_SYS_NICE
    Child grandchild([] { return getpriority(PRIO_PROCESS, 0) == 0 ? 0 : 1; });
    return grandchild.wait_exit() && grandchild.reap() == 0;
  });
}

TEST(UseRealTime, RefusedWithoutPrivilege) {
  expect_in_child([] {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_RTPRIO, &none);
    setrlimit(RLIMIT_NICE, &none);
    if (setresuid(65534, 65534, 65534) != 0) return false;
    const auto report = use_real_time({});
    return report.state == FeatureState::refused &&
           report.evidence.find("Operation not permitted") != std::string::npos &&
           report.evidence.find("stays at nice") != std::string::npos;
  });
}

// Kilobytes that this process has locked or locks on fault, from /proc/self/status.
bool locks_memory() {
  return test::read_text("/proc/self/smaps").find(" lo") != std::string::npos;
}

TEST(LockMemory, ReportMatchesTheKernel) {
  expect_in_child([] {
    const auto report = lock_memory({});
    if (report.state == FeatureState::refused) return !locks_memory();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return report.state == FeatureState::in_use;  // sanitizers make mlockall() do nothing
#else
    return report.state == FeatureState::in_use && locks_memory();
#endif
  });
}

TEST(LockMemory, RefusedWithoutPrivilegeNamesTheLimit) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  expect_in_child([] {
    const rlimit small{65536, 65536};
    setrlimit(RLIMIT_MEMLOCK, &small);
    if (setresuid(65534, 65534, 65534) != 0) return false;
    const auto report = lock_memory({});
    return report.state == FeatureState::refused &&
           report.evidence.find("65536") != std::string::npos;
  });
#endif
}

TEST(LockMemory, ForcedOffDoesNothing) {
  expect_in_child([] {
    return lock_memory(only(Feature::memory_lock)).state == FeatureState::forced_off &&
           !locks_memory();
  });
}

std::uint64_t table_size() {
  const std::string status = test::read_text("/proc/self/status");
  const std::string key = "FDSize:";
  return std::stoull(status.substr(status.find(key) + key.size()));
}

bool limit_files_to(rlim_t soft) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = soft;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

TEST(GrowDescriptorTable, OpeningAsManyFilesDoesNotGrowItAgain) {
  expect_in_child([] {
    constexpr std::uint64_t kWanted = 1000;
    const auto fits = grow_descriptor_table(kWanted);
    if (!fits || *fits != kWanted) return false;
    const std::uint64_t size = table_size();
    int last = -1;
    while (last < static_cast<int>(kWanted) - 1) {
      last = dup(STDERR_FILENO);
      if (last < 0) return false;
    }
    return size >= kWanted && table_size() == size;
  });
}

TEST(GrowDescriptorTable, OpensNothingThatStays) {
  expect_in_child([] {
    const int before = dup(STDERR_FILENO);
    close(before);
    if (!grow_descriptor_table(1000)) return false;
    return dup(STDERR_FILENO) == before && fcntl(999, F_GETFD) < 0;
  });
}

TEST(GrowDescriptorTable, EndsAtTheSoftLimit) {
  expect_in_child([] {
    if (!limit_files_to(600)) return false;
    const auto fits = grow_descriptor_table(kDescriptorTable);
    return fits && *fits == 600 && table_size() >= 600 && table_size() <= 1024;
  });
}

TEST(GrowDescriptorTable, TheHighestDescriptorMayBeInUse) {
  expect_in_child([] {
    if (!limit_files_to(600) || fcntl(STDERR_FILENO, F_DUPFD, 599) != 599) return false;
    const auto fits = grow_descriptor_table(kDescriptorTable);
    return fits && *fits == 600 && fcntl(599, F_GETFD) >= 0;
  });
}

TEST(GrowDescriptorTable, ReportsThatNoDescriptorIsLeft) {
  expect_in_child([] {
    if (!limit_files_to(0)) return false;
    const auto fits = grow_descriptor_table(kDescriptorTable);
    return !fits && fits.error().code == EMFILE;
  });
}

TEST(LowerOomScoreAdj, ReportMatchesTheKernel) {
  expect_in_child([] {
    const auto before = test::read_text("/proc/self/oom_score_adj");
    const auto report = lower_oom_score_adj({});
    const auto after = test::read_text("/proc/self/oom_score_adj");
    if (report.state == FeatureState::in_use) return after == "-1000\n" || after == "-999\n";
    return report.state == FeatureState::refused && after == before &&
           report.evidence.find("stays at " + before.substr(0, before.size() - 1)) !=
               std::string::npos;
  });
}

TEST(LowerOomScoreAdj, ForcedOffDoesNothing) {
  expect_in_child([] {
    const auto before = test::read_text("/proc/self/oom_score_adj");
    const auto report = lower_oom_score_adj(only(Feature::oom_score_adj));
    return report.state == FeatureState::forced_off &&
           test::read_text("/proc/self/oom_score_adj") == before;
  });
}

}  // namespace
}  // namespace forestall::kernel
