// SPDX-License-Identifier: Apache-2.0
// YAML text as a tree of maps, lists and scalars, each with its position.
//
// A configuration needs only a part of YAML; the rest is refused: tags, several documents, and keys
// that are not scalars. Scalars remain text, and the schema defines their types, so `name: no` is
// the name "no".
//
// An alias (*name) is replaced by a copy of the value at its anchor (&name), with the positions of
// that value: a mistake is reported where it is written. A merge key (<<) adds the keys of its map,
// or of its list of maps, that are not given otherwise; earlier maps come first. A page of aliases
// can expand to gigabytes, so all copies count against the limits of the text.
//
// Built from yaml-cpp's events instead of its nodes, because nodes lose positions, share what
// aliases name, and silently keep the first of two equal keys. yaml-cpp's exceptions are caught
// here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/diagnostic.h"

namespace forestall::text {

inline constexpr std::size_t kYamlBytesMax = 1 << 20;
inline constexpr std::size_t kYamlDepthMax = 32;
// With the copies that anchors and aliases need.
inline constexpr std::size_t kYamlNodesMax = 100'000;
inline constexpr std::size_t kYamlCopiedBytesMax = std::size_t{8} << 20;

struct YamlEntry;

struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  Position at;
  std::string text;                // of a scalar
  bool quoted = false;             // in quotes, or a block scalar
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a map, in the order of the text, each key once
};

struct YamlEntry {
  std::string key;
  Position at;
  YamlNode value;
};

// A value as messages describe it: "a map", "'text'", "'text' in quotes", "nothing".
[[nodiscard]] std::string describe(const YamlNode& node);

// What happens to a key that a map has twice.
enum class RepeatedKeys : std::uint8_t {
  refuse,
  replace,  // the last value counts, as in Kubernetes' decoder
};

// The single document in `text`. JSON is YAML, except that JSON may be indented with tabs. Problems
// are appended to `problems`. Returns nothing if the text could not be parsed to its end; otherwise
// a tree without the refused parts.
[[nodiscard]] std::optional<YamlNode> parse_yaml(std::string_view text,
                                                 std::vector<Diagnostic>& problems,
                                                 RepeatedKeys repeated = RepeatedKeys::refuse);

}  // namespace forestall::text
