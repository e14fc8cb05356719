// SPDX-License-Identifier: Apache-2.0
// Decisions in time order, from a recording (the recorded ones) or from the output of `forestall
// replay --output json` (the replayed ones).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/decision.h"

namespace forestall::replay {

struct TimedDecision {
  MonotonicTime at;
  Decision decision;
  std::optional<Duration> age =
      std::nullopt;  // of the workload samples, if not read for this decision
};

class DecisionStream {
 public:
  virtual ~DecisionStream() = default;
  // Nothing at the end. Errors name the file, and the line of a text file.
  [[nodiscard]] virtual Result<std::optional<TimedDecision>> next() = 0;
  // After the end: what is missing from the stream and why, one sentence each.
  [[nodiscard]] virtual std::vector<std::string> remarks() const { return {}; }
};

// Detects the kind of file by its first bytes. Errors: it is not readable, or of neither kind.
[[nodiscard]] Result<std::unique_ptr<DecisionStream>> open_decisions(const std::string& path);

}  // namespace forestall::replay
