// SPDX-License-Identifier: Apache-2.0
// What the kernel's files say of pressure: of the node by resource, of each workload for memory.
// An agent is not asked for it: these files are everybody's to read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "forestall/v1/top.pb.h"
#include "kernel/cgroup_tree.h"

namespace forestall::top {

// Thread rule: one thread.
class PressureEye {
 public:
  // `tree`, if not null, outlives this; null: workloads tell nothing.
  explicit PressureEye(const kernel::CgroupTree* tree, std::string proc = "/proc");

  // Fills in `pressure`, and how long each of the workloads in the report was stalled, both since
  // the last look. With the first look the node's are the kernel's averages of ten seconds, and
  // those of workloads stay unset.
  void look(MonotonicTime now, v1::TopReport& report);

 private:
  struct Resource {
    const char* name = "";
    std::optional<Duration> some = std::nullopt;  // total at the last look
    std::optional<Duration> full = std::nullopt;
  };
  struct Stalled {
    Duration total{0};
    MonotonicTime at;
  };
  void look_at(Resource& resource, Duration window, v1::TopReport& report) const;
  // How long some task of the workload was stalled so far; nothing: its cgroup does not tell.
  [[nodiscard]] std::optional<Duration> stalled(const v1::Workload& workload) const;

  const kernel::CgroupTree* tree_;
  const std::string proc_;
  std::array<Resource, 3> resources_{Resource{"memory"}, Resource{"io"}, Resource{"cpu"}};
  std::optional<MonotonicTime> last_;
  std::map<std::uint64_t, Stalled> stalled_;  // as of the last look, by cgroup
};

}  // namespace forestall::top
