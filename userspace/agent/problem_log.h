// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exports/log.h"
#include "model/observation.h"

namespace forestall::agent {

// Logs a problem when it appears, and not again while it lasts.
class ProblemLog {
 public:
  explicit ProblemLog(exports::Log& log) : log_(log) {}

  // All problems there are now.
  void report(std::vector<std::string> problems) {
    for (const std::string& problem : problems) {
      if (std::ranges::find(last_, problem) == last_.end()) warn(problem);
    }
    last_ = std::move(problems);
  }
  // One that is logged each time.
  void warn(const std::string& problem) {
    log_.write(exports::LogLevel::warning, exports::LogLine("note").field("problem", problem));
  }

  [[nodiscard]] static std::string text_of(const SourceNote& note) {
    return note.subject + ": " + note.problem;
  }

 private:
  exports::Log& log_;
  std::vector<std::string> last_;
};

}  // namespace forestall::agent
