// SPDX-License-Identifier: Apache-2.0
// One look of a replay in full: what was decided at a time, on which numbers, and who was ranked
// where by what.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "cli/replay_report.h"
#include "model/config.h"

namespace forestall::cli {

// A time as somebody gives it: since the first look, or on the wall clock.
struct WallTime {
  std::int64_t ns = 0;  // CLOCK_REALTIME
};
using ReplayTime = std::variant<Duration, WallTime>;

// "12.5s", "+1m30s"; "2025-03-14T10:11:12Z", with a fraction if wanted. Errors say what is allowed.
[[nodiscard]] Result<ReplayTime> parse_replay_time(std::string_view text);

// Keeps the last look at or before a time, and shows it at the end.
class ReplayAt final : public ReplayReport {
 public:
  // `ranking`: whose comparators the text names. Wall time is known of recordings alone.
  ReplayAt(ReplayTime time, Ranking ranking, bool as_json)
      : time_(time), ranking_(ranking), as_json_(as_json) {}

  void look(const ReplayLook& look, std::string& out) override;
  void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
           const RecordingReplay* replay, std::string& out) override;
  // The time, if it is one since the first look.
  [[nodiscard]] std::optional<Duration> since_first() const {
    const auto* const since = std::get_if<Duration>(&time_);
    return since != nullptr ? std::optional(*since) : std::nullopt;
  }
  // A look later than the time was seen: no other can come.
  [[nodiscard]] bool is_over() const { return over_; }
  // Whether there was a look.
  [[nodiscard]] bool found() const { return kept_.has_value(); }

 private:
  struct Kept {
    std::uint64_t line = 0;
    Duration since_first{0};
    Observation observation;
    Decision decision;
    std::optional<RecordingReplay::Step> step;
  };
  [[nodiscard]] bool is_after(const ReplayLook& look) const;
  [[nodiscard]] std::string text(Ranking ranking) const;

  ReplayTime time_;
  Ranking ranking_;
  bool as_json_;
  bool over_ = false;
  std::optional<Kept> kept_;
};

}  // namespace forestall::cli
