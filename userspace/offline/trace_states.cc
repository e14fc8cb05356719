// SPDX-License-Identifier: Apache-2.0
#include "offline/trace_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/parse.h"
#include "intake/wall_time.h"

namespace forestall::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kUsualGaps = 3;

bool ends_time(std::string_view rest) {
  return rest.empty() || rest.front() == '.' || rest.front() == '-' || rest.front() == '_';
}

std::optional<std::int64_t> unix_time_of(std::string_view name) {
  constexpr std::size_t kDigitsMin = 9;  // since 1973; a year has four
  constexpr std::size_t kDigitsMax = 10;
  constexpr std::int64_t kSecondsMax = 9'000'000'000;
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  if (digits < kDigitsMin || digits > kDigitsMax || !ends_time(name.substr(digits))) {
    return std::nullopt;
  }
  const auto seconds = parse_i64(name.substr(0, digits));
  if (!seconds || *seconds > kSecondsMax) return std::nullopt;
  return *seconds * kSecond;
}

// With a zone: "2026-01-01T12:00:00Z", "2026-01-01T12:00:00.5+01:00".
std::optional<std::int64_t> rfc3339_time_of(std::string_view name) {
  constexpr std::size_t kZoneAt = 19;  // without a fraction
  constexpr std::size_t kOffset = 6;   // "+01:00"
  if (name.size() <= kZoneAt) return std::nullopt;
  std::size_t zone = kZoneAt;
  if (name[zone] == '.')
    zone = std::min(name.find_first_not_of("0123456789", zone + 1), name.size());
  if (zone == name.size()) return std::nullopt;
  const bool is_utc = name[zone] == 'Z' || name[zone] == 'z';
  if (!is_utc && name[zone] != '+' && name[zone] != '-') return std::nullopt;
  const std::size_t end = zone + (is_utc ? 1 : kOffset);
  if (end > name.size() || !ends_time(name.substr(end))) return std::nullopt;
  return intake::parse_wall_time(name.substr(0, end));
}

class StateLister {
 public:
  explicit StateLister(text::Findings& findings) : findings_(findings) {}

  void add(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::error_code failure;
    if (!fs::exists(path, failure)) {
      fail(path, "does not exist");
      return;
    }
    // A directory of a state has a time, one with states has none.
    const bool has_time = time_of_name(fs::path(path).filename().string()).has_value();
    if (has_time || !fs::is_directory(path, failure)) {
      add_named(path);
      return;
    }
    for (const std::string& each : entries_of(path)) add_named(each);
  }

  std::vector<RecordedState> take() && { return std::move(states_); }
  void fail(const std::string& path, std::string message) {
    findings_.errors.push_back({{path, std::nullopt}, std::move(message)});
  }

 private:
  // Sorted, without hidden ones.
  std::vector<std::string> entries_of(const std::string& path) {
    std::vector<std::string> entries;
    std::error_code failure;
    fs::directory_iterator all(path, failure);
    for (; !failure && all != fs::directory_iterator(); all.increment(failure)) {
      const std::string name = all->path().filename().string();
      if (!name.starts_with('.')) entries.push_back(all->path().string());
    }
    if (failure) fail(path, "cannot be read: " + failure.message());
    std::ranges::sort(entries);
    if (!failure && entries.empty()) fail(path, "has no files");
    return entries;
  }

  // A file of a state, or a directory with its files.
  void add_named(const std::string& path) {
    const auto time = time_of_name(fs::path(path).filename().string());
    if (!time) {
      fail(path,
           "its name does not begin with a time such as 2026-01-02T15:04:05Z or 1767366245 (Unix "
           "seconds)");
      return;
    }
    std::error_code failure;
    if (!fs::is_directory(path, failure)) {
      add_file(path, *time);
      return;
    }
    for (const std::string& each : entries_of(path)) add_file(each, *time);
  }

