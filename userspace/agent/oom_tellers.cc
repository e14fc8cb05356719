// SPDX-License-Identifier: Apache-2.0
#include "agent/oom_tellers.h"

#include <utility>

namespace forestall::agent {

std::vector<OomKillSighting> OomTellers::take(MonotonicTime now) {
  using sources::OomTeller;
  if (bpf_ != nullptr) {
    for (auto& kill : bpf_->take_kills()) sightings_.tell(OomTeller::bpf, std::move(kill), now);
  }
  if (log_ != nullptr) {
    for (auto& kill : log_->take_kills()) sightings_.tell(OomTeller::log, std::move(kill), now);
  }
  std::vector<OomKillSighting> kills;
  sightings_.take(now, kills);
  return kills;
}

}  // namespace forestall::agent
