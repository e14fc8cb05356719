// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"

#include <charconv>

namespace forestall {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

template <typename T>
std::optional<T> parse_integer(std::string_view text) {
  T value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  return parse_integer<std::uint64_t>(text);
}

std::optional<std::int64_t> parse_i64(std::string_view text) {
  return parse_integer<std::int64_t>(text);
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view next_field(std::string_view& text, char separator) {
  const auto at = text.find(separator);
  const auto field = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return field;
}

std::string_view next_word(std::string_view& text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    text = {};
    return {};
  }
  text.remove_prefix(first);
  const auto word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

bool path_is_within(std::string_view path, std::string_view ancestor) {
  if (ancestor == "/") return path.starts_with('/');
  if (!path.starts_with(ancestor)) return false;
  return path.size() == ancestor.size() || path[ancestor.size()] == '/';
}

}  // namespace forestall
