// SPDX-License-Identifier: Apache-2.0
// JSON text as a tree in which every key and value has its position, for files in which an operator
// corrects mistakes. Numbers remain text, and the reader of a value defines its type. A repeated
// key is a mistake. text/json_value.h reads the large documents of other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/diagnostic.h"

namespace forestall::text {

inline constexpr std::size_t kJsonTreeDepthMax = 128;

struct JsonMember;

struct JsonNode {
  enum class Kind : std::uint8_t { null, boolean, number, string, list, object };

  Kind kind = Kind::null;
  Position at;
  bool flag = false;                // of a boolean
  std::string text;                 // of a string, unescaped, or of a number, as written
  std::vector<JsonNode> items;      // of a list
  std::vector<JsonMember> members;  // of an object, in the order of the text, each key once

  // The member `key` of an object, or null.
  [[nodiscard]] const JsonNode* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  Position at;
  JsonNode value;
};

// A value as messages describe it: "an object", "'text'", "12", "null".
[[nodiscard]] std::string describe(const JsonNode& node);

struct JsonDialect {
  bool comments = false;         // // and /* */
  bool trailing_commas = false;  // one comma before ] and }
};

// The single value in `text`, whose first line has the number `line`. Problems are appended to
// `problems`. Returns nothing if the text could not be parsed to its end.
[[nodiscard]] std::optional<JsonNode> parse_json(std::string_view text, const JsonDialect& dialect,
                                                 std::uint32_t line,
                                                 std::vector<Diagnostic>& problems);

}  // namespace forestall::text
