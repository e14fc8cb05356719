// SPDX-License-Identifier: Apache-2.0
// Credit: memory that is on its way back because its owner was signalled. It is counted as
// available already, so that one crossing does not cost two victims while the first one exits
// (over-eviction is the complaint of peers.md §4 items 5 and 18).
//
// Only a kill in flight earns credit; one that is stuck or failed has lost it, which is what makes
// the next candidate's turn come.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "model/kill.h"
#include "policy/signals.h"

namespace forestall::policy {

class Credit {
 public:
  // `kills` must outlive the object.
  explicit Credit(const std::vector<KillProgress>& kills);

  // What the kills in flight will give back to `subject`: what victims at or below it still hold
  // (all of them for the node), never more than the subject's working set. A subject inside a
  // victim gets all of its own back. A victim inside another victim counts once.
  [[nodiscard]] Bytes of(const Subject& subject, const Level& level) const;

 private:
  std::vector<const KillProgress*> in_flight_;  // outermost victims only
};

}  // namespace forestall::policy
