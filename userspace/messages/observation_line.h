// SPDX-License-Identifier: Apache-2.0
// One line of an observation file: an Observation as JSON, or a Record as the agent writes it, of
// which the observation is used.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/observation.h"

namespace forestall::messages {

struct ObservedLine {
  Observation observation;
  bool of_record = false;
};

// For one thread at a time; reuses its buffers for each line.
class ObservationLineReader {
 public:
  ObservationLineReader();
  ~ObservationLineReader();
  ObservationLineReader(ObservationLineReader&&) noexcept;
  ObservationLineReader& operator=(ObservationLineReader&&) noexcept;

  // REQUIRES: JsonReader::kPadding readable bytes after `line`. Errors about the text begin with
  // COLUMN, counted from 1 in bytes: "17: wake.source: unknown word 'moon'…".
  [[nodiscard]] Result<ObservedLine> read(std::string_view line);

 private:
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

// Whether the first key of `line` belongs to a Record; an Observation has no such key.
[[nodiscard]] bool is_record_line(std::string_view line);

}  // namespace forestall::messages
