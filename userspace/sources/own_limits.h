// SPDX-License-Identifier: Apache-2.0
// Workloads near a limit of their own: which cgroups have one, and their usage.
//
// A pod's cgroup has a limit only if all of its containers have one, so a container is compared
// with its own limit where that is lower. There may be thousands, of which few are near:
// - limits are read at refresh within a time budget; cgroups without a limit cost nothing later;
// - if there are more than the BPF programs have slots for, the nearest to their limits are watched
//   and a note gives the number of the others;
// - an evaluation reads only usage, one descriptor each, until usage alone could reach the
//   threshold: the working set is never larger, and memory.stat costs twenty times as much;
// - an evaluation for a crossing elsewhere reads none of them, to save time before a kill. It
//   reports their last sample, with the time of that sample.
#pragma once

#include <atomic>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/observation.h"
#include "model/wake.h"
#include "model/workload.h"
#include "sources/cgroup_reader.h"

namespace forestall::sources {

// For a refresh that runs to its end.
inline constinit const std::atomic<bool> kNeverStops{false};

class OwnLimits {
 public:
  // `tree` must outlive the object.
  explicit OwnLimits(const kernel::CgroupTree& tree) : tree_(tree) {}

  // Opens the cgroups of `workloads` to watch, at most `slots`. Opens nothing without a threshold
  // that has own_limits_of. Unless `config` changed its thresholds, a refresh is skipped until the
  // last one's duration is below 2 % of the time since. When `stop` becomes true it ends, and what
  // it watched stays.
  void refresh(const Config& config, const std::vector<const Workload*>& workloads,
               std::size_t slots, MonotonicTime now, const std::atomic<bool>& stop,
               std::vector<SourceNote>& notes);

  // Appends a sample of each. `wake` is the reason for the read, at `now`.
  void read(const Wake& wake, MonotonicTime now, std::vector<CgroupSample>& samples,
            std::vector<SourceNote>& notes);

  // Fresh samples of these cgroups only.
  void read_some(std::span<const CgroupId> cgroups, MonotonicTime now,
                 std::vector<CgroupSample>& samples, std::vector<SourceNote>& notes);

  // These cgroups are in use from now on instead of `before`: takes over their last samples.
  void continue_from(OwnLimits& before);
  // Whether the last refresh could list everything.
  [[nodiscard]] bool complete() const { return complete_; }

  [[nodiscard]] std::size_t size() const { return held_.size(); }

 private:
  struct Found {
    std::string path;
    std::size_t threshold = 0;
    Bytes limit;
    Bytes line;   // usage above this may reach the threshold
    Bytes usage;  // at refresh
  };
  struct Held {
    CgroupReader reader;
    std::size_t threshold = 0;
    Bytes limit;
    Bytes line;
    std::optional<CgroupSample> last;
  };
  struct Listing {
    std::vector<Found> found;
    // It is unknown whether these have a limit, or in the second set which children they have.
    std::set<std::string> unread;
    std::set<std::string> unlisted;
    std::optional<Error> failure;  // of the first of them

    void add_unread(const std::string& path, const Error& error) {
      unread.insert(path);
      if (!failure) failure = error;
    }
  };
  void find(const Workload& workload, std::size_t threshold, Listing& listing) const;
  [[nodiscard]] std::vector<std::string> children_of(const Workload& workload,
                                                     Listing& listing) const;
  [[nodiscard]] Result<std::optional<Found>> evaluate_at(const std::string& path,
                                                         std::size_t threshold) const;
  void keep_unread(Listing& listing) const;
  void watch(std::vector<Found> found, std::vector<SourceNote>& notes);
  bool read_one(Held& held, MonotonicTime now, std::vector<SourceNote>& notes);

  const kernel::CgroupTree& tree_;
  std::vector<Threshold> thresholds_;  // as of the last refresh
  std::vector<Held> held_;
  MonotonicTime due_;
  MonotonicTime listed_at_;
  bool complete_ = true;
  std::string buffer_;
};

// The class of a workload, from its place in the tree.
[[nodiscard]] WorkloadClass workload_class(const Workload& workload);

}  // namespace forestall::sources
