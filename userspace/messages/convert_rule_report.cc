// SPDX-License-Identifier: Apache-2.0
// What rulesets did in a decision.
#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

v1::RulesetRun::Action to_proto(const RuleActionReport& action) {
  v1::RulesetRun::Action out;
  out.set_name(text::to_utf8(action.name));
  out.set_step(to_enum<v1::RulesetRun::Step>(action.step));
  for (const RuleRanked& each : action.ranking) {
    v1::RulesetRun::Ranked& added = *out.add_ranking();
    added.set_cgroup(text::to_utf8(each.cgroup));
    added.set_preference(text::to_utf8(each.preference));
    for (const auto& [name, value] : each.key) {
      v1::RulesetRun::Key& key = *added.add_key();
      key.set_name(text::to_utf8(name));
      key.set_value(value);
    }
  }
  for (const RuleAttempt& each : action.attempts) {
    v1::RulesetRun::Attempt& added = *out.add_attempts();
    added.set_cgroup(text::to_utf8(each.cgroup));
    added.set_outcome(to_enum<v1::RulesetRun::Outcome>(each.outcome));
    added.set_file(text::to_utf8(each.file));
    added.set_value(each.value);
    added.set_unit(text::to_utf8(each.unit));
    if (each.hook.empty()) continue;
    added.set_hook(text::to_utf8(each.hook));
    added.set_hook_run(each.hook_run);
    added.set_hook_until_ns(to_ns(each.hook_until));
  }
  return out;
}

Result<RuleActionReport> from_proto(const v1::RulesetRun::Action& message) {
  RuleActionReport action;
  action.name = message.name();
  action.step = TRY(from_enum<ChainStep>(message.step(), v1::RulesetRun::Step_MAX, "step"));
  for (const v1::RulesetRun::Ranked& each : message.ranking()) {
    RuleRanked& added = action.ranking.emplace_back();
    added.cgroup = each.cgroup();
    added.preference = each.preference();
    for (const v1::RulesetRun::Key& key : each.key()) {
      added.key.emplace_back(key.name(), key.value());
    }
  }
  for (const v1::RulesetRun::Attempt& each : message.attempts()) {
    action.attempts.push_back(
        {each.cgroup(),
         TRY(from_enum<RuleOutcome>(each.outcome(), v1::RulesetRun::Outcome_MAX, "outcome")),
         each.file(), each.value(), each.unit(), each.hook(), each.hook_run(),
         from_ns(each.hook_until_ns())});
  }
  return action;
}

}  // namespace

v1::RulesetRun to_proto(const RuleReport& report) {
  v1::RulesetRun out;
  out.set_name(text::to_utf8(report.name));
  if (report.group) out.set_group(text::to_utf8(*report.group));
  out.set_paused(report.paused);
  out.set_resumed(report.resumed);
  for (const RuleActionReport& each : report.actions) *out.add_actions() = to_proto(each);
  for (const std::string& line : report.log) out.add_log(text::to_utf8(line));
  return out;
}

Result<RuleReport> from_proto(const v1::RulesetRun& message) {
  RuleReport report;
  report.name = message.name();
  if (message.has_group()) report.group = message.group();
  report.paused = message.paused();
  report.resumed = message.resumed();
  TRY(read_each(message.actions(), report.actions, "actions",
                [](const v1::RulesetRun::Action& each) { return from_proto(each); }));
  report.log.assign(message.log().begin(), message.log().end());
  return report;
}

}  // namespace forestall::messages
