// SPDX-License-Identifier: Apache-2.0
// The sources that tell of kills by the kernel's OOM killer, brought together: one telling of each.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "model/oom_kill.h"
#include "sources/bpf_source.h"
#include "sources/oom_log.h"
#include "sources/oom_sightings.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. The sources outlive it.
class OomTellers {
 public:
  // Null: there is no such source, or it does not tell.
  OomTellers(sources::BpfSource* bpf, sources::OomLog* log)
      : bpf_(bpf), log_(log), sightings_(bpf != nullptr, log != nullptr) {}

  // The kills that can be told by now, from what the sources drained so far.
  [[nodiscard]] std::vector<OomKillSighting> take(MonotonicTime now);
  // When to ask again though no source has anything to say.
  [[nodiscard]] std::optional<MonotonicTime> next_look() const { return sightings_.next_look(); }
  // Tellings of kills that were told already, and dropped.
  [[nodiscard]] std::uint64_t late() const { return sightings_.late(); }

 private:
  sources::BpfSource* bpf_;
  sources::OomLog* log_;
  sources::OomSightings sightings_;
};

}  // namespace forestall::agent
