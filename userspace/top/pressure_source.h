// SPDX-License-Identifier: Apache-2.0
// Pressure from the kernel's files: of the node by resource, of each workload for memory. Every
// user may read them, so no agent is needed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "forestall/internal/top.pb.h"
#include "kernel/cgroup_tree.h"

namespace forestall::top {

// Thread rule: one thread.
class PressureSource {
 public:
  // `tree`, if not null, must outlive this. Null: no pressure of workloads.
  explicit PressureSource(const kernel::CgroupTree* tree, std::string proc = "/proc");

  // Sets `pressure`, and the stall time of each workload in the report, since the last sample. For
  // the first sample, the node's values are the kernel's ten-second averages, and those of
  // workloads stay unset.
  void read(MonotonicTime now, internal::TopReport& report);

 private:
  struct ResourceStall {
    const char* name = "";
    std::optional<Duration> some = std::nullopt;  // total at the last sample
    std::optional<Duration> full = std::nullopt;
  };
  struct Stalled {
    Duration total{0};
    MonotonicTime at;
  };
  void evaluate_at(ResourceStall& resource, Duration window, internal::TopReport& report) const;
  // Total stall time of the workload; nothing: not reported.
  [[nodiscard]] std::optional<Duration> stalled(const v1::Workload& workload) const;

  const kernel::CgroupTree* tree_;
  const std::string proc_;
  std::array<ResourceStall, 3> resources_{ResourceStall{"memory"}, ResourceStall{"io"},
                                          ResourceStall{"cpu"}};
  std::optional<MonotonicTime> last_;
  std::map<std::uint64_t, Stalled> stalled_;  // at the last sample, by cgroup
};

}  // namespace forestall::top
