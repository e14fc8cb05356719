// SPDX-License-Identifier: Apache-2.0
#include "intake/wall_time.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/clock.h"
#include "base/parse.h"
#include "model/duration.h"

namespace forestall::intake {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

// Takes the parts of a time from the front of a text. After a part that is not there, all fail.
class TimeScanner {
 public:
  explicit TimeScanner(std::string_view text) : rest_(text) {}

  bool skip(std::string_view any_of) {
    const bool there = !rest_.empty() && any_of.find(rest_.front()) != std::string_view::npos;
    if (there) rest_.remove_prefix(1);
    return there;
  }
  void expect(std::string_view any_of) { failed_ |= !skip(any_of); }
  // Exactly `digits` digits of a number up to `most`.
  std::int64_t number(std::size_t digits, std::int64_t most) {
    const auto value = rest_.size() < digits ? std::nullopt : parse_u64(rest_.substr(0, digits));
    const bool valid = value && static_cast<std::int64_t>(*value) <= most;
    failed_ |= !valid;
    if (!valid) return 0;
    rest_.remove_prefix(digits);
    return static_cast<std::int64_t>(*value);
  }
  // The digits of a fraction of a second, in nanoseconds.
  std::int64_t fraction() {
    const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    failed_ |= digits == 0 || digits > 9;
    std::int64_t value = failed_ ? 0 : number(digits, kNanosPerSecond);
    for (std::size_t i = digits; i < 9; ++i) value *= 10;
    return value;
  }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] bool complete() const { return !failed_ && rest_.empty(); }
  void fail() { failed_ = true; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

// Seconds since the epoch of the day.
std::int64_t take_day(TimeScanner& parts) {
  const auto year = static_cast<int>(parts.number(4, 9999));
  parts.expect("-");
  const auto month = static_cast<unsigned>(parts.number(2, 12));
  parts.expect("-");
  const auto day = static_cast<unsigned>(parts.number(2, 31));
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok()) parts.fail();
  return date.ok()
             ? std::int64_t{24 * 3600} * std::chrono::sys_days(date).time_since_epoch().count()
             : 0;
}

// Seconds to subtract.
std::int64_t take_zone(TimeScanner& parts) {
  if (parts.at_end() || parts.skip("Zz")) return 0;
  const bool west = parts.skip("-");
  if (!west) parts.expect("+");
  const std::int64_t hours = parts.number(2, 23);
  parts.expect(":");
  const std::int64_t seconds = hours * 3600 + parts.number(2, 59) * 60;
  return west ? -seconds : seconds;
}

}  // namespace

std::optional<std::int64_t> parse_wall_time(std::string_view text) {
  TimeScanner parts(text);
  std::int64_t seconds = take_day(parts);
  std::int64_t fraction = 0;
  if (!parts.at_end()) {
    parts.expect("Tt ");
    seconds += parts.number(2, 23) * 3600;
    parts.expect(":");
    seconds += parts.number(2, 59) * 60;
    if (parts.skip(":")) {
      seconds += parts.number(2, 60);  // 60: a leap second
      if (parts.skip(".")) fraction = parts.fraction();
    }
    seconds -= take_zone(parts);
  }
  if (!parts.complete()) return std::nullopt;
  std::int64_t ns = 0;
  if (__builtin_mul_overflow(seconds, kNanosPerSecond, &ns) ||
      __builtin_add_overflow(ns, fraction, &ns)) {
    return seconds < 0 ? INT64_MIN : INT64_MAX;
  }
  return ns;
}

Result<std::int64_t> parse_time(std::string_view text, std::int64_t now_ns) {
  if (const auto wall = parse_wall_time(text)) return *wall;
  const auto before = parse_duration(text);
  if (before && *before >= Duration::zero()) return now_ns - before->count();
  return error(
      fmt::format("expected a time before now like 10m or 2h, or a time like "
                  "2025-03-14T10:11:12Z or '2025-03-14 10:11' (UTC), found '{}'",
                  text));
}

std::string wall_time_text(std::int64_t ns) {
  time_t seconds = ns / kNanosPerSecond;
  if (ns % kNanosPerSecond < 0) --seconds;
  tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text.data(), (ns - seconds * kNanosPerSecond) / 1'000'000);
}

}  // namespace forestall::intake
