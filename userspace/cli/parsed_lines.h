// SPDX-License-Identifier: Apache-2.0
// The lines of an observation file, parsed.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "api/observation_line.h"
#include "base/result.h"
#include "cli/line_reader.h"
#include "model/observation.h"

namespace forestall::cli {

struct ParsedLine {
  std::uint64_t line = 0;  // its number, from 1
  bool of_record = false;
  Observation observation;
};

class ParsedLines {
 public:
  explicit ParsedLines(LineReader lines) : lines_(std::move(lines)) {}

  // Blank lines are passed over. Nothing at the end of the file. After an error, which does not
  // name the line, there is nothing more.
  [[nodiscard]] Result<std::optional<ParsedLine>> next();

  // Number of the line that was read last, from 1.
  [[nodiscard]] std::uint64_t line() const { return lines_.number(); }
  // Whether the file ended within a line that is no complete observation.
  [[nodiscard]] bool cut() const { return cut_; }

 private:
  LineReader lines_;
  api::ObservationLineReader reader_;
  bool cut_ = false;
};

}  // namespace forestall::cli
