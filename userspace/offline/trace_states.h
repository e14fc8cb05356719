// SPDX-License-Identifier: Apache-2.0
// The states of a recorded cluster as files: which files make up a state, and of what time it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/diagnostic.h"

namespace forestall::cli {

struct RecordedState {
  std::int64_t time_ns = 0;        // CLOCK_REALTIME
  std::vector<std::string> files;  // in the order of their names
};

// The time with which a name begins: RFC 3339 with a zone, or Unix seconds, up to its end or to one
// of ".", "-" and "_". Nothing: another form.
[[nodiscard]] std::optional<std::int64_t> time_of_name(std::string_view name);

// The median of the times between states, in nanoseconds. 0: there are fewer than two states.
[[nodiscard]] std::int64_t usual_gap_of(const std::vector<RecordedState>& states);

// The states of files, and of directories with such files, or with directories of the files of a
// state. Files of the same time are one state. `max_gap_seconds`: the longest time from state to
// state; 0: three times the usual one. Errors are in `findings`, with the file.
[[nodiscard]] std::vector<RecordedState> list_states(const std::vector<std::string>& paths,
                                                     std::uint64_t max_gap_seconds,
                                                     text::Findings& findings);

}  // namespace forestall::cli
