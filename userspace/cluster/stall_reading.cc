// SPDX-License-Identifier: Apache-2.0
#include "cluster/stall_reading.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/parse.h"
#include "base/unique_fd.h"

namespace forestall::cluster {
namespace {

constexpr std::string_view kTotal = "total=";

// Of "some avg10=0.00 avg60=0.00 avg300=0.00 total=12"; the total is in microseconds.
std::optional<Duration> total_of(std::string_view line, std::string_view kind) {
  if (next_word(line) != kind) return std::nullopt;
  std::string_view last;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) last = word;
  if (!last.starts_with(kTotal)) return std::nullopt;
  const auto total = parse_i64(last.substr(kTotal.size()));
  if (!total || *total < 0) return std::nullopt;
  return std::chrono::microseconds(*total);
}

}  // namespace

std::optional<StallReading> parse_stalls(std::string_view text) {
  const auto some = total_of(next_field(text, '\n'), "some");
  const auto full = total_of(next_field(text, '\n'), "full");
  if (!some || !full) return std::nullopt;
  return StallReading{*some, *full};
}

std::optional<StallReading> read_stalls(const std::string& path) {
  constexpr std::size_t kLongest = 512;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, kLongest> text{};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  if (length <= 0) return std::nullopt;
  return parse_stalls({text.data(), static_cast<std::size_t>(length)});
}

}  // namespace forestall::cluster
