// SPDX-License-Identifier: Apache-2.0
#include "intake/json_members.h"

#include <fmt/format.h>

#include <cmath>

#include "messages/yaml_message.h"
#include "text/json_number.h"

namespace forestall::intake {

using text::JsonMember;
using text::JsonNode;

void JsonProblems::expected(const JsonNode& node, std::string_view wanted) {
  error(node.at, fmt::format("expected {}, found {}", wanted, text::describe(node)));
}

void JsonProblems::expected(const JsonNode& node, std::string_view key, std::string_view wanted) {
  error(node.at, fmt::format("'{}': expected {}, found {}", key, wanted, text::describe(node)));
}

void JsonProblems::unknown_key(const JsonMember& member, const std::vector<std::string>& keys) {
  if (const auto near = messages::nearest_word(member.key, keys)) {
    error(member.at, fmt::format("unknown key '{}'; did you mean '{}'?", member.key, *near));
  } else {
    error(member.at,
          fmt::format("unknown key '{}'; use one of: {}", member.key, fmt::join(keys, ", ")));
  }
}

std::optional<std::int64_t> json_integer(const JsonMember& member, JsonProblems& problems) {
  std::int64_t number = 0;
  if (member.value.kind == JsonNode::Kind::number &&
      !text::read_integer(member.value.text, number)) {
    return number;
  }
  problems.expected(member.value, member.key, "a whole number");
  return std::nullopt;
}

std::optional<double> json_real(const JsonMember& member, JsonProblems& problems) {
  double number = 0;
  if (member.value.kind == JsonNode::Kind::number && !text::read_real(member.value.text, number)) {
    return number;
  }
  problems.expected(member.value, member.key, "a number");
  return std::nullopt;
}

std::optional<bool> json_flag(const JsonMember& member, JsonProblems& problems) {
  const JsonNode& value = member.value;
  if (value.kind == JsonNode::Kind::boolean) return value.flag;
  if (value.kind == JsonNode::Kind::number && (value.text == "0" || value.text == "1")) {
    return value.text == "1";
  }
  problems.expected(value, member.key, "0 or 1");
  return std::nullopt;
}

std::optional<std::string> json_string(const JsonMember& member, JsonProblems& problems) {
  if (member.value.kind == JsonNode::Kind::string) return member.value.text;
  problems.expected(member.value, member.key, "a string");
  return std::nullopt;
}

std::optional<std::size_t> json_word(const JsonMember& member,
                                     std::initializer_list<std::string_view> words,
                                     JsonProblems& problems) {
  if (member.value.kind == JsonNode::Kind::string) {
    std::size_t index = 0;
    for (const std::string_view word : words) {
      if (member.value.text == word) return index;
      ++index;
    }
  }
  problems.expected(member.value, member.key, fmt::format("one of: {}", fmt::join(words, ", ")));
  return std::nullopt;
}

bool json_object(const JsonMember& member, JsonProblems& problems) {
  if (member.value.kind == JsonNode::Kind::object) return true;
  problems.expected(member.value, member.key, "an object");
  return false;
}

}  // namespace forestall::intake
