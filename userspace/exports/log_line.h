// SPDX-License-Identifier: Apache-2.0
// One structured log line, as logfmt (`event=decision action=kill victim="a b" available=12345`) or
// JSON, which log shippers can parse, or as a sentence for people.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"

namespace forestall::exports {

// Names of cgroups and processes are untrusted: characters that could end the line, move the cursor
// or imitate another field are escaped. The value is also quoted if it contains anything but
// printable non-blank ASCII without '"', '=' and '\'.
[[nodiscard]] std::string logfmt_value(std::string_view value);
// Only escaped: for a message that may contain names.
[[nodiscard]] std::string logfmt_escaped(std::string_view message);

class LogLine {
 public:
  explicit LogLine(std::string_view event) : event_(event) {}

  LogLine& field(std::string_view key, std::string_view value) {
    return add(key, std::string(value), Kind::text);
  }
  LogLine& field(std::string_view key, const char* value) {
    return field(key, std::string_view(value));
  }
  LogLine& field(std::string_view key, const std::string& value) {
    return field(key, std::string_view(value));
  }
  LogLine& field(std::string_view key, bool value) {
    return add(key, value ? "yes" : "no", Kind::flag);
  }
  LogLine& field(std::string_view key, Bytes value) {
    return add(key, fmt::format("{}", value.count), Kind::number);
  }
  // Microseconds with one decimal; end the key in `_us`.
  LogLine& field(std::string_view key, Duration value) {
    return add(key, fmt::format("{:.1f}", to_us(value)), Kind::number);
  }
  template <typename Integer>
  requires std::is_integral_v<Integer> LogLine& field(std::string_view key, Integer value) {
    return add(key, fmt::format("{}", value), Kind::number);
  }
  // Without a value: "unknown", in JSON null, so that the field has one type.
  template <typename Number>
  LogLine& field(std::string_view key, const std::optional<Number>& value) {
    return value ? field(key, *value) : add(key, "unknown", Kind::unknown);
  }
  // For people, instead of the fields.
  LogLine& sentence(std::string text) {
    sentence_ = std::move(text);
    return *this;
  }

  // logfmt.
  [[nodiscard]] std::string text() const;
  // The members of a JSON object, without its braces. Text values are escaped as in logfmt first; a
  // key that repeats gets a number: "failure", "failure_2".
  [[nodiscard]] std::string json_members() const;
  // The sentence, or one that is made from the fields: what is wrong first.
  [[nodiscard]] std::string plain() const;

 private:
  enum class Kind : std::uint8_t { text, number, flag, unknown };
  struct Field {
    std::string key;
    std::string value;
    Kind kind = Kind::text;
  };

  LogLine& add(std::string_view key, std::string value, Kind kind);

  std::string event_;
  std::vector<Field> fields_;
  std::string sentence_;
};

}  // namespace forestall::exports
