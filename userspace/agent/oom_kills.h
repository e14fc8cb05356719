// SPDX-License-Identifier: Apache-2.0
// Records kills by the kernel's OOM killer: the event, whether it was predicted, and why the agent
// had not acted, from what it knew at that time.
//
// A kill may be reported milliseconds after it happened, when the loop has evaluated again. So the
// last evaluations are kept, and the record carries the one before the kill.
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
  // How far back evaluations are kept, and how many at most. A kill is reported after
  // OomSightings::kPatience at the latest; the last evaluation is kept however old it is.
  static constexpr Duration kLooksAge = std::chrono::seconds(1);
  static constexpr std::size_t kLooksMax = 64;
  // Crossings kept, of all cgroups together.
  static constexpr std::size_t kCrossingsMax = 64;

  OomKills(const std::vector<exports::RecordSink*>& sinks, OomForecast& foresight)
      : sinks_(sinks), foresight_(foresight) {}

  // Every wake, before the evaluation it causes.
  void note(const Wake& wake);
  // Every evaluation: its observation, its decision, and the state that came out of it.
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
  OomForecast& foresight_;
  std::deque<Look> looks_;          // oldest first
  std::deque<Crossing> crossings_;  // oldest first
};

}  // namespace forestall::agent
