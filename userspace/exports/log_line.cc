// SPDX-License-Identifier: Apache-2.0
#include "exports/log_line.h"

#include <algorithm>
#include <iterator>

namespace forestall::exports {
namespace {

bool is_plain(char c) {
  return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
}

// Names of cgroups and processes are untrusted: characters that could end the line, move the cursor
// or imitate another field are escaped.
void append_quoted(std::string& out, std::string_view value) {
  out += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

LogLine& LogLine::field(std::string_view key, std::string_view value) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_plain)) return raw(key, value);
  std::string quoted;
  append_quoted(quoted, value);
  return raw(key, quoted);
}

LogLine& LogLine::raw(std::string_view key, std::string_view value) {
  if (!text_.empty()) text_ += ' ';
  text_.append(key).append("=").append(value);
  return *this;
}

}  // namespace forestall::exports
