// SPDX-License-Identifier: Apache-2.0
// YAML text as a tree of maps, lists and scalars, each with its position.
//
// Configuration needs a small, plain part of YAML, and everything beyond it is refused rather than
// interpreted: anchors, aliases and merge keys (what a key means should stand where it is read,
// and a page of aliases can expand to gigabytes), tags, several documents, keys that are not
// scalars. Scalars stay text: the schema, not YAML's guessing, says what they are, so `name: no`
// is the name "no".
//
// Built from yaml-cpp's events rather than its nodes, since those lose positions, expand aliases
// and keep the first of two equal keys silently. Its exceptions end here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/diagnostic.h"

namespace forestall::api {

inline constexpr std::size_t kYamlBytesMax = 1 << 20;
inline constexpr std::size_t kYamlDepthMax = 32;
inline constexpr std::size_t kYamlNodesMax = 100'000;

struct YamlEntry;

struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  Position at;
  std::string text;                // of a scalar
  bool quoted = false;             // a scalar in quotes, or a block scalar
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a map, in the order of the text, each key once
};

struct YamlEntry {
  std::string key;
  Position at;
  YamlNode value;
};

// What a message says was found: "a map", "'text'", "'text' in quotes", "nothing".
[[nodiscard]] std::string describe(const YamlNode& node);
// In single quotes; long text is cut.
[[nodiscard]] std::string quoted(std::string_view text);

// The one document in `text`. JSON is YAML, but may be indented with tabs, which YAML may not.
// Whatever is wrong is appended to `problems`; nothing is returned when the text could not be read
// to its end, a tree without the refused parts otherwise.
[[nodiscard]] std::optional<YamlNode> parse_yaml(std::string_view text,
                                                 std::vector<Diagnostic>& problems);

}  // namespace forestall::api
