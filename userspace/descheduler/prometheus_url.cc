// SPDX-License-Identifier: Apache-2.0
#include "descheduler/prometheus_url.h"

#include <algorithm>
#include <utility>

#include "base/quotes.h"

namespace forestall::descheduler {
namespace {

using Problem = std::optional<std::string>;

constexpr std::size_t kNone = std::string_view::npos;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Removes the scheme with its colon. It stays empty where the text has none.
Problem take_scheme(std::string_view& rest, bool& found) {
  constexpr std::string_view kOthers = "+-.";
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (is_letter(c)) continue;
    if (is_digit(c) || kOthers.find(c) != kNone) {
      if (i == 0) return {};
      continue;
    }
    if (c != ':') return {};
    if (i == 0) return "missing protocol scheme";
    rest.remove_prefix(i + 1);
    found = true;
    return {};
  }
  return {};
}

Problem problem_of_escapes(std::string_view text) {
  for (std::size_t at = text.find('%'); at != kNone; at = text.find('%', at + 1)) {
    const std::string_view escape = text.substr(at, 3);
    if (escape.size() < 3 || !is_hex(escape[1]) || !is_hex(escape[2])) {
      return "invalid URL escape " + in_double_quotes(escape);
    }
  }
  return {};
}

// A host name: escapes only of bytes that are no ASCII.
Problem problem_of_name(std::string_view host) {
  constexpr std::string_view kRefused = " \\^`{|}#/?@";
  if (auto problem = problem_of_escapes(host)) return problem;
  for (std::size_t at = host.find('%'); at != kNone; at = host.find('%', at + 1)) {
    const std::string_view escape = host.substr(at, 3);
    if (escape[1] < '8' && escape != "%25") return "invalid URL escape " + in_double_quotes(escape);
  }
  const std::size_t bad = host.find_first_of(kRefused);
  if (bad == kNone) return {};
  return "invalid character " + in_double_quotes(host.substr(bad, 1)) + " in host name";
}

Problem problem_of_port(std::string_view port) {
  if (port.empty()) return {};
  if (port.front() == ':' && std::all_of(port.begin() + 1, port.end(), is_digit)) return {};
  return "invalid port " + in_double_quotes(port) + " after host";
}

Problem problem_of_host(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.rfind(']');
    if (end == kNone) return "missing ']' in host";
    return problem_of_port(host.substr(end + 1));
  }
  if (const std::size_t colon = host.rfind(':'); colon != kNone) {
    if (auto problem = problem_of_port(host.substr(colon))) return problem;
  }
  return problem_of_name(host);
}

bool is_userinfo(std::string_view text) {
  constexpr std::string_view kOthers = "-._:~!$&'()*+,;=%@";
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || is_digit(c) || kOthers.find(c) != kNone;
  });
}

Problem problem_of_authority(std::string_view authority) {
  const std::size_t at = authority.rfind('@');
  if (at == kNone) return problem_of_host(authority);
  if (auto problem = problem_of_host(authority.substr(at + 1))) return problem;
  const std::string_view user = authority.substr(0, at);
  return is_userinfo(user) ? problem_of_escapes(user) : "net/url: invalid userinfo";
}

// Without the fragment.
Problem problem_of_parts(std::string_view url) {
  const bool control = std::any_of(url.begin(), url.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (control) return "net/url: invalid control character in URL";
  std::string_view rest = url;
  bool has_scheme = false;
  if (auto problem = take_scheme(rest, has_scheme)) return problem;
  rest = rest.substr(0, rest.find('?'));
  if (!rest.starts_with('/')) {
    if (has_scheme) return {};  // opaque
    if (rest.substr(0, rest.find('/')).find(':') != kNone) {
      return "first path segment in URL cannot contain colon";
    }
  }
  if (rest.starts_with("//") && (has_scheme || !rest.starts_with("///"))) {
    rest.remove_prefix(2);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    if (auto problem = problem_of_authority(rest.substr(0, end))) return problem;
    rest.remove_prefix(end);
  }
  return problem_of_escapes(rest);
}

}  // namespace

std::optional<std::string> problem_of_url(std::string_view url) {
  const std::size_t hash = url.find('#');
  const std::string_view shown = url.substr(0, hash);
  const auto said = [](std::string_view parsed, const std::string& problem) {
    return "parse " + in_double_quotes(parsed) + ": " + problem;
  };
  if (const Problem problem = problem_of_parts(shown)) return said(shown, *problem);
  if (hash == kNone) return {};
  const Problem problem = problem_of_escapes(url.substr(hash + 1));
  return problem ? Problem(said(url, *problem)) : Problem();
}

}  // namespace forestall::descheduler
