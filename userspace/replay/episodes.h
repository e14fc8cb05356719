// SPDX-License-Identifier: Apache-2.0
// Summarizes decisions for the analysis of an incident: which threshold was crossed where and for
// how long, and which workloads were evicted when. The summaries of a recording and of another
// policy can be compared.
//
// An episode is one crossing: from the first evaluation at which a signal of a subject is met to
// the first at which it is not. The soft and hard thresholds of a signal form one episode, because
// a comparison of policies may change either of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/decision.h"
#include "model/duration.h"

namespace forestall::replay {

// An eviction.
struct Departure {
  MonotonicTime at;
  std::string name;
  std::string path;
  // Age of the samples, if the workloads were not read for this decision.
  std::optional<Duration> age = std::nullopt;

  friend bool operator==(const Departure&, const Departure&) = default;
};

struct Episode {
  std::string signal;   // its name; for limits on local storage: the cause
  std::string subject;  // "node" or the path of a cgroup
  MonotonicTime began;
  std::optional<MonotonicTime> ended = std::nullopt;  // nothing: not ended
  MonotonicTime seen;                                 // last time it was met
  std::vector<Departure> victims = {};                // the first kMaxVictims
  std::uint64_t kills = 0;                            // decisions to kill
  bool in_grace = false;  // no eviction, and the last evaluation was within the grace period
  Reason reason = Reason::no_data;  // of the last evaluation
  std::string limit;                // of the first threshold met, in kubelet's format

  [[nodiscard]] MonotonicTime end() const { return ended.value_or(seen); }
};

class Episodes {
 public:
  // Victims kept per episode. A replay selects the same victim at each evaluation, because the
  // recording does not show its exit.
  static constexpr std::size_t kMaxVictims = 16;

  // Adds the decision of an evaluation. REQUIRES: `read` does not decrease. `age`: of the workload
  // samples, if they were not read for it. `shift` is added to every time; it continues the clock
  // after a reboot.
  void take(MonotonicTime read, const Decision& decision,
            std::optional<Duration> age = std::nullopt, Duration shift = Duration::zero());
  // The node was rebooted: open episodes end at the time they were last met.
  void interrupt();
  // In order of their start.
  [[nodiscard]] const std::vector<Episode>& all() const { return episodes_; }

 private:
  using Name = std::pair<std::string, std::string>;  // signal and subject

  Episode& open(const Name& name, MonotonicTime at);
  void note_kills(MonotonicTime at, const Decision& decision, std::optional<Duration> age);

  std::vector<Episode> episodes_;
  std::map<Name, std::size_t> open_;  // indices of open episodes
};

// The difference between two summaries at one crossing.
struct EpisodeDifference {
  enum class Kind : std::uint8_t {
    same,          // same victim, within a millisecond
    earlier,       // same victim, earlier
    later,         // same victim, later
    other_victim,  // different victim
    only_before,   // crossed only in the first, with an eviction
    only_after,    // crossed only in the second, with an eviction
    spared,        // crossed in both, eviction only in the first
    killed,        // crossed in both, eviction only in the second
    neither,       // no eviction in either
  };
  Kind kind = Kind::same;
  // At least one is set. They point into the summaries.
  const Episode* before = nullptr;
  const Episode* after = nullptr;
  // Time of the second's first kill minus that of the first's; zero unless both have one.
  Duration shift{0};
};

// The overload below would hide those of the model.
using forestall::to_string;
[[nodiscard]] std::string_view to_string(EpisodeDifference::Kind kind);

// Every episode of both, once, in order of start. Overlapping episodes of one signal and subject
// are the same crossing; each is matched at most once.
[[nodiscard]] std::vector<EpisodeDifference> compare(const Episodes& before, const Episodes& after);

}  // namespace forestall::replay
