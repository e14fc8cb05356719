// SPDX-License-Identifier: Apache-2.0
#include "text/json_output.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace forestall::text {
namespace {

void print_string(std::string& out, std::string_view given) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (const char c : to_utf8(given)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 0xF];
    } else {
      out += c;
    }
  }
  out += '"';
}

template <typename Number>
void print_number(std::string& out, Number number) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  out.append(buffer.data(), end);
}

void new_line(std::string& out, int indent) {
  if (indent < 0) return;
  out += '\n';
  out.append(static_cast<std::size_t>(indent) * 2, ' ');
}

}  // namespace

JsonOutput JsonOutput::list() {
  JsonOutput made;
  made.value_ = List();
  return made;
}

JsonOutput JsonOutput::object() {
  JsonOutput made;
  made.value_ = Object();
  return made;
}

JsonOutput& JsonOutput::add(JsonOutput item) {
  std::get<List>(value_).push_back(std::move(item));
  return *this;
}

JsonOutput& JsonOutput::set(std::string key, JsonOutput value) {
  std::get<Object>(value_).emplace_back(std::move(key), std::move(value));
  return *this;
}

std::string JsonOutput::line() const {
  std::string out;
  print(out, -1);
  return out;
}

std::string JsonOutput::pretty() const {
  std::string out;
  print(out, 0);
  return out + '\n';
}

void JsonOutput::print(std::string& out, int indent) const {
  const int inner = indent < 0 ? indent : indent + 1;
  if (const auto* flag = std::get_if<bool>(&value_)) {
    out += *flag ? "true" : "false";
  } else if (const auto* whole = std::get_if<std::int64_t>(&value_)) {
    print_number(out, *whole);
  } else if (const auto* amount = std::get_if<std::uint64_t>(&value_)) {
    print_number(out, *amount);
  } else if (const auto* real = std::get_if<double>(&value_); real && std::isfinite(*real)) {
    print_number(out, *real);
  } else if (const auto* text = std::get_if<std::string>(&value_)) {
    print_string(out, *text);
  } else if (const auto* items = std::get_if<List>(&value_)) {
    out += '[';
    for (std::size_t i = 0; i < items->size(); ++i) {
      if (i > 0) out += ',';
      new_line(out, inner);
      (*items)[i].print(out, inner);
    }
    if (!items->empty()) new_line(out, indent);
    out += ']';
  } else if (const auto* members = std::get_if<Object>(&value_)) {
    out += '{';
    for (std::size_t i = 0; i < members->size(); ++i) {
      if (i > 0) out += ',';
      new_line(out, inner);
      print_string(out, (*members)[i].first);
      out += indent < 0 ? ":" : ": ";
      (*members)[i].second.print(out, inner);
    }
    if (!members->empty()) new_line(out, indent);
    out += '}';
  } else {
    out += "null";
  }
}

}  // namespace forestall::text
