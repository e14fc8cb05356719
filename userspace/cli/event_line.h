// SPDX-License-Identifier: Apache-2.0
// Events as `forestall events` prints them: each with the sentence that the log has for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  v1::Event event;
  // Of which it is an event; null: of none. Its indices must be valid, as from_proto() checks.
  std::shared_ptr<const Record> record;
};
using EventLineVisit = std::function<void(EventLine)>;

// The events of a record.
void visit_lines(const std::shared_ptr<const Record>& record, const EventLineVisit& visit);
// The line of an event that is not one of a record.
[[nodiscard]] EventLine line_of(const v1::Event& event);
// Composed only for what is printed: a recording may have a million events.
[[nodiscard]] std::string sentence_of(const EventLine& line);

}  // namespace forestall::cli
