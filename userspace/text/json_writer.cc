// SPDX-License-Identifier: Apache-2.0
#include "text/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "text/utf8.h"

namespace forestall::text {
namespace {

template <typename Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  out.append(buffer.data(), end);
}

}  // namespace

void JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  text_ += layout_ == JsonLayout::indented ? ": " : ":";
  after_key_ = true;
}

void JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
}

void JsonWriter::value(std::int64_t number) {
  separate();
  append_number(text_, number);
}

void JsonWriter::value(std::uint64_t number) {
  separate();
  append_number(text_, number);
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  append_number(text_, number);
}

std::string JsonWriter::take() && {
  if (layout_ == JsonLayout::indented) text_ += '\n';
  return std::move(text_);
}

void JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) new_line();
  text_ += bracket;
  first_ = false;
}

void JsonWriter::separate() {
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

void JsonWriter::new_line() {
  if (layout_ == JsonLayout::one_line) return;
  text_ += '\n';
  text_.append(2 * depth_, ' ');
}

void JsonWriter::quote(std::string_view given) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (find_invalid_utf8(given)) return quote(to_utf8(given));
  text_ += '"';
  for (const char c : given) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (c == '\t') {
      text_ += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      text_ += "\\u00";
      text_ += kDigits[byte >> 4U];
      text_ += kDigits[byte & 0xFU];
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

}  // namespace forestall::text
