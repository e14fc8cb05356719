// SPDX-License-Identifier: Apache-2.0
// Records kills by the kernel's OOM killer: the event, whether it was predicted, and why the agent
// had not acted, from what it had read at that time.
//
// A kill may be reported milliseconds after it happened, when the loop has evaluated again. So the
// last evaluations are kept, and the record carries the one before the kill.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "agent/loop_pauses.h"
#include "agent/oom_predictor.h"
#include "agent/record_writer.h"
#include "base/clock.h"
#include "exports/loop_counts.h"
#include "model/config.h"
#include "model/record.h"
#include "policy/state.h"
#include "sources/oom_event_correlator.h"
#include "sources/source.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class OomKillReporter {
 public:
  // How far back evaluations are kept, and how many at most. A kill is reported after
  // OomEventCorrelator::kPatience at the latest; the last evaluation is kept however old it is.
  static constexpr Duration kEvaluationsAge = std::chrono::seconds(1);
  static constexpr std::size_t kEvaluationsMax = 64;
  // Crossings kept, of all cgroups together.
  static constexpr std::size_t kCrossingsMax = 64;

  OomKillReporter(sources::OomEventCorrelator& events, LoopPredictor& forecast,
                  RecordWriter& writer, exports::LoopCounts& counts)
      : events_(events), forecast_(forecast), writer_(writer), counts_(counts) {}

  // A loop that runs later than this after an event or a deadline was away: as long as the watchdog
  // waits for it.
  static constexpr Duration kLate = LoopPauses::kPauseMin;
  // Absences kept.
  static constexpr std::size_t kAbsencesMax = 16;

  // Every wake, before the evaluation it causes. `now`: the loop runs.
  void note(const Wake& wake, MonotonicTime now);
  // The loop did not run although it should have since then. Ignored if that was not long.
  void note_absence(MonotonicTime since, MonotonicTime now);
  // Every evaluation: its observation, its decision, and the state that came out of it.
  void keep(Record evaluation, const policy::State& state);
  // Takes the kills that `source` has drained.
  void take_from(sources::Source& source, MonotonicTime now) { events_.take_from(source, now); }
  // When report_complete() must be called even without a new event; nothing: never.
  [[nodiscard]] std::optional<MonotonicTime> next_due() const { return events_.next_due(); }
  // Records each kill once, after both reports of it arrived or the wait for the second ended.
  void report_complete(const Config& config, MonotonicTime now);
  // Records one kill. `now` and `wall_time_ns` are of this call.
  void report(const OomKillEvent& kill, const Config& config, MonotonicTime now,
              std::int64_t wall_time_ns);

 private:
  struct RecentEvaluation {
    Record record;
    policy::State state;
  };
  struct CrossingTime {
    CgroupId cgroup;  // inode 0: the node
    MonotonicTime at;
  };
  struct Absence {
    MonotonicTime since;
    MonotonicTime until;
  };
  [[nodiscard]] std::optional<MonotonicTime> away_since(const OomKillEvent& kill) const;
  [[nodiscard]] const RecentEvaluation& before(MonotonicTime kill) const;
  [[nodiscard]] std::optional<MonotonicTime> crossed(const OomKillEvent& kill,
                                                     MonotonicTime after) const;

  sources::OomEventCorrelator& events_;
  LoopPredictor& forecast_;
  RecordWriter& writer_;
  exports::LoopCounts& counts_;
  std::deque<RecentEvaluation> evaluations_;  // oldest first
  std::deque<CrossingTime> crossings_;        // oldest first
  std::deque<Absence> absences_;              // oldest first
};

}  // namespace forestall::agent
