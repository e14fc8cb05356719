// SPDX-License-Identifier: Apache-2.0
// Events as `forestall events` prints them: each with the sentence that the log has for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "forestall/v1/event.pb.h"
#include "model/record.h"

namespace forestall::cli {

enum class EventKind : std::uint8_t {
  kill,      // decisions to kill, and how they ended; in a dry run too
  oom_kill,  // by the kernel
  crossing,  // of a threshold, in either direction
  condition,
  decision,  // every other decision
  reload,
  run,
  lost,
};
// The words for them, in the same order.
[[nodiscard]] const std::vector<std::string>& event_kinds();

struct EventLine {
  EventKind kind = EventKind::lost;
  std::string sentence;
  v1::Event event;
};
using EventLineVisit = std::function<void(const EventLine&)>;

// The events of a record. Its indices must be valid, as from_proto() checks.
void visit_lines(const Record& record, const EventLineVisit& visit);
// The line of an event that is not one of a record.
[[nodiscard]] EventLine line_of(const v1::Event& event);

}  // namespace forestall::cli
