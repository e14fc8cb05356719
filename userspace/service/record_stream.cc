// SPDX-License-Identifier: Apache-2.0
#include "service/record_stream.h"

#include <algorithm>

#include "messages/convert.h"
#include "messages/json.h"

namespace forestall::service {

namespace {

using messages::to_proto;

// Its outcome may follow minutes later.
bool has_grace(const Decision& decision) {
  return std::ranges::any_of(decision.evictions, [](const Eviction& eviction) {
    return !eviction.at_once && eviction.grace > Duration::zero();
  });
}

}  // namespace

bool RecordStream::takes(const Record& record) {
  // The decision of a kernel kill is the last one before it, and has its own record.
  if (record.oom_kill || record.decision.action != Action::kill || record.outcome) return true;
  return has_grace(record.decision);
}

void RecordStream::write(const Record& record) {
  if (!takes(record)) return;
  out_.write_text(exports::LogLevel::info,
                  messages::to_json(to_proto(record), messages::JsonStyle::line));
}

void RecordStream::warm_up() {
  Record record;
  record.decision.evidence.emplace_back();
  record.decision.considered.emplace_back();
  record.decision.evictions.emplace_back();
  record.observation.watched.emplace_back();
  record.observation.workloads.emplace().emplace_back();
  record.outcome.emplace().attempts.emplace_back();
  (void)messages::to_json(to_proto(record), messages::JsonStyle::line);
}

}  // namespace forestall::service
