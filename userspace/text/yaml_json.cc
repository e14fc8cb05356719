// SPDX-License-Identifier: Apache-2.0
#include "text/yaml_json.h"

#include <algorithm>

#include "text/json_number.h"

namespace forestall::text {
namespace {

constexpr std::string_view kSeparator = "---";

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_blank_document(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::size_t first = text.substr(0, end + 1).find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && text[first] != '#') return false;
    text.remove_prefix(end + 1);
  }
  return true;
}

}  // namespace

std::vector<YamlDocument> split_yaml(std::string_view text) {
  std::vector<YamlDocument> documents;
  std::size_t begin = 0;
  std::size_t begin_line = 1;
  std::size_t line = 1;
  const auto finish = [&](std::size_t end) {
    const std::string_view piece = text.substr(begin, end - begin);
    if (!is_blank_document(piece)) documents.push_back({piece, begin_line});
  };
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view row = text.substr(at, end - at);
    const bool separates =
        row.starts_with(kSeparator) &&
        row.find_first_not_of(" \t\r\n", kSeparator.size()) == std::string_view::npos;
    if (separates) {
      finish(at);
      begin = end;
      begin_line = line + 1;
    }
    at = end;
  }
  finish(text.size());
  return documents;
}

ScalarType scalar_type(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar) return ScalarType::null;
  if (node.quoted) return ScalarType::string;
  if (one_of(node.text, {"", "~", "null", "Null", "NULL"})) return ScalarType::null;
  if (boolean_of(node)) return ScalarType::boolean;
  return is_json_number(node.text) ? ScalarType::number : ScalarType::string;
}

std::optional<bool> boolean_of(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar || node.quoted) return std::nullopt;
  const bool truth =
      one_of(node.text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"});
  const bool falsehood = one_of(
      node.text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"});
  return truth || falsehood ? std::optional(truth) : std::nullopt;
}

void write_json(const YamlNode& node, JsonWriter& out) {
  switch (node.kind) {
    case YamlNode::Kind::null: return out.null();
    case YamlNode::Kind::scalar:
      switch (scalar_type(node)) {
        case ScalarType::null: return out.null();
        case ScalarType::boolean: return out.value(*boolean_of(node));
        case ScalarType::number: return out.raw(node.text);
        case ScalarType::string: return out.value(node.text);
      }
      return;
    case YamlNode::Kind::list:
      out.begin_list();
      for (const YamlNode& each : node.items) write_json(each, out);
      return out.end_list();
    case YamlNode::Kind::map:
      out.begin_object();
      for (const YamlEntry& each : node.entries) {
        out.key(each.key);
        write_json(each.value, out);
      }
      return out.end_object();
  }
}

std::string to_json(const YamlNode& node) {
  JsonWriter out;
  write_json(node, out);
  return std::move(out).take();
}

}  // namespace forestall::text
