// SPDX-License-Identifier: Apache-2.0
// Writes JSON whose keys are data, such as names of resources, so that no message describes it. For
// everything else see messages/json.h.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace forestall::text {

class JsonWriter {
 public:
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_list() { open('['); }
  void end_list() { close(']'); }

  // REQUIRES: in an object; a value follows.
  void key(std::string_view name) {
    separate();
    quote(name);
    text_ += ": ";
    after_key_ = true;
  }

  void value(std::string_view text) {
    separate();
    quote(text);
  }
  void value(const char* text) { value(std::string_view(text)); }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(bool truth) { raw(truth ? "true" : "false"); }
  void value(std::int64_t number) { number_value(number); }
  void value(std::uint64_t number) { number_value(number); }
  void value(std::int32_t number) { number_value(number); }
  // The shortest text that reads back as the same number.
  void value(double number) { number_value(number); }
  void null() { raw("null"); }
  // A JSON value as it is.
  void raw(std::string_view json) {
    separate();
    text_ += json;
  }

  template <typename T>
  void member(std::string_view name, const T& content) {
    key(name);
    value(content);
  }

  // With a newline at the end.
  [[nodiscard]] std::string take() && {
    text_ += '\n';
    return std::move(text_);
  }

 private:
  template <typename Number>
  void number_value(Number number) {
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof digits, number);
    raw(std::string_view(digits, static_cast<std::size_t>(end.ptr - digits)));
  }

  void open(char bracket) {
    separate();
    text_ += bracket;
    ++depth_;
    first_ = true;
  }

  void close(char bracket) {
    --depth_;
    if (!first_) new_line();
    text_ += bracket;
    first_ = false;
  }

  void separate() {
    if (after_key_) {
      after_key_ = false;
      first_ = false;
      return;
    }
    if (depth_ == 0) return;
    if (!first_) text_ += ',';
    new_line();
    first_ = false;
  }

  void new_line() {
    text_ += '\n';
    text_.append(2 * depth_, ' ');
  }

  void quote(std::string_view text) {
    constexpr const char* kDigits = "0123456789abcdef";
    text_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (byte < 0x20) {
        text_ += "\\u00";
        text_ += kDigits[byte >> 4U];
        text_ += kDigits[byte & 0xfU];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  std::size_t depth_ = 0;
  bool first_ = true;
  bool after_key_ = false;
};

}  // namespace forestall::text
