// SPDX-License-Identifier: Apache-2.0
// YAML of Kubernetes objects as JSON, so that one reader serves both.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_writer.h"
#include "text/yaml_tree.h"

namespace forestall::text {

struct YamlDocument {
  std::string_view text;
  std::size_t line = 1;  // of its begin
};

// The documents between lines of "---", without empty ones.
[[nodiscard]] std::vector<YamlDocument> split_yaml(std::string_view text);

// What a plain scalar means: null, a truth value, a number, or a string.
enum class ScalarType : std::uint8_t { null, boolean, number, string };
[[nodiscard]] ScalarType scalar_type(const YamlNode& node);

// As Kubernetes reads YAML 1.1: "yes", "on" and "y" are true, "no", "off" and "n" are false.
// Nothing: not a truth value.
[[nodiscard]] std::optional<bool> boolean_of(const YamlNode& node);

[[nodiscard]] std::string to_json(const YamlNode& node);
void write_json(const YamlNode& node, JsonWriter& out);

}  // namespace forestall::text
