// SPDX-License-Identifier: Apache-2.0
// Kills by the kernel's OOM killer, put on record: what was seen of it, whether it was foreseen,
// and why the agent had not acted, from what it knew at that time.
//
// A kill may be told milliseconds after it happened, when the loop has looked again: so the last
// looks are kept, and the one before the kill answers.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "agent/foresight.h"
#include "base/clock.h"
#include "exports/sink.h"
#include "model/config.h"
#include "model/record.h"
#include "policy/state.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class OomKills {
 public:
  // How far back looks are kept, and how many at most. A kill is told after
  // OomSightings::kPatience at the latest; the last look is kept however old it is.
  static constexpr Duration kLooksAge = std::chrono::seconds(1);
  static constexpr std::size_t kLooksMax = 64;
  // Crossings remembered, whatever they are of.
  static constexpr std::size_t kCrossingsMax = 64;

  // `foresight` may be null: nothing is foreseen then.
  OomKills(const std::vector<exports::RecordSink*>& sinks, Foresight* foresight)
      : sinks_(sinks), foresight_(foresight) {}

  // Every wake, before the look it causes.
  void note(const Wake& wake);
  // Every look: its observation, its decision, and the state that came out of it.
  void keep(Record look, const policy::State& state);
  // One kill. `now` and `wall_time_ns` are of this call, `sequence` is the record's.
  void tell(const OomKillSighting& kill, const Config& config, std::uint64_t sequence,
            MonotonicTime now, std::int64_t wall_time_ns);

 private:
  struct Look {
    Record record;
    policy::State state;
  };
  struct Crossing {
    CgroupId cgroup;  // inode 0: the node
    MonotonicTime at;
  };
  [[nodiscard]] const Look& before(MonotonicTime kill) const;
  [[nodiscard]] std::optional<MonotonicTime> crossed(const OomKillSighting& kill,
                                                     MonotonicTime after) const;

  const std::vector<exports::RecordSink*>& sinks_;
  Foresight* foresight_;
  std::deque<Look> looks_;          // oldest first
  std::deque<Crossing> crossings_;  // oldest first
};

}  // namespace forestall::agent
