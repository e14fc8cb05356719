// SPDX-License-Identifier: Apache-2.0
// The kernel's result of a trial decides, not a capability bit: cgroup bandwidth
// (CONFIG_RT_GROUP_SCHED), rlimits and seccomp matter too.
#include "kernel/scheduling.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <string>
#include <system_error>

#include "base/parse.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/residency.h"

namespace forestall::kernel {
namespace {

constexpr int kHighestNice = -20;

// The operator has disabled it: no thread may then run before the loop.
std::atomic<bool> real_time_is_off = false;
constexpr const char* kAdjFile = "/proc/self/oom_score_adj";

std::string words(int code) {
  return std::generic_category().message(code);
}

FeatureReport forced_off(Feature feature) {
  return {feature, FeatureState::forced_off, "disabled by the operator"};
}

// Of this thread alone: those that it starts, and the programs of hooks, would inherit it.
std::string nice_instead() {
  if (setpriority(PRIO_PROCESS, 0, kHighestNice) == 0) {
    const sched_param ordinary{};
    ::sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &ordinary);
    return "nice -20 instead";
  }
  const int code = errno;
  errno = 0;
  const int nice = getpriority(PRIO_PROCESS, 0);
  return "nice -20: " + words(code) + "; stays at nice " + std::to_string(nice);
}

Result<void> write_adj(std::string_view value) {
  const UniqueFd file(open(kAdjFile, O_WRONLY | O_CLOEXEC));
  if (!file) return errno_error("open", kAdjFile);
  if (write(file.get(), value.data(), value.size()) < 0) return errno_error("write", kAdjFile);
  return {};
}

std::string current_adj() {
  const UniqueFd file(open(kAdjFile, O_RDONLY | O_CLOEXEC));
  std::array<char, 16> text{};
  const ssize_t size = file ? read(file.get(), text.data(), text.size()) : -1;
  if (size <= 0) return "unknown";
  return std::string(trim({text.data(), static_cast<std::size_t>(size)}));
}

}  // namespace

FeatureReport use_real_time(const FeatureSet& disabled) {
  const Feature feature = Feature::sched_fifo;
  real_time_is_off = has(disabled, feature);
  if (real_time_is_off) {
    FeatureReport report = forced_off(feature);
    report.evidence += "; " + nice_instead();
    return report;
  }
  sched_param wanted{};
  wanted.sched_priority = kRealTimePriority;
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted) == 0) {
    return {feature, FeatureState::in_use, "sched_setscheduler SCHED_FIFO 50: accepted"};
  }
  const int code = errno;
  return {feature, code == EINVAL ? FeatureState::absent : FeatureState::refused,
          "sched_setscheduler SCHED_FIFO 50: " + words(code) + "; " + nice_instead()};
}

namespace {

// If the kernel refuses, it refuses the loop too, so no priority inversion is possible.
void try_real_time(int priority) {
  sched_param wanted{};
  wanted.sched_priority = priority;
  sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted);
}

}  // namespace

void use_service_priority() {
  if (!real_time_is_off) try_real_time(1);
}

void use_ordinary_priority() {
  // Always permitted (kernel/sched/syscalls.c user_check_sched_setscheduler()).
  const sched_param ordinary{};
  ::sched_setscheduler(0, SCHED_OTHER, &ordinary);
}

void use_watchdog_priority() {
  try_real_time(kRealTimePriority + 1);
}

Result<std::uint64_t> raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("getrlimit", "RLIMIT_NOFILE");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("setrlimit", "RLIMIT_NOFILE");
  return limit.rlim_cur;
}

Result<std::uint64_t> grow_descriptor_table(std::uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("getrlimit", "RLIMIT_NOFILE");
  const auto fits = std::min<std::uint64_t>({wanted, limit.rlim_cur, INT_MAX});
  const UniqueFd any(eventfd(0, EFD_CLOEXEC));
  if (!any) return errno_error("eventfd", "for the table of descriptors");
  // The table ends after the highest descriptor that it ever had, rounded up to a power of two.
  const auto highest = static_cast<int>(fits) - 1;
  const UniqueFd high(fcntl(any.get(), F_DUPFD_CLOEXEC, highest));
  if (!high && fcntl(highest, F_GETFD) < 0) return errno_error("fcntl F_DUPFD", "near the limit");
  return fits;
}

FeatureReport lock_memory(const FeatureSet& disabled) {
  const Feature feature = Feature::memory_lock;
  if (has(disabled, feature)) return forced_off(feature);
  keep_own_code_resident();
  keep_heap_reserve();
  if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0) {
    return {feature, FeatureState::in_use, "mlockall CURRENT|FUTURE|ONFAULT: accepted"};
  }
  const int code = errno;
  // MCL_CURRENT compares the whole mapped size with RLIMIT_MEMLOCK (mm/mlock.c) and locks nothing
  // if it is exceeded, so nothing is partially locked.
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return {feature, code == ENOSYS ? FeatureState::absent : FeatureState::refused,
          "mlockall CURRENT|FUTURE|ONFAULT: " + words(code) + "; RLIMIT_MEMLOCK is " +
              std::to_string(limit.rlim_cur) +
              "; instead only the warm-up keeps the kill path resident"};
}

FeatureReport lower_oom_score_adj(const FeatureSet& disabled) {
  const Feature feature = Feature::oom_score_adj;
  if (has(disabled, feature)) return forced_off(feature);
  const auto never = write_adj("-1000");
  if (never.ok()) return {feature, FeatureState::in_use, "oom_score_adj -1000: accepted"};
  const auto last = write_adj("-999");
  if (last.ok()) {
    return {feature, FeatureState::in_use,
            "oom_score_adj -1000: " + words(never.error().code) + "; -999 instead"};
  }
  const int code = last.error().code;
  return {feature, code == ENOENT ? FeatureState::absent : FeatureState::refused,
          "oom_score_adj -999: " + words(code) + "; stays at " + current_adj()};
}

}  // namespace forestall::kernel
