// SPDX-License-Identifier: Apache-2.0
// What the JSON reader needs to know of a message type, looked up once per type: which key is which
// field, and which word is which value of an enum. Descriptors answer the same, but take a lock and
// a temporary string each time.
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

namespace forestall::api {

class JsonWords {
 public:
  explicit JsonWords(const google::protobuf::EnumDescriptor& type);

  // The number of a word in our form or the schema's, in any case.
  [[nodiscard]] std::optional<int> find(std::string_view word) const;
  // The words in our form, but for "unspecified".
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
  const JsonMessage* message = nullptr;  // of a message; of a map's values, if they are messages
  const JsonWords* words = nullptr;      // of an enum
  bool excludes_others = false;          // member of a oneof
};

struct JsonMessage {
  static constexpr std::size_t kFieldsMax = 64;

  std::vector<JsonField> fields;                             // in the order of the schema
  std::vector<std::string> keys;                             // theirs, in lowerCamelCase
  std::unordered_map<std::string_view, std::size_t> by_key;  // both spellings; index into `fields`

  // `next` is tried first: keys mostly come in the order of the schema.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view key, std::size_t next) const;
};

// Lives as long as the process. Any thread. REQUIRES: a type without fields of type `bytes` or
// `group`, whose maps are keyed by strings, and with at most kFieldsMax fields; aborts else, since
// that is a mistake in the schema.
[[nodiscard]] const JsonMessage& json_message(const google::protobuf::Descriptor& type);

}  // namespace forestall::api
