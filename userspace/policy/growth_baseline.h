// SPDX-License-Identifier: Apache-2.0
// The usage of each workload before memory became short, as the baseline of its growth.
//
// The baseline is taken when a warning line is first crossed and stays until usage is below it
// again: memory charged in between caused the crossing. A spike may reach the threshold before
// anything was read at the warning line; until then the last sampling before it is the baseline.
// Without either, growth is unknown and the ranking is kubelet's.
//
// Pure and single-threaded. Holds one number per workload. Allocates only in take() and
// take_before_warning(), which are not on the path to a kill.
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
  // A warning line of a subject was crossed and no threshold is met yet; once one is met, the
  // growth has already happened. `samples` are of all workloads at or below `scope`, the path of
  // the subject; "" is all of them. During a warning the first figure of each workload counts:
  // workloads of an earlier scope are left unchanged.
  void take(const std::vector<WorkloadSample>& samples, MonotonicTime at,
            std::string_view scope = {});
  // No line is crossed: `samples` of all workloads. Replaces those of the previous call.
  void take_before_warning(const std::vector<WorkloadSample>& samples, MonotonicTime at);
  // Usage is below every warning line: the next warning takes a new baseline. The last
  // sampling before the warning stays.
  void forget();

  // Sets `growth` of each sample: its working set minus the baseline's, floored at 0. A workload
  // that is not in the baseline has grown by its whole working set. Nullopt if either working set
  // is unknown, outside of the scopes read, and without a baseline. O(n log n) in time, no
  // allocation.
  void apply(std::vector<WorkloadSample>& samples) const;

  // When the figures used by apply() were read; nullopt: there are none.
  [[nodiscard]] std::optional<MonotonicTime> taken_at() const;
  // Whether they belong to a warning.
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

  [[nodiscard]] const Figures& in_force() const { return warned() ? warning_ : before_warning_; }

  Figures warning_;
  Figures before_warning_;
};

}  // namespace forestall::policy
