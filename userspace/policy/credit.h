// SPDX-License-Identifier: Apache-2.0
// Credit: memory that a signalled victim is about to free. It already counts as available, so that
// one crossing does not cost a second victim while the first one exits.
//
// Only a kill in flight has credit. A stuck or failed one has none, so the next candidate is
// selected.
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

  // The memory that the kills in flight will free for `subject`: what victims at or below it still
  // hold (all of them for the node), at most the subject's working set. A subject inside a victim
  // gets all of its own back. A victim inside another victim counts once.
  [[nodiscard]] Bytes of(const Subject& subject, const MemoryLevel& level) const;

 private:
  std::vector<const KillProgress*> in_flight_;  // outermost victims only
};

}  // namespace forestall::policy
