// SPDX-License-Identifier: Apache-2.0
#include "replay/replay_input.h"

#include <algorithm>

#include "model/duration.h"

namespace forestall::replay {

Result<ReplayInput> ReplayInput::open(const std::string& path) {
  return ReplayInput(path == "-" ? "standard input" : path,
                     ParsedLines(TRY(LineReader::open(path))));
}

std::optional<std::string> ReplayInput::remark() const {
  if (!parsed_.cut()) return std::nullopt;
  return at_line(parsed_.line(), error("the file ends within this line; the line is ignored"))
      .message;
}

Result<std::optional<ParsedLine>> ReplayInput::next() {
  fill();
  if (window_.empty()) {
    if (failure_) return *std::exchange(failure_, std::nullopt);
    return std::optional<ParsedLine>();
  }
  ParsedLine line = std::move(window_.front());
  window_.pop_front();
  if (last_ && line.observation.at < *last_) {
    window_.clear();
    failure_.reset();
    finished_ = true;
    return at_line(line.line,
                   error("time goes back by " + to_string(*last_ - line.observation.at)));
  }
  last_ = line.observation.at;
  return std::optional(std::move(line));
}

// Reads until the first record of the window is certain to be the next one.
void ReplayInput::fill() {
  while (!finished_ && window_.size() <= kWindow && (window_.empty() || window_.back().of_record)) {
    auto parsed = parsed_.next();
    if (!parsed) {
      failure_ = at_line(parsed_.line(), parsed.error());
      finished_ = true;
    } else if (!*parsed) {
      finished_ = true;
    } else {
      order(std::move(**parsed));
    }
  }
}

void ReplayInput::order(ParsedLine line) {
  if (!line.of_record) return window_.push_back(std::move(line));
  const MonotonicTime at = line.observation.at;
  const auto place = std::upper_bound(
      window_.begin(), window_.end(), at,
      [](MonotonicTime t, const ParsedLine& each) { return t < each.observation.at; });
  const bool known = place == window_.begin() ? last_ == at : (place - 1)->observation.at == at;
  if (!known) window_.insert(place, std::move(line));
}

// The reader prefixes the problem with a column if it has one.
Error ReplayInput::at_line(std::uint64_t line, const Error& problem) const {
  const bool column = problem.message.find_first_of("0123456789") == 0;
  return {problem.code,
          name_ + ":" + std::to_string(line) + (column ? ":" : ": ") + problem.message};
}

}  // namespace forestall::replay
