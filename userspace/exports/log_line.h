// SPDX-License-Identifier: Apache-2.0
// One structured log line: `event=decision action=kill victim="a b" available=12345`, in the logfmt
// format, which log shippers can parse.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"

namespace forestall::exports {

class LogLine {
 public:
  explicit LogLine(std::string_view event) { field("event", event); }

  // Quoted if it contains anything but printable non-blank ASCII without '"', '=' and '\'.
  LogLine& field(std::string_view key, std::string_view value);
  LogLine& field(std::string_view key, const char* value) {
    return field(key, std::string_view(value));
  }
  LogLine& field(std::string_view key, const std::string& value) {
    return field(key, std::string_view(value));
  }
  LogLine& field(std::string_view key, bool value) { return field(key, value ? "yes" : "no"); }
  LogLine& field(std::string_view key, Bytes value) { return field(key, value.count); }
  // Microseconds with one decimal; end the key in `_us`.
  LogLine& field(std::string_view key, Duration value) {
    return raw(key, fmt::format("{:.1f}", to_us(value)));
  }
  template <typename Integer>
  requires std::is_integral_v<Integer> LogLine& field(std::string_view key, Integer value) {
    return raw(key, fmt::format("{}", value));
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  LogLine& raw(std::string_view key, std::string_view value);
  std::string text_;
};

}  // namespace forestall::exports
