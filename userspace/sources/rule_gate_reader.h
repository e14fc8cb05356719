// SPDX-License-Identifier: Apache-2.0
// Reads the gates of rulesets (rulesets/reading_plan.h): pressure files that stay open, so that a
// reading resolves no path.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "rulesets/reading_plan.h"

namespace forestall::sources {

// Thread rule: one thread at a time.
class RuleGateReader {
 public:
  static constexpr std::size_t kHeldMax = 1024;

  // Files to hold: an eighth of the limit of open files, at most kHeldMax. Workloads have half of
  // the descriptors, watched cgroups a quarter.
  [[nodiscard]] static std::size_t held_max();

  // `tree` outlives the reader. `proc` is where procfs is. Files beyond `held_max` are opened for
  // each reading.
  RuleGateReader(const kernel::CgroupTree& tree, std::string proc,
                 std::size_t held_max = RuleGateReader::held_max())
      : tree_(tree), proc_(std::move(proc)), held_max_(held_max) {}

  // The highest average of its cgroups; 0 if all of them are gone, or this host has none. Nothing:
  // a cgroup that exists has none now, or it cannot be read.
  [[nodiscard]] std::optional<double> highest(const rulesets::PressureGate& gate);
  // Closes the files that none of these gates needs.
  void keep(const std::vector<rulesets::PressureGate>& gates);

 private:
  using Key = std::pair<std::string, rulesets::PressureResource>;  // a path

  // Whether the file is read; its text is in `buffer_` then. An error: it may exist.
  [[nodiscard]] Result<bool> read(const Key& key, std::string_view& text);
  // Not now, and not without a new cgroup.
  [[nodiscard]] bool has_never_pressure(const Key& key) const;
  [[nodiscard]] Result<kernel::HeldFile> open(const Key& key) const;

  const kernel::CgroupTree& tree_;
  const std::string proc_;
  const std::size_t held_max_;
  std::map<Key, kernel::HeldFile> held_;
  std::string buffer_;
};

}  // namespace forestall::sources
