// SPDX-License-Identifier: Apache-2.0
// One cgroup's memory on held descriptors: usage, inactive_file and, if requested, the effective
// limit (the smallest of its own and its ancestors').
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_cgroup.h"
#include "kernel/held_file.h"
#include "model/observation.h"

namespace forestall::sources {

// At or above this value a cgroup v1 limit means "none" (kubelet: pkg/kubelet/stats/helper.go).
inline constexpr Bytes kNoLimitOfV1{std::int64_t{1} << 62};

class CgroupReader {
 public:
  // open(): usage and inactive_file only. open_with_limit(): also the limit, which on v2 costs one
  // more descriptor per level. ENOENT: no such cgroup, or its memory controller is off; see the
  // message.
  static Result<CgroupReader> open(const kernel::CgroupTree& tree, std::string_view path);
  static Result<CgroupReader> open_with_limit(const kernel::CgroupTree& tree,
                                              std::string_view path);

  struct CgroupReadings {
    bool removed = false;  // the cgroup was removed; no other field is set
    std::optional<Bytes> usage;
    std::optional<Bytes> inactive_file;
    std::optional<Bytes> limit;  // nullopt: unlimited, or unknown with a note
  };
  // Fresh values. A value that cannot be read stays unset and gets a note.
  [[nodiscard]] CgroupReadings read(std::string& buffer, std::vector<SourceNote>& notes) const;
  // The same with these values of a pass (kernel/memcg_scan.h): reads only the limit. On v1 a
  // limit is in memory.stat, and all values are those of the files.
  [[nodiscard]] CgroupReadings read_passed(Bytes usage, Bytes inactive_file, std::string& buffer,
                                           std::vector<SourceNote>& notes) const;
  // Usage only: one short file.
  [[nodiscard]] CgroupReadings read_usage(std::string& buffer,
                                          std::vector<SourceNote>& notes) const;

  [[nodiscard]] const kernel::CgroupDir& cgroup() const { return *cgroup_; }
  // For a kill. What it holds stays open while it is in use.
  [[nodiscard]] kernel::HeldCgroup held() const { return {cgroup_, usage_}; }

 private:
  CgroupReader(kernel::CgroupDir cgroup, kernel::HeldFile usage, kernel::HeldFile stat)
      : cgroup_(std::make_shared<const kernel::CgroupDir>(std::move(cgroup))),
        usage_(std::make_shared<const kernel::HeldFile>(std::move(usage))),
        stat_(std::move(stat)) {}
  void read_limit(CgroupReadings& reading, std::string& buffer,
                  std::vector<SourceNote>& notes) const;

  std::shared_ptr<const kernel::CgroupDir> cgroup_;
  std::shared_ptr<const kernel::HeldFile> usage_;
  kernel::HeldFile stat_;
  std::vector<kernel::HeldFile> limits_;  // v2: memory.max of the group and of each ancestor
  bool limit_in_stat_ = false;            // v1: hierarchical_memory_limit is in memory.stat
};

}  // namespace forestall::sources
