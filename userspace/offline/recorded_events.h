// SPDX-License-Identifier: Apache-2.0
// The events of a recording: its records, the thresholds that its evaluations crossed, and where
// runs and configurations begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "cli/event_line.h"
#include "model/config.h"
#include "picture/recent_evaluations.h"
#include "replay/recording_input.h"
#include "service/events.h"

namespace forestall::cli {

// Thread rule: one thread.
class RecordedEvents {
 public:
  explicit RecordedEvents(replay::RecordingInput input) : input_(std::move(input)) {}

  // Visits all events in the order of the recording: a kill's end may follow later events of its
  // run. If the input follows its writer, a further call visits what was written meanwhile. Errors:
  // the recording is not readable; it has no entry, and none can follow.
  [[nodiscard]] Result<void> visit(const EventLineVisit& visit);
  // The run of the last visited event: clocks of different runs cannot be compared.
  [[nodiscard]] std::size_t run() const { return run_; }
  [[nodiscard]] const replay::RecordingInput& input() const { return input_; }
  // Records whose evaluation is lost, and which have no event therefore.
  [[nodiscard]] std::uint64_t incomplete() const { return incomplete_; }

 private:
  // Candidates kept of a decision; more up to the victim.
  static constexpr std::size_t kCandidates = 8;

  void take(messages::KeyEntry key, const replay::RecordingInput::InputEntry& item,
            const EventLineVisit& visit);
  [[nodiscard]] Result<void> take(messages::EvaluationEntry evaluation,
                                  const EventLineVisit& visit);
  void take(const messages::RecordedEntry& recorded, const EventLineVisit& visit);

  replay::RecordingInput input_;
  bool any_ = false;  // an entry was read
  std::size_t run_ = 0;
  std::optional<Config> config_;  // in force; nothing: no key was read
  std::optional<std::int64_t> last_wall_ns_;
  std::uint64_t lost_ = 0;  // entries that a visited event counts
  std::uint64_t incomplete_ = 0;
  picture::RecentEvaluations evaluations_{kCandidates};
  service::EvaluationEvents crossings_;
};

}  // namespace forestall::cli
