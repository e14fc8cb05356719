// SPDX-License-Identifier: Apache-2.0
// Kills by the kernel's OOM killer, from every source that reports them, each once.
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
  // No source reports kills.
  OomTellers() : OomTellers(nullptr, nullptr) {}
  // Null: there is no such source, or it does not report kills.
  OomTellers(sources::BpfSource* bpf, sources::OomLog* log)
      : bpf_(bpf), log_(log), sightings_(bpf != nullptr, log != nullptr) {}

  // The kills that are complete by now, from what the sources drained so far.
  [[nodiscard]] std::vector<OomKillSighting> take(MonotonicTime now);
  // When to call take() though no source has drained anything.
  [[nodiscard]] std::optional<MonotonicTime> next_look() const { return sightings_.next_look(); }
  // Events dropped because their kill was taken before.
  [[nodiscard]] std::uint64_t late() const { return sightings_.late(); }

 private:
  sources::BpfSource* bpf_;
  sources::OomLog* log_;
  sources::OomSightings sightings_;
};

}  // namespace forestall::agent
