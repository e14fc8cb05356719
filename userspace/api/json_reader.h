// SPDX-License-Identifier: Apache-2.0
// JSON into any message of ours, by its descriptor, fast enough for a million lines: simdjson finds
// the tokens in one pass, and each value goes straight into its field.
//
// Protobuf's own reader takes some hundred times as long and cannot say where a mistake is. What is
// accepted here is what to_json() writes (api/json.h) and what protobuf's mapping allows:
//  - keys in lowerCamelCase or as the schema has them (snake_case); each once; null leaves a field
//    unset;
//  - integers as numbers or as strings, also 1e3 and 2.0, within the range of the field;
//  - enums by our words ("kill-in-flight"), by the schema's constants, in any case, or by number;
//  - floats as numbers, or as the strings "NaN", "Infinity" and "-Infinity".
// Everything else is an error: unknown and repeated keys, two fields of which only one may be set,
// other types, numbers out of range, text after the value.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace google::protobuf {
class Message;
}

namespace forestall::api {

// For one thread at a time. Keeps its buffers, so one reader should read all lines of a file.
class JsonReader {
 public:
  // So many bytes behind the text must be readable; what is in them does not matter.
  static constexpr std::size_t kPadding = 64;

  JsonReader();
  ~JsonReader();
  JsonReader(JsonReader&&) noexcept;
  JsonReader& operator=(JsonReader&&) noexcept;

  // Reads the one object that `json` holds into `message`, which is cleared first and of no use
  // after an error. REQUIRES: kPadding readable bytes behind `json`. Errors are worded
  // "workloads[0].usageBytes: expected a number, found a string".
  [[nodiscard]] Result<void> read(std::string_view json, google::protobuf::Message& message);

  // Where the last read failed: an offset into its text, in bytes; its size if the text ends early.
  [[nodiscard]] std::size_t error_offset() const;

 private:
  class Reading;
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace forestall::api
