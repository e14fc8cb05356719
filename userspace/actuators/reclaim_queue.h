// SPDX-License-Identifier: Apache-2.0
// Reclaims that rulesets decided and that have not begun. Time is an argument.
//
// A proactive one waits for all others. Among themselves they take turns by ruleset and path: when
// time is too short for all of them, it is not always the same ones that are dropped.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/ids.h"
#include "model/rule_setting.h"

namespace forestall::actuators {

// Thread rule: one thread at a time.
class ReclaimQueue {
 public:
  // Replaces those of the same rulesets, of proactive ones only those of the same cgroups as well:
  // each cgroup is due at another time. Drops those of the cgroup that is being reclaimed from.
  void add(std::vector<RuleReclaim> wanted);
  void clear();
  // Drops what is too late, and removes the one that is to begin now.
  [[nodiscard]] std::optional<RuleReclaim> take(MonotonicTime now, bool may_be_proactive);
  // The one that was taken is over.
  void end() { under_way_.reset(); }
  // Proactive ones that were dropped since the last call.
  [[nodiscard]] std::vector<RuleReclaim> take_dropped();

 private:
  using Reclaims = std::list<RuleReclaim>;

  template <typename Condition>
  void drop_if(Condition condition);
  void drop(RuleReclaim reclaim);
  [[nodiscard]] Reclaims::iterator next(bool may_be_proactive);

  Reclaims waiting_;
  std::vector<RuleReclaim> dropped_;
  std::optional<CgroupId> under_way_;
  std::pair<std::string, std::string> served_;  // ruleset and path of the last proactive one
};

}  // namespace forestall::actuators