  void add_file(const std::string& path, std::int64_t time_ns) {
    std::error_code failure;
    // A FIFO would block.
    if (!fs::is_regular_file(path, failure)) return fail(path, "is not a regular file");
    if (states_.empty() || states_.back().time_ns != time_ns) states_.push_back({time_ns, {}});
    states_.back().files.push_back(path);
  }

  text::Findings& findings_;
  std::vector<RecordedState> states_;
};

bool is_earlier(const RecordedState& a, const RecordedState& b) {
  return a.time_ns < b.time_ns;
}

// Names of one directory may be of both forms, or of several zones.
std::vector<RecordedState> merged(std::vector<RecordedState> states) {
  std::ranges::stable_sort(states, is_earlier);
  std::vector<RecordedState> all;
  for (RecordedState& each : states) {
    if (all.empty() || all.back().time_ns != each.time_ns) {
      all.push_back(std::move(each));
      continue;
    }
    all.back().files.insert(all.back().files.end(), each.files.begin(), each.files.end());
  }
  return all;
}

std::uint64_t seconds_between(const RecordedState& a, const RecordedState& b) {
  return static_cast<std::uint64_t>((b.time_ns - a.time_ns) / kSecond);
}

void check_gaps(const std::vector<RecordedState>& states, std::uint64_t max_seconds,
                text::Findings& findings) {
  std::vector<std::uint64_t> gaps;
  for (std::size_t i = 1; i < states.size(); ++i) {
    gaps.push_back(seconds_between(states[i - 1], states[i]));
  }
  const auto usual = static_cast<std::uint64_t>(usual_gap_of(states) / kSecond);
  const std::uint64_t most =
      max_seconds > 0 ? max_seconds : kUsualGaps * std::max<std::uint64_t>(usual, 1);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (gaps[i] <= most) continue;
    findings.errors.push_back(
        {{states[i + 1].files.front(), std::nullopt},
         fmt::format("{} s after the state before it, of at most {} s: states are missing; "
                     "--max-gap {} plays the trace without them",
                     gaps[i], most, *std::ranges::max_element(gaps))});
    return;
  }
}

}  // namespace

std::optional<std::int64_t> time_of_name(std::string_view name) {
  if (const auto seconds = unix_time_of(name)) return seconds;
  return rfc3339_time_of(name);
}

std::int64_t usual_gap_of(const std::vector<RecordedState>& states) {
  std::vector<std::int64_t> gaps;
  for (std::size_t i = 1; i < states.size(); ++i) {
    gaps.push_back(states[i].time_ns - states[i - 1].time_ns);
  }
  if (gaps.empty()) return 0;
  std::ranges::sort(gaps);
  return gaps[(gaps.size() - 1) / 2];
}

std::vector<RecordedState> list_states(const std::vector<std::string>& paths,
                                       std::uint64_t max_gap_seconds, text::Findings& findings) {
  std::vector<RecordedState> states;
  for (const std::string& each : paths) {
    StateLister lister(findings);
    lister.add(each);
    std::vector<RecordedState> more = merged(std::move(lister).take());
    if (!more.empty() && !states.empty() && is_earlier(more.front(), states.back())) {
      findings.errors.push_back({{more.front().files.front(), std::nullopt},
                                 "is of an earlier time than " + states.back().files.front() +
                                     ", which is given before it"});
    }
    states.insert(states.end(), more.begin(), more.end());
  }
  states = merged(std::move(states));
  std::set<std::string> files;
  for (const RecordedState& state : states) {
    for (const std::string& each : state.files) {
      if (files.insert(each).second) continue;
      findings.errors.push_back({{each, std::nullopt}, "is given twice"});
    }
  }
  constexpr std::size_t kStatesMin = 2;
  if (findings.errors.empty() && states.size() < kStatesMin) {
    findings.errors.push_back(
        {{paths.front(), std::nullopt}, "a trace needs two states or more, of different times"});
  }
  if (findings.errors.empty()) check_gaps(states, max_gap_seconds, findings);
  return states;
}

}  // namespace forestall::cli
