// SPDX-License-Identifier: Apache-2.0
#include "text/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/printable.h"
#include "text/utf8.h"

namespace forestall::text {
namespace {

template <typename Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  out.append(buffer.data(), end);
}

// Printable ASCII that stands for itself in a string.
bool is_plain(char c) {
  return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

// Appends the first character of `text` as \uNNNN; returns its length. A terminal that shows the
// JSON would execute it, or show the line in another order. REQUIRES: UTF-8, below U+10000.
std::size_t append_escape(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xe0 ? 2 : 3;
  unsigned code = length == 1 ? byte(0) : byte(0) & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) code = (code << 6U) | (byte(i) & 0x3fU);
  out += "\\u";
  for (const unsigned shift : {12U, 8U, 4U, 0U}) out += kDigits[(code >> shift) & 0xfU];
  return length;
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
  constexpr std::string_view kLine = "\n                                ";
  const std::size_t size = 1 + 2 * depth_;
  text_ += kLine.substr(0, size);
  if (size > kLine.size()) text_.append(size - kLine.size(), ' ');
}

void JsonWriter::quote(std::string_view given) {
  if (std::ranges::all_of(given, is_plain)) {
    text_ += '"';
    text_ += given;
    text_ += '"';
    return;
  }
  if (find_invalid_utf8(given)) return quote(to_utf8(given));
  text_ += '"';
  for (;;) {
    const auto special = std::ranges::find_if_not(given, is_plain);
    text_.append(given.begin(), special);
    given.remove_prefix(static_cast<std::size_t>(special - given.begin()));
    if (given.empty()) break;
    const char c = given.front();
    std::size_t taken = printable_length(given);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (taken > 0) {
      text_ += given.substr(0, taken);
    } else if (c == '\n' || c == '\t') {
      text_ += c == '\n' ? "\\n" : "\\t";
      taken = 1;
    } else {
      taken = append_escape(text_, given);
    }
    given.remove_prefix(taken);
  }
  text_ += '"';
}

}  // namespace forestall::text
