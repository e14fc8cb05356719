// SPDX-License-Identifier: Apache-2.0
// One cgroup's memory on held descriptors: usage, inactive_file and, where asked for, the effective
// limit, which is the smallest of its own and its ancestors'.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "model/observation.h"

namespace forestall::sources {

// At or above this a limit of cgroup v1 means "none" (kubelet: pkg/kubelet/stats/helper.go).
inline constexpr Bytes kNoLimitOfV1{std::int64_t{1} << 62};

class CgroupReader {
 public:
  // For usage and inactive_file alone / with the limit, which on v2 costs one more descriptor per
  // level. ENOENT: no such cgroup, or its memory controller is off; see the message.
  static Result<CgroupReader> open(const kernel::CgroupTree& tree, std::string_view path);
  static Result<CgroupReader> open_with_limit(const kernel::CgroupTree& tree,
                                              std::string_view path);

  struct Reading {
    bool removed = false;  // the cgroup is gone; nothing else is set then
    std::optional<Bytes> usage;
    std::optional<Bytes> inactive_file;
    std::optional<Bytes> limit;  // nothing: unlimited, or unknown with a note
  };
  // Fresh values; what could not be read stays unknown and gets a note.
  [[nodiscard]] Reading read(std::string& buffer, std::vector<SourceNote>& notes) const;
  // Usage alone, which is one short file.
  [[nodiscard]] Reading read_usage(std::string& buffer, std::vector<SourceNote>& notes) const;

  [[nodiscard]] const kernel::CgroupDir& cgroup() const { return cgroup_; }

 private:
  CgroupReader(kernel::CgroupDir cgroup, kernel::HeldFile usage, kernel::HeldFile stat)
      : cgroup_(std::move(cgroup)), usage_(std::move(usage)), stat_(std::move(stat)) {}
  kernel::CgroupDir cgroup_;
  kernel::HeldFile usage_;
  kernel::HeldFile stat_;
  std::vector<kernel::HeldFile> limits_;  // v2: memory.max of the group and of each ancestor
  bool limit_in_stat_ = false;            // v1: hierarchical_memory_limit is in memory.stat
};

}  // namespace forestall::sources
