// SPDX-License-Identifier: Apache-2.0
// What rulesets change of cgroups other than by a kill.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/ids.h"

namespace forestall {

// A setting that lasts until no ruleset requires it, or until its time is over.
struct RuleSetting {
  enum class Kind : std::uint8_t { throttle, freeze };

  Kind kind = Kind::throttle;
  CgroupId cgroup;
  std::string path;
  Bytes high;  // of a throttle: memory.high; the lowest one of a cgroup's applies
  // Ends it if no evaluation does: the readings of rulesets may fail.
  MonotonicTime until = MonotonicTime::max();

  friend bool operator==(const RuleSetting&, const RuleSetting&) = default;
};

// Memory to be reclaimed once.
struct RuleReclaim {
  CgroupId cgroup;
  std::string path;
  Bytes amount;
  std::string ruleset = {};
  // Of proactive reclaim: usage that is left in any case, and when it is too late to begin.
  bool proactive = false;
  Bytes leave = {};
  MonotonicTime until = MonotonicTime::max();

  friend bool operator==(const RuleReclaim&, const RuleReclaim&) = default;
};

}  // namespace forestall
