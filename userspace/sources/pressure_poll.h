// SPDX-License-Identifier: Apache-2.0
// What the kernel's files say of memory pressure, as differences from one poll to the next: PSI,
// usage against the limit, pages scanned and freed. It is all the tracer has where no BPF may be
// used, and what BPF does not tell where it may.
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

// Of one subject, over one window. Nothing: this kernel does not tell, or not of this subject.
struct PressureReading {
  CgroupId cgroup;   // inode 0: the node
  std::string path;  // empty: the node
  Duration window{0};
  std::optional<Duration> some = std::nullopt;
  std::optional<Duration> full = std::nullopt;
  // At the end of the window. Of the node: MemTotal - MemAvailable, and MemTotal.
  std::optional<Bytes> usage = std::nullopt;
  std::optional<Bytes> limit = std::nullopt;
  // Pages. Of a cgroup on v2 with all that lies below it; of the node, all reclaim.
  std::optional<std::uint64_t> scanned = std::nullopt;
  std::optional<std::uint64_t> reclaimed = std::nullopt;
  // The node's: scanned by tasks that needed memory, and how often one had to.
  std::optional<std::uint64_t> direct_scanned = std::nullopt;
  std::optional<std::uint64_t> stalls = std::nullopt;
};

// Thread rule: one thread.
class PressurePoll {
 public:
  // More cgroups than these are not polled: each costs three files.
  static constexpr std::size_t kCgroupsMax = 512;

  // `tree` outlives this. `node`: the node itself is polled, too.
  PressurePoll(const kernel::CgroupTree& tree, bool node, std::string proc = "/proc");

  // Adds a cgroup. False: there are kCgroupsMax. One that is gone is dropped by poll().
  bool add(CgroupId id, const std::string& path);
  // A reading for each subject, the node's first. Files that cannot be read say nothing; of one
  // that was not polled before there is usage only, over no window.
  [[nodiscard]] std::vector<PressureReading> poll(MonotonicTime now);

 private:
  // As it was at the last poll.
  struct Before {
    std::optional<Duration> some;
    std::optional<Duration> full;
    std::optional<std::uint64_t> scanned;
    std::optional<std::uint64_t> reclaimed;
    std::optional<std::uint64_t> direct_scanned;
    std::optional<std::uint64_t> stalls;
    std::optional<MonotonicTime> at;  // nothing: it was not polled yet
  };

  [[nodiscard]] PressureReading poll_node(MonotonicTime now);
  // Nothing: the cgroup is gone.
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
