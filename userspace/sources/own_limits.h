// SPDX-License-Identifier: Apache-2.0
// Workloads near a limit of their own: which cgroups have one, and what they use.
//
// A pod's cgroup has a limit only if all of its containers have one, so a container is held against
// its own as well where that is the lower. There may be thousands, of which few are near:
// - limits are read at refresh, within a budget of time, and what has none costs nothing after;
// - more than the BPF programs have slots for are not watched: the nearest to their limits are, and
//   a note says how many are left out;
// - a look reads only usage, one descriptor each, until that could meet the threshold by itself:
//   the working set is never larger; memory.stat costs twenty times as much;
// - a look for a crossing elsewhere reads none of them: every microsecond there is before a kill.
//   They are then told as they were read last, with that time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/observation.h"
#include "model/wake.h"
#include "model/workload.h"
#include "sources/cgroup_reader.h"

namespace forestall::sources {

class OwnLimits {
 public:
  // `tree` must outlive the object.
  explicit OwnLimits(const kernel::CgroupTree& tree) : tree_(tree) {}

  // Opens what is to be watched of `workloads`, at most `slots`. Opens nothing without a threshold
  // of Config that has own_limits_of, and, unless `config` changed its thresholds, not before the
  // time the last refresh took is less than 2 % of the time since.
  void refresh(const Config& config, const std::vector<const Workload*>& workloads,
               std::size_t slots, MonotonicTime now, std::vector<SourceNote>& notes);

  // Appends a sample of each. `wake` is why they are read, at `now`.
  void read(const Wake& wake, MonotonicTime now, std::vector<CgroupSample>& samples,
            std::vector<SourceNote>& notes);

  // The same of these cgroups alone, afresh.
  void read_some(std::span<const CgroupId> cgroups, MonotonicTime now,
                 std::vector<CgroupSample>& samples, std::vector<SourceNote>& notes);

  [[nodiscard]] std::size_t size() const { return held_.size(); }

 private:
  struct Found {
    std::string path;
    std::size_t threshold = 0;
    Bytes limit;
    Bytes line;   // usage above this may meet the threshold
    Bytes usage;  // at refresh
  };
  struct Held {
    CgroupReader reader;
    std::size_t threshold = 0;
    Bytes limit;
    Bytes line;
    std::optional<CgroupSample> last;
  };
  void find(const Workload& workload, std::size_t threshold, std::vector<Found>& found);
  [[nodiscard]] std::optional<Found> look_at(const std::string& path, std::size_t threshold) const;
  void hold(std::vector<Found> found, std::vector<SourceNote>& notes);
  bool read_one(Held& held, MonotonicTime now, std::vector<SourceNote>& notes);

  const kernel::CgroupTree& tree_;
  std::vector<Threshold> thresholds_;  // as of the last refresh
  std::vector<Held> held_;
  MonotonicTime due_;
  std::string buffer_;
};

// The class a workload's place puts it in.
[[nodiscard]] WorkloadClass workload_class(const Workload& workload);

}  // namespace forestall::sources
