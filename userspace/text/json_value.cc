// SPDX-License-Identifier: Apache-2.0
// Typed access to simdjson's tree, and the position of a syntax error.
#include "text/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "text/utf8.h"

namespace forestall::text {
namespace {

namespace ondemand = simdjson::ondemand;

// Below simdjson::DEFAULT_MAX_DEPTH, which simdjson's debug builds assert.
constexpr int kDepthMax = 1000;
// Doubles represent every whole number up to here.
constexpr double kExactMax = 9007199254740992.0;  // 2^53

std::string_view kind_of(simdjson::dom::element_type type) {
  using simdjson::dom::element_type;
  switch (type) {
    case element_type::ARRAY: return "a list";
    case element_type::OBJECT: return "an object";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE: return "a number";
    case element_type::STRING: return "a string";
    case element_type::BOOL: return "a boolean";
    case element_type::NULL_VALUE: return "null";
  }
  return "something else";
}

bool is_word(std::string_view key) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  return !key.empty() && std::all_of(key.begin(), key.end(), allowed);
}

// The value of a double that is exactly a whole number.
std::optional<std::int64_t> whole(double number) {
  if (number != std::trunc(number) || std::abs(number) > kExactMax) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// Reads all of `value`, so that simdjson's on-demand parser stops at the first error.
simdjson::error_code walk(ondemand::value value, int depth) {
  if (depth > kDepthMax) return simdjson::DEPTH_ERROR;
  ondemand::json_type type{};
  if (const auto failed = value.type().get(type)) return failed;
  switch (type) {
    case ondemand::json_type::array: {
      ondemand::array items;
      if (const auto failed = value.get_array().get(items)) return failed;
      for (auto item : items) {
        ondemand::value inner;
        if (const auto failed = std::move(item).get(inner)) return failed;
        if (const auto failed = walk(inner, depth + 1)) return failed;
      }
      return simdjson::SUCCESS;
    }
    case ondemand::json_type::object: {
      ondemand::object members;
      if (const auto failed = value.get_object().get(members)) return failed;
      for (auto member : members) {
        std::string_view key;
        ondemand::value inner;
        if (const auto failed = member.unescaped_key().get(key)) return failed;
        if (const auto failed = member.value().get(inner)) return failed;
        if (const auto failed = walk(inner, depth + 1)) return failed;
      }
      return simdjson::SUCCESS;
    }
    case ondemand::json_type::string: return value.get_string().error();
    case ondemand::json_type::number: return value.get_number().error();
    case ondemand::json_type::boolean: return value.get_bool().error();
    case ondemand::json_type::null: {
      bool null = false;
      return value.is_null().get(null);
    }
  }
  return simdjson::SUCCESS;
}

// Offset in `text` at which the on-demand parser fails; nothing if it does not fail, or reports no
// position. The tree parser is faster and validates everything, but reports no position.
std::optional<std::size_t> failure_offset(std::string_view text) {
  if (const auto bad = find_invalid_utf8(text)) return bad;
  const simdjson::padded_string padded(text);
  ondemand::parser parser;
  ondemand::document document;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return std::nullopt;
  ondemand::value root;
  simdjson::error_code failed = document.get_value().get(root);
  if (failed == simdjson::SUCCESS) failed = walk(root, 0);
  const char* at = nullptr;
  if (failed == simdjson::SUCCESS || document.current_location().get(at) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  const auto offset = static_cast<std::size_t>(at - padded.data());
  return offset <= text.size() ? std::optional(offset) : std::nullopt;
}

std::string problem_of(simdjson::error_code code) {
  switch (code) {
    case simdjson::EMPTY: return "invalid JSON: the text is empty";
    case simdjson::CAPACITY: return "invalid JSON: the text is larger than 4 GiB";
    case simdjson::DEPTH_ERROR: return fmt::format("invalid JSON: more than {} levels", kDepthMax);
    case simdjson::UTF8_ERROR: return "invalid JSON: not UTF-8";
    case simdjson::UNCLOSED_STRING: return "invalid JSON: a string is not closed";
    case simdjson::UNESCAPED_CHARS: return "invalid JSON: control character in a string";
    case simdjson::STRING_ERROR: return "invalid JSON: malformed string";
    case simdjson::NUMBER_ERROR: return "malformed number, or a number beyond 64 bits";
    case simdjson::T_ATOM_ERROR:
    case simdjson::F_ATOM_ERROR:
    case simdjson::N_ATOM_ERROR: return "invalid JSON: expected true, false or null";
    case simdjson::TAPE_ERROR:
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return "invalid JSON: missing or unexpected characters";
    default: return fmt::format("invalid JSON: {}", simdjson::error_message(code));
  }
}

Error syntax_error(std::string_view text, simdjson::error_code code) {
  const auto offset = failure_offset(text);
  if (!offset) return error(problem_of(code));
  const std::string_view before = text.substr(0, *offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return error(fmt::format("{}:{}: {}", line, *offset - start + 1, problem_of(code)));
}

}  // namespace

Result<JsonDocument> JsonDocument::parse(std::string_view text) {
  JsonDocument document;
  const auto failed = document.parser_.parse(text.data(), text.size()).error();
  if (failed != simdjson::SUCCESS) return syntax_error(text, failed);
  return document;
}

Result<std::optional<JsonValue>> JsonValue::find(std::string_view key) const {
  simdjson::dom::object members;
  if (element_.get(members) != simdjson::SUCCESS) return expected("an object");
  std::optional<JsonValue> found;
  for (const simdjson::dom::key_value_pair member : members) {
    if (member.key == key) found = JsonValue(*this, member.key, member.value);
  }
  if (found && found->is_null()) found.reset();
  return found;
}

Result<JsonValue> JsonValue::at(std::string_view key) const {
  const auto found = TRY(find(key));
  if (!found) return wrong(fmt::format("'{}' is missing", key));
  return *found;
}

Result<std::string> JsonValue::text(std::string_view key) const {
  const auto found = TRY(find(key));
  if (!found) return std::string();
  return std::string(TRY(found->string()));
}

Result<std::string_view> JsonValue::string() const {
  std::string_view text;
  if (element_.get(text) != simdjson::SUCCESS) return expected("a string");
  return text;
}

Result<bool> JsonValue::boolean() const {
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) return expected("true or false");
  return value;
}

Result<std::int64_t> JsonValue::integer() const {
  constexpr std::string_view kWanted = "a whole number";
  std::int64_t number = 0;
  if (element_.get(number) == simdjson::SUCCESS) return number;
  double real = 0;
  // For a number beyond signed 64 bits, get(double) returns the nearest double, which is not
  // whole().
  if (element_.get(real) != simdjson::SUCCESS) return expected(kWanted);
  if (const auto exact = whole(real)) return *exact;
  return wrong(fmt::format("expected {}, found {}", kWanted, real));
}

Result<std::uint64_t> JsonValue::amount() const {
  std::uint64_t number = 0;
  if (element_.get(number) == simdjson::SUCCESS) return number;
  const std::int64_t signed_number = TRY(integer());
  if (signed_number < 0) return wrong(fmt::format("must not be negative: {}", signed_number));
  return static_cast<std::uint64_t>(signed_number);
}

Result<std::string> JsonValue::string_or_number() const {
  using simdjson::dom::element_type;
  switch (element_.type()) {
    case element_type::STRING: return std::string(element_.get_string().value_unsafe());
    case element_type::INT64: return fmt::format("{}", element_.get_int64().value_unsafe());
    case element_type::UINT64: return fmt::format("{}", element_.get_uint64().value_unsafe());
    case element_type::DOUBLE: return fmt::format("{}", element_.get_double().value_unsafe());
    default: return expected("a string or a number");
  }
}

std::string JsonValue::path() const {
  if (parent_ == nullptr) return "";
  const std::string before = parent_->path();
  if (is_item()) return fmt::format("{}[{}]", before, index_);
  if (!is_word(key_)) return fmt::format("{}['{}']", before, key_);
  return before.empty() ? std::string(key_) : fmt::format("{}.{}", before, key_);
}

Error JsonValue::wrong(std::string_view problem) const {
  const std::string place = path();
  return error(place.empty() ? std::string(problem) : fmt::format("{}: {}", place, problem));
}

Error JsonValue::expected(std::string_view wanted) const {
  return wrong(fmt::format("expected {}, found {}", wanted, kind_of(element_.type())));
}

}  // namespace forestall::text
