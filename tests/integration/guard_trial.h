// SPDX-License-Identifier: Apache-2.0
// The node of the guard's trials: a limited cgroup with workloads, which an agent watches.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test::guard_trial {

inline constexpr Bytes kLimit = mib(128);
inline constexpr Bytes kThreshold = mib(24);
// Between the guard's zone, 32 MiB above the threshold, and the threshold.
inline constexpr Bytes kInZone = kLimit - kThreshold - mib(6);
// Past the critical line at half of the threshold, and short of the limit.
inline constexpr Bytes kCritical = kLimit - mib(8);
inline constexpr Bytes kKept = mib(8);
inline constexpr Bytes kPace = mib(2);
// Less than the usage of either victim when it is killed.
inline constexpr Bytes kFreedMin = mib(32);

// A watched cgroup with a leak, a large calm workload, and a protected one.
class Node {
 public:
  Node() {
    scratch.limit(scratch.path(), kLimit);
    for (const char* name : {"keep", "leak", "large"}) scratch.child(name);
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return scratch.path() + "/" + name;
  }
  // `first` has the lowest priority; empty: no workload may be killed.
  [[nodiscard]] std::string config(const std::string& first, const std::string& more = "") const {
    std::string text = fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\nguard: on\nrecheckInterval: 100ms\n"
        "releaseTimeout: 20s\nwatch:\n  - cgroup: {}\n    available: {}Mi\nworkloads:\n",
        scratch.path(), kThreshold.count >> 20);
    text = more + text;
    for (const std::string name : {"keep", "leak", "large"}) {
      text += fmt::format("  - {{cgroup: {}, name: {}, priority: {}, protected: {}}}\n", path(name),
                          name, name == first ? 0 : 10, first.empty());
    }
    return text;
  }
  [[nodiscard]] std::uint64_t oom_kills() const { return scratch.oom_kills(scratch.path()); }

  ScratchCgroup scratch;
};

inline bool was_killed(Hog& hog) {
  if (!hog.child().wait_exit()) return false;
  const int status = hog.child().reap();
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

inline std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

inline bool can_guard() {
  return !missing_feature("guard").has_value();
}

}  // namespace forestall::test::guard_trial
