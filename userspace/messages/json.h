// SPDX-License-Identifier: Apache-2.0
// Messages as JSON, for `--output json`, record files and `replay`.
//
// The format is protobuf's JSON mapping (keys in lowerCamelCase), which any protobuf library reads,
// with three differences for users of jq and for robust programs:
//  - 64-bit integers are numbers instead of strings, so that `.usageBytes > 1e9` and sorting work.
//    Readers that hold numbers in doubles (JavaScript, jq before 1.7) are exact up to 2^53: 8 PiB,
//    or 104 days of nanoseconds since boot; beyond that they round to a few nanoseconds.
//  - Enum values are the lower-case words of the logs ("kill-in-flight") instead of the constants
//    of the schema. Protobuf's own readers do not accept words with a "-".
//  - Every field without presence is printed, zero or not, and every list, empty or not. A key is
//    missing only if its value is unknown or absent. Keys are in the order of the schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace google::protobuf {
class EnumValueDescriptor;
class Message;
}  // namespace google::protobuf

namespace forestall::messages {

enum class JsonStyle : std::uint8_t {
  line,    // no blanks, no newline: one message per line
  pretty,  // indented by two, with a newline at the end
};

// `message` as JSON. Invalid UTF-8 in strings becomes U+FFFD.
[[nodiscard]] std::string to_json(const google::protobuf::Message& message, JsonStyle style);

// Reads the output of to_json(), or protobuf's own JSON, into `message`, which is cleared first and
// is invalid after an error. See messages/json_reader.h for the accepted input. Errors begin with
// LINE:COLUMN, both counted from 1, columns in bytes.
[[nodiscard]] Result<void> from_json(std::string_view json, google::protobuf::Message& message);

// The word for an enum value: KILL_IN_FLIGHT -> "kill-in-flight".
[[nodiscard]] std::string enum_word(const google::protobuf::EnumValueDescriptor& value);

}  // namespace forestall::messages
