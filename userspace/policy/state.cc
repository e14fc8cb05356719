// SPDX-License-Identifier: Apache-2.0
#include "policy/state.h"

#include <tuple>

namespace forestall::policy {

bool operator==(const State& a, const State& b) {
  const auto plain = [](const State& of) {
    return std::tie(of.at, of.layout, of.met, of.driving, of.read, of.conditions, of.reclaim,
                    of.cleanup_until);
  };
  if (plain(a) != plain(b)) return false;
  return a.derived == b.derived || (a.derived && b.derived && *a.derived == *b.derived);
}

State reloaded(const State& before) {
  State state;
  state.conditions = before.conditions;
  return state;
}

}  // namespace forestall::policy
