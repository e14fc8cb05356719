// SPDX-License-Identifier: Apache-2.0
// Reads YAML into any protobuf message by its descriptor: the .proto file is the only schema. Keys
// are the JSON names of the fields (lowerCamelCase). Fields must be strings, bools, 32- and 64-bit
// integers, messages, lists of those, or maps from string to string.
//
// Stricter than protobuf's and YAML's own readers: an unknown key, a value of the wrong kind, an
// empty value and an integer out of range are errors that state what is allowed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/diagnostic.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace forestall::messages {

// The positions of all given fields, so that later checks of values can report them. Fields are
// identified by path: "pods.cgroupRoot", "watch[0].available", "evictionHard[memory.available]";
// the whole document is "".
class FieldPositions {
 public:
  struct FieldPosition {
    text::Position key;    // equal to `value` for list items and for the document
    text::Position value;  // of a map or list in block style: its first line
  };

  void add(std::string path, FieldPosition place) { places_.emplace(std::move(path), place); }

  // The item at `path` is not a map, or has an unknown key, which may be a misspelt one.
  void set_incomplete(std::string_view path) { incomplete_.emplace(path); }
  [[nodiscard]] bool incomplete(std::string_view path) const { return incomplete_.contains(path); }

  // Whether the field was given, possibly empty.
  [[nodiscard]] bool has(std::string_view path) const { return places_.contains(path); }
  // Of the field, or of the nearest enclosing field that was given.
  [[nodiscard]] text::Position key(std::string_view path) const;
  [[nodiscard]] text::Position value(std::string_view path) const;

 private:
  [[nodiscard]] FieldPosition nearest(std::string_view path) const;

  std::map<std::string, FieldPosition, std::less<>> places_;
  std::set<std::string, std::less<>> incomplete_;
};

// Fills `message` (cleared first) from `text`. Appends problems to `problems`; if it appended any,
// the message contains only the fields without problems.
[[nodiscard]] FieldPositions read_yaml(std::string_view text, google::protobuf::Message& message,
                                       std::vector<text::Diagnostic>& problems);

// The word of `allowed` that `word` is most likely meant to be; nothing if none is similar.
[[nodiscard]] std::optional<std::string> nearest_word(std::string_view word,
                                                      const std::vector<std::string>& allowed);
// "; did you mean 'X'? Allowed here: A, B, C", or without the question if no word is similar.
[[nodiscard]] std::string allowed_words(std::string_view word,
                                        const std::vector<std::string>& allowed);

}  // namespace forestall::messages
