// SPDX-License-Identifier: Apache-2.0
// A JSON value that is built in memory and printed, for output whose keys no message describes:
// keys with dashes, arguments of plugins. messages/json.h prints messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/json_writer.h"

namespace forestall::text {

class JsonOutput {
 public:
  JsonOutput() = default;                                             // null
  JsonOutput(bool value) : value_(value) {}                           // NOLINT: implicit
  JsonOutput(int value) : value_(std::int64_t{value}) {}              // NOLINT: implicit
  JsonOutput(std::int64_t value) : value_(value) {}                   // NOLINT: implicit
  JsonOutput(std::uint64_t value) : value_(value) {}                  // NOLINT: implicit
  JsonOutput(double value) : value_(value) {}                         // NOLINT: implicit
  JsonOutput(std::string value) : value_(std::move(value)) {}         // NOLINT: implicit
  JsonOutput(std::string_view value) : value_(std::string(value)) {}  // NOLINT: implicit
  JsonOutput(const char* value) : value_(std::string(value)) {}       // NOLINT: implicit

  [[nodiscard]] static JsonOutput list();
  [[nodiscard]] static JsonOutput object();

  // REQUIRES: made by list().
  JsonOutput& add(JsonOutput item);
  // Adds a member; members keep their order. REQUIRES: made by object(), and a new key.
  JsonOutput& set(std::string key, JsonOutput value);

  // On one line, without a newline. A double that is not finite is null.
  [[nodiscard]] std::string line() const;
  // Indented by two, with a newline at the end.
  [[nodiscard]] std::string pretty() const;

 private:
  using List = std::vector<JsonOutput>;
  using Member = std::pair<std::string, JsonOutput>;  // key, value
  using Object = std::vector<Member>;

  void write(JsonWriter& out) const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List, Object>
      value_;
};

}  // namespace forestall::text
