// SPDX-License-Identifier: Apache-2.0
// Converts what the loop exports to events.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "base/clock.h"
#include "exports/event_broadcast.h"
#include "forestall/v1/event.pb.h"
#include "forestall/v1/record.pb.h"

namespace forestall::service {

using EventVisit = std::function<void(const v1::Event&)>;

// The events of a record: changed conditions, the decision or the kernel kill, and the outcome. A
// kill is recorded twice: the first record has its decision, the second its outcome. Accepts
// records of any version of the agent.
void events_of(const v1::Record& record, const EventVisit& visit);

// Keeps track of the met thresholds to report changes. Thread rule: one thread.
class EvaluationEvents {
 public:
  // The events of an evaluation: itself, and the thresholds crossed since the previous one.
  void report(const exports::EvaluationNote& note, const EventVisit& visit);
  // The crossed thresholds of a kill without an evaluation of its own: from the victim cache, or by
  // the watchdog or the guard.
  void report(const v1::Record& record, const EventVisit& visit);

 private:
  using ThresholdOfSubject =
      std::tuple<std::string, std::string, Duration>;  // signal, subject, grace
  std::map<ThresholdOfSubject, bool> met_;
};

// The kind of an event.
[[nodiscard]] v1::Event::Kind kind_of(const v1::Event& event);

}  // namespace forestall::service
