// SPDX-License-Identifier: Apache-2.0
// Events in brief, from what the loop hands out.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "base/clock.h"
#include "exports/feed.h"
#include "forestall/v1/event.pb.h"
#include "forestall/v1/record.pb.h"

namespace forestall::api {

using EventVisit = std::function<void(const v1::Event&)>;

// What a record tells: conditions that changed, the decision or the kernel's kill, the outcome.
// A kill is on record twice; its decision is told with the first, its outcome with the second.
// REQUIRES: nothing; a record of an older or newer agent tells what is known of it.
void events_of(const v1::Record& record, const EventVisit& visit);

// Remembers which thresholds are met, to tell what changes. Thread rule: one thread.
class LookEvents {
 public:
  // What a look tells: itself, and the thresholds crossed since the last one.
  void visit(const exports::LookNote& note, const EventVisit& visit);
  // The thresholds crossed of a kill for which there was no look: one that was made ready, or a
  // shot of the watchdog's or the guard's.
  void visit(const v1::Record& record, const EventVisit& visit);

 private:
  using Subject = std::tuple<std::string, std::string, Duration>;  // signal, subject, grace
  std::map<Subject, bool> met_;
};

// Which kind an event is of.
[[nodiscard]] v1::Event::Kind kind_of(const v1::Event& event);

}  // namespace forestall::api
