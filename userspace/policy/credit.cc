// SPDX-License-Identifier: Apache-2.0
// The memory still held by kills in flight, per subject.
#include "policy/credit.h"

#include <algorithm>
#include <cstddef>

#include "base/parse.h"

namespace forestall::policy {
namespace {

// Whether `other` already includes the memory of `kill`: usage is hierarchical, and a cgroup that
// is listed twice counts once.
bool counted_by(const KillProgress& kill, const KillProgress& other) {
  if (other.state != KillState::in_flight || &kill == &other) return false;
  if (!path_is_within(kill.path, other.path)) return false;
  if (kill.path != other.path) return true;
  if (kill.remaining != other.remaining) return kill.remaining < other.remaining;
  return &other < &kill;  // duplicates: the first one counts
}

}  // namespace

Credit::Credit(const std::vector<KillProgress>& kills) {
  for (const KillProgress& kill : kills) {
    if (kill.state != KillState::in_flight) continue;
    const bool counted = std::any_of(kills.begin(), kills.end(), [&](const KillProgress& other) {
      return counted_by(kill, other);
    });
    if (!counted) in_flight_.push_back(&kill);
  }
}

Bytes Credit::of(const Subject& subject, const MemoryLevel& level) const {
  Bytes sum;
  for (const KillProgress* kill : in_flight_) {
    const bool relevant = subject.is_node() || path_is_within(kill->path, subject.path) ||
                          path_is_within(subject.path, kill->path);
    if (relevant) sum = add(sum, std::max(kill->remaining, Bytes{0}));
  }
  return std::min(sum, level.used());
}

}  // namespace forestall::policy
