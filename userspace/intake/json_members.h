// SPDX-License-Identifier: Apache-2.0
// Reads the members of a JSON object of an operator's file: wrong types and unknown keys become
// findings with their position.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/diagnostic.h"
#include "text/json_tree.h"

namespace forestall::intake {

// Adds findings about one file. The arguments must outlive this object.
class JsonProblems {
 public:
  JsonProblems(const std::string& file, text::Findings& findings)
      : file_(file), findings_(findings) {}

  void error(text::Position at, std::string message) {
    findings_.errors.push_back({{file_, at}, std::move(message)});
  }
  // "expected <wanted>, found <value>".
  void expected(const text::JsonNode& node, std::string_view wanted);
  // "'<key>': expected <wanted>, found <value>".
  void expected(const text::JsonNode& node, std::string_view key, std::string_view wanted);
  // "unknown key '<key>'; did you mean ...", or all keys.
  void unknown_key(const text::JsonMember& member, const std::vector<std::string>& keys);

  [[nodiscard]] bool any() const { return !findings_.errors.empty(); }
  [[nodiscard]] std::size_t count() const { return findings_.errors.size(); }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  const std::string& file_;
  text::Findings& findings_;
};

// Each reads a value of the type, or adds a finding that names the key and returns nothing.
[[nodiscard]] std::optional<std::int64_t> json_integer(const text::JsonMember& member,
                                                       JsonProblems& problems);
[[nodiscard]] std::optional<double> json_real(const text::JsonMember& member,
                                              JsonProblems& problems);
// true or false, 1 or 0.
[[nodiscard]] std::optional<bool> json_flag(const text::JsonMember& member, JsonProblems& problems);
[[nodiscard]] std::optional<std::string> json_string(const text::JsonMember& member,
                                                     JsonProblems& problems);
// One of `words`; the index.
[[nodiscard]] std::optional<std::size_t> json_word(const text::JsonMember& member,
                                                   std::initializer_list<std::string_view> words,
                                                   JsonProblems& problems);
// Whether the value is an object; adds a finding if not.
[[nodiscard]] bool json_object(const text::JsonMember& member, JsonProblems& problems);

}  // namespace forestall::intake
