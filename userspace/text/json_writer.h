// SPDX-License-Identifier: Apache-2.0
// Writes JSON whose keys are data, such as names of resources, so that no message describes it. For
// everything else see messages/json.h. text/json_output.h builds a value before it is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace forestall::text {

enum class JsonLayout : std::uint8_t {
  indented,  // by two, with a newline at the end
  one_line,  // without blanks and newline
};

class JsonWriter {
 public:
  explicit JsonWriter(JsonLayout layout = JsonLayout::indented) : layout_(layout) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_list() { open('['); }
  void end_list() { close(']'); }

  // REQUIRES: in an object; a value follows.
  void key(std::string_view name);

  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(bool truth) { raw(truth ? "true" : "false"); }
  void value(std::int32_t number) { value(std::int64_t{number}); }
  void value(std::int64_t number);
  void value(std::uint64_t number);
  // The shortest text that reads back as the same number; null if it is not finite.
  void value(double number);
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

  [[nodiscard]] std::string take() &&;

  // The text since the last forget_written(), which may end anywhere. Where a large document is
  // written piece by piece, it is never in memory as a whole.
  [[nodiscard]] std::string_view written() const { return text_; }
  void forget_written() { text_.clear(); }

 private:
  void open(char bracket);
  void close(char bracket);
  void separate();
  void new_line();
  void quote(std::string_view text);

  std::string text_;
  const JsonLayout layout_;
  std::size_t depth_ = 0;
  bool first_ = true;
  bool after_key_ = false;
};

}  // namespace forestall::text
