// SPDX-License-Identifier: Apache-2.0
// The kernel's memory pressure counters as differences between two polls: PSI, usage against the
// limit, pages scanned and reclaimed. The tracer uses only these if BPF is unavailable. With BPF,
// it uses them for what BPF does not report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/memory_files.h"
#include "model/ids.h"

namespace forestall::sources {

// Of one subject over one window. Nullopt: this kernel does not report it, or not for this subject.
struct PressureReading {
  CgroupId cgroup;   // inode 0: the node
  std::string path;  // empty: the node
  Duration window{0};
  std::optional<Duration> some = std::nullopt;
  std::optional<Duration> full = std::nullopt;
  // At the end of the window. For the node: MemTotal - MemAvailable, and MemTotal.
  std::optional<Bytes> usage = std::nullopt;
  std::optional<Bytes> limit = std::nullopt;
  // Pages. For a v2 cgroup including its descendants; for the node all reclaim.
  std::optional<std::uint64_t> scanned = std::nullopt;
  std::optional<std::uint64_t> reclaimed = std::nullopt;
  // Node only: pages scanned in direct reclaim, and the number of allocation stalls.
  std::optional<std::uint64_t> direct_scanned = std::nullopt;
  std::optional<std::uint64_t> stalls = std::nullopt;
};

// Thread rule: one thread.
class PressurePoll {
 public:
  // Limit of polled cgroups: each costs three files.
  static constexpr std::size_t kCgroupsMax = 512;

  // `tree` outlives this. `node`: also poll the node itself.
  PressurePoll(const kernel::CgroupTree& tree, bool node, std::string proc = "/proc");

  // Adds a cgroup. False: kCgroupsMax reached. poll() drops removed cgroups.
  bool add(CgroupId id, const std::string& path);
  // A reading for each subject, the node's first. Unreadable files leave their fields unset. The
  // first poll of a subject has usage only, over no window.
  [[nodiscard]] std::vector<PressureReading> poll(MonotonicTime now);

 private:
  // Values at the last poll.
  struct Before {
    std::optional<Duration> some;
    std::optional<Duration> full;
    std::optional<std::uint64_t> scanned;
    std::optional<std::uint64_t> reclaimed;
    std::optional<std::uint64_t> direct_scanned;
    std::optional<std::uint64_t> stalls;
    std::optional<MonotonicTime> at;  // nullopt: not polled yet
  };

  [[nodiscard]] PressureReading poll_node(MonotonicTime now);
  // Nullopt: the cgroup was removed.
  [[nodiscard]] std::optional<PressureReading> poll_cgroup(CgroupId id, const std::string& path,
                                                           Before& before, MonotonicTime now);
  void take_psi(std::string_view text, Before& before, PressureReading& reading) const;

  const kernel::CgroupTree& tree_;
  const bool node_;
  const std::string proc_;
  Before node_before_;
  struct Polled {
    std::string path;
    Before before;
  };
  std::map<std::uint64_t, Polled> cgroups_;
  std::string buffer_;
};

}  // namespace forestall::sources
