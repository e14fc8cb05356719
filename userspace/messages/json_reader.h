// SPDX-License-Identifier: Apache-2.0
// Reads JSON into any message of Forestall by its descriptor, fast enough for a million lines:
// simdjson finds the tokens in one pass, and each value is stored directly in its field.
//
// Protobuf's own reader takes about a hundred times as long and does not report the position of a
// mistake. This reader accepts the output of to_json() (messages/json.h) and protobuf's mapping:
//  - keys in lowerCamelCase or as in the schema (snake_case); each once; null leaves a field unset;
//  - integers as numbers or as strings, also 1e3 and 2.0, within the range of the field;
//  - enums by the words of to_json() ("kill-in-flight"), by the schema's constants, in any case, or
//    by number;
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

namespace forestall::messages {

// For one thread at a time. It reuses its buffers, so use one reader for all lines of a file.
class JsonReader {
 public:
  // This many bytes after the text must be readable; their values do not matter.
  static constexpr std::size_t kPadding = 64;

  JsonReader();
  ~JsonReader();
  JsonReader(JsonReader&&) noexcept;
  JsonReader& operator=(JsonReader&&) noexcept;

  // Reads the object in `json` into `message`, which is cleared first and is invalid after an
  // error. REQUIRES: kPadding readable bytes after `json`. Errors have the form
  // "workloads[0].usageBytes: expected a number, found a string".
  [[nodiscard]] Result<void> read(std::string_view json, google::protobuf::Message& message);

  // Byte offset of the last error in its text; the size of the text if it ends early.
  [[nodiscard]] std::size_t error_offset() const;

 private:
  class Parser;
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace forestall::messages
