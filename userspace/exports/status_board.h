// SPDX-License-Identifier: Apache-2.0
// What the agent says of itself when it is asked: the loop pins it here, whoever asks copies it.
//
// As for metrics, the loop waits for no reader: it takes the board's lock only if nobody has it,
// and brings the rest with its next look.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "exports/sink.h"
#include "model/config.h"
#include "model/stage.h"

namespace forestall::exports {

// One of the last decisions on record, or kills by the kernel.
struct StatusDecision {
  std::uint64_t sequence = 0;
  std::int64_t wall_time_ns = 0;
  Action action = Action::none;
  Reason reason = Reason::no_data;
  bool by_kernel = false;  // the kernel's OOM killer did it; `victim` is a process then
  std::string subject;     // of the threshold that drove it; empty: none
  std::string victim;      // empty: nobody had to go
  bool dry_run = false;
  std::optional<KillState> state;  // nothing: no outcome yet, or none to come
  Bytes freed;
  StageLengths stages{};
};

struct Status {
  std::uint64_t looks = 0;
  std::optional<MonotonicTime> next_look;  // nothing: it has not looked yet
  std::shared_ptr<const Config> config;
  std::vector<Evidence> evidence;
  std::size_t evidence_left_out = 0;
  Conditions conditions = kNoConditions;
  std::deque<StatusDecision> decisions;  // newest last
};

class StatusBoard final : public RecordSink, public EvaluationListener {
 public:
  static constexpr std::size_t kDecisionsMax = 16;
  static constexpr std::size_t kEvidenceMax = 64;

  // Loop's thread.
  void write(const Record& record) override;
  void looked(const Look& look) override;
  // The configuration in force from now on; told with the next look.
  void set_config(const Config& config);

  // Any thread.
  [[nodiscard]] Status status() const;

 private:
  std::uint64_t looks_ = 0;               // the loop's, as the two below
  std::deque<StatusDecision> decisions_;  // what the board should say
  std::shared_ptr<const Config> config_;

  mutable std::mutex mutex_;  // the loop only tries it
  Status shared_;
};

}  // namespace forestall::exports
