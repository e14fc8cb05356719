// SPDX-License-Identifier: Apache-2.0
#include "offline/refusal.h"

#include <optional>
#include <string_view>

#include "base/parse.h"

namespace forestall::cli {
namespace {

// Removes "LINE:COLUMN: " from the begin of `text`.
std::optional<text::Position> take_position(std::string_view& text) {
  std::string_view rest = text;
  const auto line = parse_u64(next_field(rest, ':'));
  const auto column = parse_u64(next_field(rest, ':'));
  if (!line || !column || !rest.starts_with(' ')) return std::nullopt;
  text = rest.substr(1);
  return text::Position{static_cast<std::uint32_t>(*line), static_cast<std::uint32_t>(*column)};
}

}  // namespace

text::Finding finding_in(const std::string& path, const Error& failure) {
  const std::string text = failure.text();
  std::string_view message = text;
  text::Finding found{{path, std::nullopt}, {}};
  if (message.starts_with(path + ":")) {
    message.remove_prefix(path.size() + 1);
    found.origin.at = take_position(message);
    if (message.starts_with(' ')) message.remove_prefix(1);
  }
  found.message = std::string(message);
  return found;
}

}  // namespace forestall::cli
