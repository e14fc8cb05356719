// SPDX-License-Identifier: Apache-2.0
#include "replay/parsed_lines.h"

#include "messages/json_reader.h"

namespace forestall::replay {

static_assert(LineReader::kPadding >= messages::JsonReader::kPadding);

Result<std::optional<ParsedLine>> ParsedLines::next() {
  while (const auto line = TRY(lines_.next())) {
    if (line->find_first_not_of(" \t\r") == line->npos) continue;
    auto read = reader_.read(*line);
    if (read) {
      return std::optional(
          ParsedLine{lines_.number(), read->of_record, std::move(read->observation)});
    }
    // The writer was stopped there, or still writes.
    cut_ = lines_.unterminated();
    if (cut_) break;
    return read.error();
  }
  return std::optional<ParsedLine>();
}

}  // namespace forestall::replay
