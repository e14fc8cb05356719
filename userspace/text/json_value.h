// SPDX-License-Identifier: Apache-2.0
// Reads JSON of other programs (Kubernetes' API objects, kubelet's statistics) through simdjson.
// Every error contains the path of the value: "spec.containers[0].name: expected a string, found a
// number". For Forestall's own JSON see messages/json.h.
//
// Accepts what Go's decoder accepts, because Go programs write and read this JSON: a null equals a
// missing member, the last one of repeated keys counts, and unknown keys are skipped.
//
// Include this in parsers only: simdjson's header is large.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace forestall::text {

// One value of a parsed document, and its path. A view: the document and all parent values must
// outlive it, so functions do not store it.
class JsonValue {
 public:
  // The root of the paths in messages; its own path is empty.
  explicit JsonValue(simdjson::dom::element element) : element_(element) {}

  // The same value as the root of the paths in messages.
  [[nodiscard]] JsonValue as_root() const { return JsonValue(element_); }

  // The member `key`; nothing if it is missing or null. An error if this is not an object.
  [[nodiscard]] Result<std::optional<JsonValue>> find(std::string_view key) const;
  // The same for a required member.
  [[nodiscard]] Result<JsonValue> at(std::string_view key) const;

  // The string member `key`; empty if it is missing or null.
  [[nodiscard]] Result<std::string> text(std::string_view key) const;

  [[nodiscard]] bool is_null() const { return element_.is_null(); }
  [[nodiscard]] Result<std::string_view> string() const;
  [[nodiscard]] Result<bool> boolean() const;
  // A whole number, also written as 3.0, of magnitude below 2^63.
  [[nodiscard]] Result<std::int64_t> integer() const;
  // A whole number from 0 to 2^64 - 1, the type of kubelet's amounts.
  [[nodiscard]] Result<std::uint64_t> amount() const;
  // A string, or a number as text that parses to the same number: the forms of a Quantity.
  [[nodiscard]] Result<std::string> string_or_number() const;

  // Calls visit(const JsonValue&) -> Result<void> for each item of a list, until one fails.
  template <typename Visit>
  [[nodiscard]] Result<void> each(Visit visit) const;
  // Calls visit(key, const JsonValue&) -> Result<void> for each member of an object, nulls
  // included.
  template <typename Visit>
  [[nodiscard]] Result<void> each_member(Visit visit) const;

  // The same for each item of the list `key`, if it exists.
  template <typename Visit>
  [[nodiscard]] Result<void> each_in(std::string_view key, Visit visit) const;
  // Appends the items of the list `key`, if it exists, each parsed by `read`.
  template <typename T>
  [[nodiscard]] Result<void> append_all(std::string_view key, Result<T> (*read)(const JsonValue&),
                                        std::vector<T>& all) const;

  // "spec.containers[0].name"; keys that are not plain words are in brackets and quotes.
  [[nodiscard]] std::string path() const;
  // "<path>: <problem>".
  [[nodiscard]] Error wrong(std::string_view problem) const;
  // "<path>: expected <wanted>, found a number".
  [[nodiscard]] Error expected(std::string_view wanted) const;

 private:
  JsonValue(const JsonValue& parent, std::string_view key, simdjson::dom::element element)
      : element_(element), parent_(&parent), key_(key) {}
  JsonValue(const JsonValue& parent, std::size_t index, simdjson::dom::element element)
      : element_(element), parent_(&parent), index_(index) {}

  simdjson::dom::element element_;
  const JsonValue* parent_ = nullptr;
  std::string_view key_;  // of an object's member
  std::size_t index_ = 0;
  // An item of a list has no key; a member can have an empty key.
  [[nodiscard]] bool is_item() const { return key_.data() == nullptr; }
};

// A parsed document, which owns the data of its JsonValues.
class JsonDocument {
 public:
  // Errors begin with LINE:COLUMN, both counted from 1, columns in bytes, if simdjson reports the
  // position. At most 4 GiB of text and 1000 levels.
  [[nodiscard]] static Result<JsonDocument> parse(std::string_view text);

  // Valid until the document is moved or destroyed.
  [[nodiscard]] JsonValue root() const { return JsonValue(parser_.doc.root()); }

 private:
  JsonDocument() = default;

  simdjson::dom::parser parser_;
};

template <typename Visit>
Result<void> JsonValue::each(Visit visit) const {
  simdjson::dom::array items;
  if (element_.get(items) != simdjson::SUCCESS) return expected("a list");
  std::size_t index = 0;
  for (const simdjson::dom::element item : items) {
    if (auto visited = visit(JsonValue(*this, index++, item)); !visited) return visited;
  }
  return {};
}

template <typename Visit>
Result<void> JsonValue::each_member(Visit visit) const {
  simdjson::dom::object members;
  if (element_.get(members) != simdjson::SUCCESS) return expected("an object");
  for (const simdjson::dom::key_value_pair member : members) {
    if (auto visited = visit(member.key, JsonValue(*this, member.key, member.value)); !visited) {
      return visited;
    }
  }
  return {};
}

template <typename Visit>
Result<void> JsonValue::each_in(std::string_view key, Visit visit) const {
  const auto list = TRY(find(key));
  return list ? list->each(visit) : Result<void>();
}

template <typename T>
Result<void> JsonValue::append_all(std::string_view key, Result<T> (*read)(const JsonValue&),
                                   std::vector<T>& all) const {
  return each_in(key, [&](const JsonValue& item) -> Result<void> {
    all.push_back(TRY(read(item)));
    return {};
  });
}

}  // namespace forestall::text
