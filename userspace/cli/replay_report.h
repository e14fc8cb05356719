// SPDX-License-Identifier: Apache-2.0
// What a replay prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/recording_replay.h"
#include "cli/replay_fold.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::cli {

// One look of the replay. Views what it names.
struct ReplayLook {
  std::uint64_t line = 0;  // of the file, or the look's number in a recording
  Duration since_first{0};
  const Observation& observation;
  const Decision& decision;
  const std::vector<ConditionStatus>& changed;
  // Of a recording; null: no recording.
  const RecordingReplay::Step* step = nullptr;
};

class ReplayReport {
 public:
  virtual ~ReplayReport() = default;
  // Both append to `out`.
  virtual void look(const ReplayLook& look, std::string& out) = 0;
  // `stopped`: why the input was not read to its end; nothing: it was. `replay`: null: no
  // recording.
  virtual void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
                   const RecordingReplay* replay, std::string& out) = 0;
};

// For people: a line for each decision to act and each change of a condition, and one for each run
// of equal decisions not to (for each of them, if `all`).
class ReplayText final : public ReplayReport {
 public:
  // `unit`: what looks are numbered by, "line" or "look".
  explicit ReplayText(bool all, std::string_view unit = "line") : all_(all), unit_(unit) {}
  void look(const ReplayLook& look, std::string& out) override;
  void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
           const RecordingReplay* replay, std::string& out) override;

 private:
  // Equal decisions not to act, one after the other.
  struct Run {
    Action action = Action::none;
    Reason reason = Reason::no_data;
    std::optional<Threshold> threshold;
    Duration since_first{0};
    std::uint64_t line = 0;
    std::uint64_t looks = 0;
    std::string text;  // of the first
  };
  // Kills of the same, one after the other, by another policy than the recorded one: what was
  // recorded goes on without them.
  struct Repeat {
    std::vector<std::string> victims;  // paths
    std::uint64_t looks = 0;           // after the first
    Duration until{0};
  };
  void end_run(std::string& out);
  void end_repeat(std::string& out);
  [[nodiscard]] bool repeats(const ReplayLook& look, std::string& out);

  bool all_;
  std::string_view unit_;
  bool begun_ = false;
  std::optional<Run> run_;
  std::optional<Repeat> repeat_;
};

// For programs: forestall.v1.ReplayStep for each observation, then forestall.v1.ReplayEnd, one a
// line.
class ReplayJson final : public ReplayReport {
 public:
  void look(const ReplayLook& look, std::string& out) override;
  void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
           const RecordingReplay* replay, std::string& out) override;
};

// "memory.available 1500Mi < 2Gi (soft, met for 1m0s of 2m0s)".
[[nodiscard]] std::string describe(const Evidence& evidence, MonotonicTime now);

}  // namespace forestall::cli
