// SPDX-License-Identifier: Apache-2.0
// The lines of an observation file, parsed.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/result.h"
#include "messages/observation_line.h"
#include "model/observation.h"
#include "replay/line_reader.h"

namespace forestall::replay {

struct ParsedLine {
  std::uint64_t line = 0;  // its number, from 1
  bool of_record = false;
  Observation observation;
};

class ParsedLines {
 public:
  explicit ParsedLines(LineReader lines) : lines_(std::move(lines)) {}

  // Skips blank lines. Nothing at the end of the file, and after an error. The error does not name
  // the line.
  [[nodiscard]] Result<std::optional<ParsedLine>> next();

  // Number of the last line read, from 1.
  [[nodiscard]] std::uint64_t line() const { return lines_.number(); }
  // Whether the file ends within an incomplete observation.
  [[nodiscard]] bool cut() const { return cut_; }

 private:
  LineReader lines_;
  messages::ObservationLineReader reader_;
  bool cut_ = false;
};

}  // namespace forestall::replay
