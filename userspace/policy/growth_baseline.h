// SPDX-License-Identifier: Apache-2.0
// What each workload used before memory became short, so that growth since then can be told.
//
// The baseline is taken when a warning line is first crossed and stays until usage has receded
// below it: what was charged in between is what the crossing is made of. A spike may reach the
// threshold before anything was read at the warning line; until then the last calm look stands in.
// Without either there is no growth to tell, and the ranking is kubelet's.
//
// Pure, and of one thread. Holds one number for each workload and allocates in take() and calm()
// only, neither of which is on the path to a kill.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/workload.h"

namespace forestall::policy {

class GrowthBaseline {
 public:
  // A warning line of a subject was crossed, and no threshold is met yet: at one that is met, the
  // growth has happened already. `samples` are of all workloads at or below `scope`, the path of
  // the subject; "" is all of them. While the warning lasts the first figure of each counts:
  // workloads of a scope that was told before are left as they are.
  void take(const std::vector<WorkloadSample>& samples, MonotonicTime at,
            std::string_view scope = {});
  // No line is crossed: `samples` of all workloads. Replaces what an earlier calm look saw.
  void calm(const std::vector<WorkloadSample>& samples, MonotonicTime at);
  // Usage has receded below every warning line: the next warning takes a new one. The last calm
  // look stays.
  void forget();

  // Sets `growth` of each: the working set less that of the baseline, floored at 0. What was not
  // there at the baseline grew by all it has. Nothing where either working set is unknown, outside
  // of what was read, and for all without a baseline. O(n log n) in time, no memory.
  void apply(std::vector<WorkloadSample>& samples) const;

  // Of the figures that apply() compares with; nothing: there are none.
  [[nodiscard]] std::optional<MonotonicTime> taken_at() const;
  // Whether they are those of a warning.
  [[nodiscard]] bool warned() const { return warning_.at.has_value(); }

 private:
  struct Entry {
    CgroupId cgroup;
    std::optional<Bytes> working_set;
  };
  struct Figures {
    std::optional<MonotonicTime> at;
    std::vector<std::string> scopes;  // what was read
    std::vector<Entry> entries;       // by cgroup, ascending

    void add(const std::vector<WorkloadSample>& samples, std::string_view scope);
    [[nodiscard]] bool covers(std::string_view path) const;
    [[nodiscard]] std::optional<Bytes> growth_of(const WorkloadSample& sample) const;
  };

  [[nodiscard]] const Figures& in_force() const { return warned() ? warning_ : calm_; }

  Figures warning_;
  Figures calm_;
};

}  // namespace forestall::policy
