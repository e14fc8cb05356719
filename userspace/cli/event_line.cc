// SPDX-License-Identifier: Apache-2.0
#include "cli/event_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exports/record_sentence.h"
#include "messages/convert.h"
#include "model/duration.h"
#include "service/events.h"

namespace forestall::cli {
namespace {

EventKind kind_of(const Record& record, const v1::Event& event) {
  if (event.has_oom_kill()) return EventKind::oom_kill;
  if (event.has_outcome()) return EventKind::kill;
  if (event.has_condition()) return EventKind::condition;
  return record.decision.action == Action::kill ? EventKind::kill : EventKind::decision;
}

std::string sentence_of(const Record& record, const v1::Event& event) {
  if (event.has_oom_kill()) return exports::oom_kill_sentence(record);
  if (event.has_outcome()) return exports::outcome_sentence(record);
  if (!event.has_condition()) return exports::decision_sentence(record);
  const auto status = std::ranges::find_if(record.decision.conditions, [&](const auto& each) {
    return to_string(each.condition) == event.condition().type();
  });
  return exports::condition_sentence(*status);
}

std::string crossing_sentence(const v1::ThresholdEvent& crossing) {
  const auto signal = parse_signal(crossing.signal());
  if (!signal) return "a threshold on the unknown signal " + crossing.signal() + " was crossed";
  return exports::crossing_sentence(*signal, crossing.subject(), crossing.met(),
                                    crossing.available(), crossing.limit());
}

std::string run_sentence(const v1::RunEvent& run) {
  const v1::RecordingFacts& facts = run.facts();
  std::string text = fmt::format(
      "{} begins to record: version {}, pid {}, Linux {}",
      facts.recorder() == v1::RecordingFacts::SESSION ? "`forestall record`" : "the agent",
      facts.version(), facts.pid(), facts.kernel());
  if (run.has_unrecorded_ns()) {
    text += "; nothing is recorded of the " + brief(Duration(run.unrecorded_ns())) + " before";
  }
  return text;
}

std::string lost_sentence(const v1::LostEvent& lost) {
  if (lost.count() == 0) return fmt::format("events are missing here ({})", lost.where());
  return fmt::format("{} events or entries are missing here ({})", lost.count(), lost.where());
}

}  // namespace

const std::vector<std::string>& event_kinds() {
  static const std::vector<std::string> words{"kill",     "oom-kill", "crossing", "condition",
                                              "decision", "reload",   "run",      "lost"};
  return words;
}

void visit_lines(const std::shared_ptr<const Record>& record, const EventLineVisit& visit) {
  service::events_of(messages::to_proto(*record), [&](const v1::Event& event) {
    visit({kind_of(*record, event), event, record});
  });
}

EventLine line_of(const v1::Event& event) {
  if (event.has_threshold()) return {EventKind::crossing, event, nullptr};
  if (event.has_run()) return {EventKind::run, event, nullptr};
  if (event.has_reload()) return {EventKind::reload, event, nullptr};
  return {EventKind::lost, event, nullptr};
}

std::string sentence_of(const EventLine& line) {
  const v1::Event& event = line.event;
  if (line.record) return sentence_of(*line.record, event);
  if (event.has_threshold()) return crossing_sentence(event.threshold());
  if (event.has_run()) return run_sentence(event.run());
  if (event.has_reload()) return "another configuration is in force";
  return lost_sentence(event.lost());
}

}  // namespace forestall::cli
