// SPDX-License-Identifier: Apache-2.0
#include "intake/ruleset_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/parse.h"
#include "intake/amounts.h"
#include "model/duration.h"

namespace forestall::intake {
namespace {

constexpr std::size_t kCgroupsMax = 256;

Result<double> parse_decimal_number(std::string_view text, double max) {
  const std::size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  const std::string_view part =
      dot == std::string_view::npos ? std::string_view("0") : text.substr(dot + 1);
  const auto units = parse_u64(whole);
  const auto decimals = part.size() <= 9 ? parse_u64(part) : std::nullopt;
  if (!units || !decimals) {
    return error(fmt::format("must be a decimal number such as 0.85, found '{}'", text));
  }
  const double number =
      static_cast<double>(*units) + static_cast<double>(*decimals) / std::pow(10.0, part.size());
  if (number > max) return error(fmt::format("must be at most {}, found '{}'", max, text));
  return number;
}

}  // namespace

Result<std::int64_t> parse_whole_seconds(std::string_view text, std::int64_t min,
                                         std::int64_t max) {
  const Duration duration =
      TRY(parse_duration_within(text, std::chrono::seconds(min), std::chrono::seconds(max)));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  if (seconds != duration) {
    return error(fmt::format("must be whole seconds, found '{}'", text));
  }
  return seconds.count();
}

Result<rulesets::SizeOrPercent> parse_size_or_percent(std::string_view text) {
  if (!text.ends_with('%')) {
    return rulesets::SizeOrPercent{false, TRY(parse_bytes(text)).count};
  }
  const auto percent = parse_u64(text.substr(0, text.size() - 1));
  if (!percent || *percent > 100) {
    return error(
        fmt::format("must be a quantity or a whole percentage from 0% to 100%, found '{}'", text));
  }
  return rulesets::SizeOrPercent{true, static_cast<std::int64_t>(*percent)};
}

Result<double> parse_rule_percent(std::string_view text) {
  if (text.ends_with('%')) {
    const auto number = parse_decimal_number(text.substr(0, text.size() - 1), 100);
    if (number) return *number;
  }
  return error(fmt::format("must be a percentage from 0% to 100% such as 12.5%, found '{}'", text));
}

Result<double> parse_ratio(std::string_view text) {
  return parse_decimal_number(text, 1000);
}

Result<rulesets::CgroupPattern> parse_cgroup_pattern(std::string_view text) {
  if (!text.starts_with('/') || text.find('\0') != std::string_view::npos) {
    return error(
        fmt::format("must be an absolute path of cgroups such as /batch.slice/*, found "
                    "'{}'",
                    text));
  }
  if (text.find(',') != std::string_view::npos) {
    return error(fmt::format("must be one path; list several ones, found '{}'", text));
  }
  rulesets::CgroupPattern pattern;
  std::string_view rest = text.substr(1);
  if (rest.empty()) return pattern;
  while (true) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view component = rest.substr(0, slash);
    if (component.empty() || component == "." || component == "..") {
      return error(fmt::format("must not have empty components, '.' or '..', found '{}'", text));
    }
    pattern.components.emplace_back(component);
    if (slash == rest.size()) return pattern;
    rest.remove_prefix(slash + 1);
  }
}

void RuleValues::cgroups(const google::protobuf::RepeatedPtrField<std::string>& given,
                         rulesets::CgroupPatterns& out, const std::string& key) {
  if (given.empty()) {
    return report_.missing(at_, key, "list globs of cgroups, such as [/batch.slice/*]");
  }
  if (static_cast<std::size_t>(given.size()) > kCgroupsMax) {
    return report_.error(path(key), fmt::format("'{}' has more than {} globs; combine them with "
                                                "wildcards",
                                                key, kCgroupsMax));
  }
  for (int i = 0; i < given.size(); ++i) {
    auto pattern =
        report_.take(parse_cgroup_pattern(given[i]), fmt::format("{}[{}]", path(key), i), key);
    if (pattern) out.push_back(std::move(*pattern));
  }
}

void RuleValues::seconds(bool given, const std::string& text, const std::string& key,
                         std::int64_t min, std::int64_t max, std::int64_t& out) {
  if (!given) return;
  const auto seconds = report_.take(parse_whole_seconds(text, min, max), path(key), key);
  if (seconds) out = *seconds;
}

void RuleValues::size(bool given, const std::string& text, const std::string& key,
                      rulesets::SizeOrPercent& out) {
  if (!given) return;
  report_.doubt(text, path(key));
  if (const auto size = report_.take(parse_size_or_percent(text), path(key), key)) out = *size;
}

std::size_t RuleValues::word(bool given, const std::string& text, const std::string& key,
                             const std::vector<std::string>& words) {
  if (!given) return 0;
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  report_.error(path(key), fmt::format("'{}': unknown word '{}'{}", key, text,
                                       messages::allowed_words(text, words)));
  return 0;
}

}  // namespace forestall::intake
