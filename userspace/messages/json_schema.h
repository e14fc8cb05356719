// SPDX-License-Identifier: Apache-2.0
// A cache of what the JSON reader needs from a message type: the field of each key, and the value
// of each enum word. Descriptors offer the same, but take a lock and allocate a string each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace google::protobuf {
class Descriptor;
class EnumDescriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace forestall::messages {

class JsonWords {
 public:
  explicit JsonWords(const google::protobuf::EnumDescriptor& type);

  // The number of a word in either form (to_json() or schema), in any case.
  [[nodiscard]] std::optional<int> find(std::string_view word) const;
  // The words in the form of to_json(), without "unspecified".
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }

 private:
  std::vector<std::pair<std::string, int>> constants_;  // in upper case
  std::vector<std::string> words_;
};

struct JsonMessage;

struct JsonField {
  enum class Form : std::uint8_t { scalar, timestamp, message, map };

  const google::protobuf::FieldDescriptor* field = nullptr;
  Form form = Form::scalar;
  const JsonMessage* message =
      nullptr;                       // for a message; for a map, of its values if they are messages
  const JsonWords* words = nullptr;  // for an enum
  bool excludes_others = false;      // member of a oneof
};

struct JsonMessage {
  static constexpr std::size_t kFieldsMax = 64;

  std::vector<JsonField> fields;                             // in the order of the schema
  std::vector<std::string> keys;                             // of the fields, in lowerCamelCase
  std::unordered_map<std::string_view, std::size_t> by_key;  // both forms; index into `fields`

  // `next` is tried first, because keys are usually in the order of the schema.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view key, std::size_t next) const;
};

// Lives as long as the process. Any thread. REQUIRES: no fields of type `bytes` or `group`, only
// string keys in maps, and at most kFieldsMax fields; aborts otherwise, because that is an error in
// the schema.
[[nodiscard]] const JsonMessage& json_message(const google::protobuf::Descriptor& type);

}  // namespace forestall::messages
