// SPDX-License-Identifier: Apache-2.0
// What reclaims by rulesets freed, by ruleset and cgroup. The number of cgroups is bounded: those
// that come later are counted together, under an empty path, for each ruleset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/priority_mutex.h"

namespace forestall::exports {

struct RulesetReclaimCounts {
  std::string ruleset;
  std::string cgroup;  // empty: all others of the ruleset
  std::uint64_t writes = 0;
  Bytes reclaimed = {};
  std::uint64_t failures = 0;
  std::uint64_t back_offs = 0;
  std::uint64_t dropped = 0;  // decided, and not begun in time

  friend bool operator==(const RulesetReclaimCounts&, const RulesetReclaimCounts&) = default;
};

// Thread rule: any thread.
class ReclaimTally {
 public:
  // Over all rulesets.
  static constexpr std::size_t kCgroupsMax = 256;

  void add_write(const std::string& ruleset, const std::string& cgroup, Bytes reclaimed,
                 bool has_failed);
  void add_back_off(const std::string& ruleset, const std::string& cgroup);
  void add_dropped(const std::string& ruleset, const std::string& cgroup);
  // In the order in which they came.
  [[nodiscard]] std::vector<RulesetReclaimCounts> all() const;

 private:
  RulesetReclaimCounts& counts_of(const std::string& ruleset, const std::string& cgroup);
  RulesetReclaimCounts* find(const std::string& ruleset, const std::string& cgroup);

  mutable base::PriorityMutex mutex_;
  std::vector<RulesetReclaimCounts> all_;
  std::size_t cgroups_ = 0;  // with a path
};

}  // namespace forestall::exports
