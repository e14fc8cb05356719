// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
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
    std::set<std::string> now;
    for (std::string& problem : problems) {
      if (!last_.contains(problem) && !now.contains(problem)) warn(problem);
      now.insert(std::move(problem));
    }
    last_ = std::move(now);
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
  std::set<std::string> last_;
};

}  // namespace forestall::agent
