// SPDX-License-Identifier: Apache-2.0
// Output of a replay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/decision.h"
#include "model/observation.h"
#include "replay/recording_replay.h"
#include "replay/replay_fold.h"

namespace forestall::replay {

// One evaluation of the replay. It does not own what it refers to.
struct ReplayEvaluation {
  std::uint64_t line = 0;  // of the file, or the number of the evaluation in a recording
  Duration since_first{0};
  const Observation& observation;
  const Decision& decision;
  const std::vector<ConditionStatus>& changed;
  // Null: the input is not a recording.
  const RecordingReplay::ReplayedStep* step = nullptr;
};

class ReplayReport {
 public:
  virtual ~ReplayReport() = default;
  // Both append to `out`.
  virtual void evaluation(const ReplayEvaluation& evaluation, std::string& out) = 0;
  // `stopped`: why the input was not read to its end. `replay` is null if the input is not a
  // recording.
  virtual void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
                   const RecordingReplay* replay, std::string& out) = 0;
};

// Text: a line for each decision to act and each change of a condition, and one for each run of
// equal decisions not to act (with `all`, for each decision).
class ReplayText final : public ReplayReport {
 public:
  // `unit`: heading of the column with the line, or the number of the evaluation.
  explicit ReplayText(bool all, std::string_view unit = "line") : all_(all), unit_(unit) {}
  void evaluation(const ReplayEvaluation& evaluation, std::string& out) override;
  void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
           const RecordingReplay* replay, std::string& out) override;

 private:
  // Consecutive equal decisions not to act.
  struct Run {
    Action action = Action::none;
    Reason reason = Reason::no_data;
    std::optional<Threshold> threshold;
    Duration since_first{0};
    std::uint64_t line = 0;
    std::uint64_t evaluations = 0;
    std::string text;  // of the first
  };
  // Consecutive kills of the same victims by another policy than the recorded one. The recording
  // does not show their effect.
  struct Repeat {
    std::vector<std::string> victims;  // paths
    std::uint64_t evaluations = 0;     // after the first
    Duration until{0};
  };
  void end_run(std::string& out);
  void end_repeat(std::string& out);
  [[nodiscard]] bool repeats(const ReplayEvaluation& evaluation, std::string& out);

  bool all_;
  std::string_view unit_;
  bool begun_ = false;
  std::optional<Run> run_;
  std::optional<Repeat> repeat_;
};

// JSON lines: a forestall.internal.ReplayStep for each observation, then a
// forestall.internal.ReplayEnd.
class ReplayJson final : public ReplayReport {
 public:
  void evaluation(const ReplayEvaluation& evaluation, std::string& out) override;
  void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
           const RecordingReplay* replay, std::string& out) override;
};

}  // namespace forestall::replay
