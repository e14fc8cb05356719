// SPDX-License-Identifier: Apache-2.0
// One evaluation of a replay in full: the decision at a time, its values, and the ranking with the
// deciding values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "model/config.h"
#include "replay/replay_report.h"

namespace forestall::replay {

// A time from the command line: since the first evaluation, or of the wall clock.
struct WallTime {
  std::int64_t ns = 0;  // CLOCK_REALTIME
};
using ReplayTime = std::variant<Duration, WallTime>;

// "12.5s", "+1m30s"; the forms of intake::parse_wall_time(). Errors state the valid forms.
[[nodiscard]] Result<ReplayTime> parse_replay_time(std::string_view text);

// Keeps the last evaluation at or before a time and prints it at the end.
class ReplayAt final : public ReplayReport {
 public:
  // `ranking`: the comparators that the text names. Only recordings have wall-clock times.
  ReplayAt(ReplayTime time, Ranking ranking, bool as_json)
      : time_(time), ranking_(ranking), as_json_(as_json) {}

  void evaluation(const ReplayEvaluation& evaluation, std::string& out) override;
  void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
           const RecordingReplay* replay, std::string& out) override;
  // The time, if it is relative to the first evaluation.
  [[nodiscard]] std::optional<Duration> since_first() const {
    const auto* const since = std::get_if<Duration>(&time_);
    return since != nullptr ? std::optional(*since) : std::nullopt;
  }
  // An evaluation after the time was read: none can follow.
  [[nodiscard]] bool is_over() const { return over_; }
  // Whether there was an evaluation.
  [[nodiscard]] bool found() const { return kept_.has_value(); }
  // If the time is after the last evaluation: the time of that one.
  [[nodiscard]] std::optional<Duration> last_before() const;

 private:
  struct Kept {
    std::uint64_t line = 0;
    Duration since_first{0};
    Observation observation;
    Decision decision;
    std::optional<RecordingReplay::ReplayedStep> step;
  };
  [[nodiscard]] bool is_after(const ReplayEvaluation& evaluation) const;
  [[nodiscard]] std::string text(Ranking ranking) const;

  ReplayTime time_;
  Ranking ranking_;
  bool as_json_;
  bool over_ = false;
  std::optional<Kept> kept_;
};

}  // namespace forestall::replay
