// SPDX-License-Identifier: Apache-2.0
// Messages as JSON, for `--output json`, record files and `replay`.
//
// The form is protobuf's JSON mapping (keys in lowerCamelCase), which any protobuf library reads,
// with three choices made for people who work with jq and for programs that must not break:
//  - 64-bit integers are numbers, not strings, so that `.usageBytes > 1e9` and sorting work.
//    Readers that hold numbers in doubles (JavaScript, jq before 1.7) are exact up to 2^53: 8 PiB,
//    or 104 days of nanoseconds since boot; beyond that they round to a few nanoseconds.
//  - Enum values are the words of the logs in lower case ("kill-in-flight"), not the constants of
//    the schema. Protobuf's own readers do not take those with a "-" in them.
//  - Every field without presence is printed, zero or not, and every list, empty or not: a key is
//    missing only when its value is unknown or absent. Keys come in the order of the schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace google::protobuf {
class EnumValueDescriptor;
class Message;
}  // namespace google::protobuf

namespace forestall::api {

enum class JsonStyle : std::uint8_t {
  line,    // no blanks, no newline: one message per line
  pretty,  // indented by two, with a newline at the end
};

// `message` as JSON. Bytes of strings that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_json(const google::protobuf::Message& message, JsonStyle style);

// Reads what to_json wrote, or protobuf's own JSON, into `message` (which is cleared first, and of
// no use after an error). See api/json_reader.h for what is accepted; errors begin with
// LINE:COLUMN, both counted from 1 and columns in bytes.
[[nodiscard]] Result<void> from_json(std::string_view json, google::protobuf::Message& message);

// The word for an enum value: KILL_IN_FLIGHT -> "kill-in-flight".
[[nodiscard]] std::string enum_word(const google::protobuf::EnumValueDescriptor& value);

}  // namespace forestall::api
