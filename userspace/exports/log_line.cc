// SPDX-License-Identifier: Apache-2.0
#include "exports/log_line.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/printable.h"
#include "exports/amount_text.h"

namespace forestall::exports {
namespace {

// Fields that are a message by themselves.
constexpr std::array<std::string_view, 5> kMessages{"problem", "error", "warning", "note",
                                                    "failure"};
constexpr std::string_view kMicroseconds = "_us";

bool is_plain(char c) {
  return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
}

bool is_message(std::string_view key) {
  return std::ranges::find(kMessages, key) != kMessages.end();
}

// escaped() leaves no control character.
std::string json_string(std::string_view value) {
  std::string text = "\"";
  for (const char c : escaped(value, "\\")) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string words(std::string_view key) {
  std::string text(key);
  std::ranges::replace(text, '_', ' ');
  std::ranges::replace(text, '-', ' ');
  return text;
}

}  // namespace

std::string logfmt_value(std::string_view value) {
  const bool plain = std::all_of(value.begin(), value.end(), is_plain);
  if (!value.empty() && plain) return std::string(value);
  return '"' + escaped(value, "\"\\") + '"';
}

std::string logfmt_escaped(std::string_view message) {
  return escaped(message, "\\");
}

LogLine& LogLine::add(std::string_view key, std::string value, Kind kind) {
  fields_.push_back({std::string(key), std::move(value), kind});
  return *this;
}

std::string LogLine::text() const {
  std::string line = "event=" + logfmt_value(event_);
  for (const Field& each : fields_) {
    line.append(" ").append(each.key).append("=");
    line += each.kind == Kind::text ? logfmt_value(each.value) : each.value;
  }
  return line;
}

std::string LogLine::json_members() const {
  std::string members = "\"event\":" + json_string(event_);
  for (auto each = fields_.begin(); each != fields_.end(); ++each) {
    const auto before = std::count_if(fields_.begin(), each,
                                      [&](const Field& other) { return other.key == each->key; });
    members += ",\"" + each->key + (before > 0 ? fmt::format("_{}", before + 1) : "") + "\":";
    switch (each->kind) {
      case Kind::text: members += json_string(each->value); break;
      case Kind::number: members += each->value; break;
      case Kind::unknown: members += "null"; break;
      case Kind::flag: members += each->value == "yes" ? "true" : "false"; break;
    }
  }
  return members;
}

std::string LogLine::plain() const {
  if (!sentence_.empty()) return sentence_;
  std::string line = words(event_);
  std::string_view separator = ": ";
  const auto append = [&](const std::string& part, std::string_view next) {
    line.append(separator).append(part);
    separator = next;
  };
  for (const Field& each : fields_) {
    if (is_message(each.key)) append(logfmt_escaped(each.value), "; ");
  }
  for (const Field& each : fields_) {
    if (is_message(each.key)) continue;
    if (each.kind == Kind::number && each.key.ends_with(kMicroseconds)) {
      const std::string key = each.key.substr(0, each.key.size() - kMicroseconds.size());
      const auto time = std::chrono::duration<double, std::micro>(std::stod(each.value));
      append(words(key) + " " + time_text(std::chrono::duration_cast<Duration>(time)), ", ");
    } else if (each.kind == Kind::text) {
      append(words(each.key) + " " + logfmt_value(each.value), ", ");
    } else {
      append(words(each.key) + " " + each.value, ", ");
    }
  }
  return line;
}

}  // namespace forestall::exports
