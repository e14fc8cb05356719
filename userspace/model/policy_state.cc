// SPDX-License-Identifier: Apache-2.0
#include "model/policy_state.h"

#include <tuple>

namespace forestall {

bool operator==(const PolicyState::Holdings& a, const PolicyState::Holdings& b) {
  return a.id == b.id && a.at == b.at && a.outside == b.outside && *a.held == *b.held;
}

bool operator==(const PolicyState& a, const PolicyState& b) {
  const auto plain = [](const PolicyState& of) {
    return std::tie(of.at, of.layout, of.met, of.driving, of.read, of.conditions, of.reclaim,
                    of.cleanup_until, of.series, of.holdings, of.decided, of.held_until,
                    of.rule_kill);
  };
  if (plain(a) != plain(b) || a.rules != b.rules) return false;
  return a.derived == b.derived || (a.derived && b.derived && *a.derived == *b.derived);
}

}  // namespace forestall
