// SPDX-License-Identifier: Apache-2.0
#include "offline/recorded_events.h"

#include <algorithm>
#include <memory>
#include <variant>

#include "base/saturating.h"
#include "exports/event_broadcast.h"
#include "messages/convert.h"
#include "messages/convert_fields.h"

namespace forestall::cli {
namespace {

v1::Event event_at(MonotonicTime at, std::int64_t wall_time_ns) {
  v1::Event event;
  event.set_at_ns(to_ns(at));
  *event.mutable_wall_time() = messages::to_timestamp(wall_time_ns);
  return event;
}

// Pods come and go: a new podList is no reload.
bool equal_settings(Config before, Config after) {
  before.known_pods.clear();
  after.known_pods.clear();
  return before == after;
}

// The record and its evaluation are separate entries of an untrusted file.
bool has_valid_indices(const Decision& decision) {
  if (decision.driving && *decision.driving >= decision.evidence.size()) return false;
  return std::ranges::all_of(decision.evictions, [&](const Eviction& each) {
    return each.candidate < decision.considered.size();
  });
}

}  // namespace

Result<void> RecordedEvents::visit(const EventLineVisit& visit) {
  for (;;) {
    auto item = TRY(input_.next());
    if (!item) break;
    any_ = true;
    if (auto* key = std::get_if<messages::KeyEntry>(&item->entry)) {
      take(std::move(*key), *item, visit);
    } else if (auto* evaluation = std::get_if<messages::EvaluationEntry>(&item->entry)) {
      TRY(take(std::move(*evaluation), visit));
    } else if (const auto* recorded = std::get_if<messages::RecordedEntry>(&item->entry)) {
      take(*recorded, visit);
    }
  }
  if (!any_ && !input_.follows()) return error("contains no entry that can be read");
  return {};
}

void RecordedEvents::take(messages::KeyEntry key, const replay::RecordingInput::InputEntry& item,
                          const EventLineVisit& visit) {
  v1::Event event = event_at(key.at, key.wall_time_ns);
  const std::uint64_t lost = input_.counts().lost + input_.counts().passed_over;
  if (item.new_run) {
    if (config_) ++run_;
    config_.reset();
    evaluations_.forget();
    crossings_ = {};
    v1::RunEvent& run = *event.mutable_run();
    *run.mutable_facts() = messages::to_proto(input_.facts());
    if (last_wall_ns_) {
      const std::int64_t gap = saturating_subtract(key.wall_time_ns, *last_wall_ns_);
      run.set_unrecorded_ns(std::max<std::int64_t>(gap, 0));
    }
    visit(line_of(event));
  } else if (item.after_loss) {
    event.mutable_lost()->set_count(lost - lost_);
    event.mutable_lost()->set_where("recording");
    visit(line_of(event));
  }
  lost_ = lost;
  if (config_ && !equal_settings(*config_, key.config)) {
    *event.mutable_reload()->mutable_config() = messages::to_proto(key.config);
    visit(line_of(event));
  }
  config_ = std::move(key.config);
}

Result<void> RecordedEvents::take(messages::EvaluationEntry evaluation,
                                  const EventLineVisit& visit) {
  Record& evaluated = evaluation.evaluated;
  evaluated.decision = TRY(messages::decode_decision(evaluation));
  evaluations_.add(evaluation.number, evaluated);
  last_wall_ns_ = evaluated.wall_time_ns;
  const auto visit_crossing = [&](const v1::Event& event) {
    if (event.has_threshold()) visit(line_of(event));
  };
  // A decision on the victim cache has not read all of the node.
  if (evaluated.prepared) {
    crossings_.report(messages::to_proto(evaluated), visit_crossing);
    return {};
  }
  exports::EvaluationNote note;
  note.woken = note.decided = evaluated.stages.decided;
  note.wall_time_ns = evaluated.wall_time_ns;
  note.crossed = true;
  note.evidence = std::move(evaluated.decision.evidence);
  crossings_.report(note, visit_crossing);
  return {};
}

void RecordedEvents::take(const messages::RecordedEntry& recorded, const EventLineVisit& visit) {
  std::uint64_t left_out = 0;
  const auto record = std::make_shared<const Record>(
      evaluations_.completed(recorded.evaluation, recorded.record, left_out));
  if (!evaluations_.has(recorded.evaluation) || !has_valid_indices(record->decision)) {
    ++incomplete_;
    return;
  }
  // A kill by the watchdog or the guard has no evaluation that shows the crossing.
  if (recorded.evaluation == 0) {
    crossings_.report(messages::to_proto(*record),
                      [&](const v1::Event& event) { visit(line_of(event)); });
  }
  visit_lines(record, visit);
}

}  // namespace forestall::cli
