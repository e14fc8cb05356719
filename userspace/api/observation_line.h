// SPDX-License-Identifier: Apache-2.0
// One line of an observation file: an Observation as JSON, or a Record as the agent writes them, of
// which the observation is taken.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/observation.h"

namespace forestall::api {

struct ObservedLine {
  Observation observation;
  bool of_record = false;
};

// For one thread at a time; keeps its buffers from line to line.
class ObservationLineReader {
 public:
  ObservationLineReader();
  ~ObservationLineReader();
  ObservationLineReader(ObservationLineReader&&) noexcept;
  ObservationLineReader& operator=(ObservationLineReader&&) noexcept;

  // REQUIRES: JsonReader::kPadding readable bytes behind `line`. Errors begin with COLUMN, counted
  // from 1 in bytes, where the text is to blame: "17: wake.source: unknown word 'moon'…".
  [[nodiscard]] Result<ObservedLine> read(std::string_view line);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

// Whether the first key of `line` is one of a Record, none of which an Observation has.
[[nodiscard]] bool is_record_line(std::string_view line);

}  // namespace forestall::api
