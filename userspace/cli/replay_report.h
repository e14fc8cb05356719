// SPDX-License-Identifier: Apache-2.0
// What a replay prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/replay_fold.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall::cli {

// One look of the replay. Views what it names.
struct ReplayLook {
  std::uint64_t line = 0;
  Duration since_first{0};
  const Observation& observation;
  const Decision& decision;
  const std::vector<ConditionStatus>& changed;
};

class ReplayReport {
 public:
  virtual ~ReplayReport() = default;
  // Both append to `out`.
  virtual void look(const ReplayLook& look, std::string& out) = 0;
  // `stopped`: why the input was not read to its end; nothing: it was.
  virtual void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
                   std::string& out) = 0;
};

// For people: a line for each decision to act and each change of a condition, and one for each run
// of equal decisions not to (for each of them, if `all`).
class ReplayText final : public ReplayReport {
 public:
  explicit ReplayText(bool all) : all_(all) {}
  void look(const ReplayLook& look, std::string& out) override;
  void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
           std::string& out) override;

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
  void end_run(std::string& out);

  bool all_;
  bool begun_ = false;
  std::optional<Run> run_;
};

// For programs: forestall.v1.ReplayStep for each observation, then forestall.v1.ReplayEnd, one a
// line.
class ReplayJson final : public ReplayReport {
 public:
  void look(const ReplayLook& look, std::string& out) override;
  void end(const ReplayFold::Counts& counts, const std::optional<std::string>& stopped,
           std::string& out) override;
};

// "memory.available 1500Mi < 2Gi (soft, met for 1m0s of 2m0s)".
[[nodiscard]] std::string describe(const Evidence& evidence, MonotonicTime now);

}  // namespace forestall::cli
