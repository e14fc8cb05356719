// SPDX-License-Identifier: Apache-2.0
// Decisions in the order of time, from a recording (what was recorded) or from what
// `forestall replay --output json` printed (what was decided then).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/decision.h"

namespace forestall::cli {

struct TimedDecision {
  MonotonicTime at;
  Decision decision;
  std::optional<Duration> age =
      std::nullopt;  // of the workloads it was made on, if not read for it
};

class DecisionStream {
 public:
  virtual ~DecisionStream() = default;
  // Nothing at the end. Errors name the file, and the line where there are lines.
  [[nodiscard]] virtual Result<std::optional<TimedDecision>> next() = 0;
  // At the end: what is missing from it and why, for people, one a line.
  [[nodiscard]] virtual std::vector<std::string> remarks() const { return {}; }
};

// By what the file begins with. Errors: it cannot be read, or is neither.
[[nodiscard]] Result<std::unique_ptr<DecisionStream>> open_decisions(const std::string& path);

}  // namespace forestall::cli
