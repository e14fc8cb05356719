// SPDX-License-Identifier: Apache-2.0
// The state of rulesets. That of senpai is not recorded: the agent does not run it.
#include <utility>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

using rulesets::PluginState;
using std::chrono::nanoseconds;

void put(const rulesets::CgroupRef& ref, v1::RuleState::CgroupRef& out) {
  out.set_path(text::to_utf8(ref.path));
  out.set_cgroup_id(ref.id);
}

rulesets::CgroupRef from_proto(const v1::RuleState::CgroupRef& message) {
  return {message.path(), message.cgroup_id()};
}

void put(const rulesets::HookWait& wait, v1::RuleState::HookWait& out) {
  out.set_run(wait.run);
  out.set_hook(text::to_utf8(wait.hook));
  put(wait.victim, *out.mutable_victim());
  for (const rulesets::CgroupRef& each : wait.next) put(each, *out.add_next());
}

rulesets::HookWait from_proto(const v1::RuleState::HookWait& message) {
  rulesets::HookWait wait{message.run(), message.hook(), from_proto(message.victim()), {}};
  for (const v1::RuleState::CgroupRef& each : message.next()) {
    wait.next.push_back(from_proto(each));
  }
  return wait;
}

void put(const rulesets::TimedValue& value, v1::RuleState::TimedValue& out) {
  out.set_at_ns(value.time.count());
  out.set_value(value.value);
}

rulesets::TimedValue from_proto(const v1::RuleState::TimedValue& message) {
  return {nanoseconds(message.at_ns()), message.value()};
}

v1::RuleState::Plugin to_proto(const PluginState& plugin) {
  v1::RuleState::Plugin out;
  if (plugin.since) out.set_since_ns(plugin.since->count());
  out.set_last_avg10(plugin.last_avg10);
  if (plugin.last_scanned) out.set_last_scanned(*plugin.last_scanned);
  if (plugin.last_growth) out.set_last_growth_ns(plugin.last_growth->count());
  if (plugin.last_run) out.set_last_run(*plugin.last_run);
  for (const auto& [id, value] : plugin.pgscan) {
    v1::RuleState::Amount& added = *out.add_pgscan();
    added.set_cgroup_id(id);
    added.set_value(value);
  }
  for (const auto& [id, values] : plugin.values) {
    v1::RuleState::Series& added = *out.add_values();
    added.set_cgroup_id(id);
    for (const rulesets::TimedValue& each : values) {
      put(each, *added.add_values());
    }
  }
  for (const auto& [id, held] : plugin.held) {
    v1::RuleState::Held& added = *out.add_held();
    added.set_cgroup_id(id);
    added.set_path(text::to_utf8(held.path));
    added.set_before(held.before);
    added.set_written(held.written);
    added.set_until_ns(held.until.count());
  }
  if (plugin.hook) put(*plugin.hook, *out.mutable_hook());
  for (const auto& [id, each] : plugin.reclaimed) {
    v1::RuleState::Reclaimed& added = *out.add_reclaimed();
    added.set_cgroup_id(id);
    put(each.start, *added.mutable_start());
    put(each.last, *added.mutable_last());
    added.set_due_ns(each.due.count());
    if (each.backs_off_until) added.set_backs_off_until_ns(each.backs_off_until->count());
  }
  if (plugin.node_stall) put(*plugin.node_stall, *out.mutable_node_stall());
  return out;
}

PluginState from_proto(const v1::RuleState::Plugin& message) {
  PluginState plugin;
  if (message.has_since_ns()) plugin.since = nanoseconds(message.since_ns());
  plugin.last_avg10 = message.last_avg10();
  if (message.has_last_scanned()) plugin.last_scanned = message.last_scanned();
  if (message.has_last_growth_ns()) plugin.last_growth = nanoseconds(message.last_growth_ns());
  if (message.has_last_run()) plugin.last_run = message.last_run();
  for (const v1::RuleState::Amount& each : message.pgscan()) {
    plugin.pgscan[each.cgroup_id()] = each.value();
  }
  for (const v1::RuleState::Series& each : message.values()) {
    auto& values = plugin.values[each.cgroup_id()];
    for (const v1::RuleState::TimedValue& value : each.values()) {
      values.push_back(from_proto(value));
    }
  }
  for (const v1::RuleState::Held& each : message.held()) {
    plugin.held[each.cgroup_id()] = {each.path(), each.before(), each.written(),
                                     nanoseconds(each.until_ns())};
  }
  if (message.has_hook()) plugin.hook = from_proto(message.hook());
  for (const v1::RuleState::Reclaimed& each : message.reclaimed()) {
    rulesets::ReclaimedCgroup& added = plugin.reclaimed[each.cgroup_id()];
    added.start = from_proto(each.start());
    added.last = from_proto(each.last());
    added.due = nanoseconds(each.due_ns());
    if (each.has_backs_off_until_ns()) {
      added.backs_off_until = nanoseconds(each.backs_off_until_ns());
    }
  }
  if (message.has_node_stall()) plugin.node_stall = from_proto(message.node_stall());
  return plugin;
}

v1::RuleState::Ruleset to_proto(std::uint64_t id, const rulesets::RulesetState& ruleset) {
  v1::RuleState::Ruleset out;
  out.set_id(id);
  for (const auto& group : ruleset.groups) {
    v1::RuleState::Group& added = *out.add_groups();
    for (const PluginState& each : group) *added.add_plugins() = to_proto(each);
  }
  for (const PluginState& each : ruleset.actions) *out.add_actions() = to_proto(each);
  if (ruleset.pause_until) out.set_pause_until_ns(ruleset.pause_until->count());
  if (ruleset.suspended_at) {
    out.set_suspended_at(static_cast<std::uint32_t>(*ruleset.suspended_at));
  }
  out.set_group(text::to_utf8(ruleset.run.group));
  if (ruleset.run.hook_deadline) out.set_hook_deadline_ns(ruleset.run.hook_deadline->count());
  return out;
}

rulesets::RulesetState from_proto(const v1::RuleState::Ruleset& message) {
  rulesets::RulesetState ruleset;
  for (const v1::RuleState::Group& group : message.groups()) {
    auto& added = ruleset.groups.emplace_back();
    for (const v1::RuleState::Plugin& each : group.plugins()) added.push_back(from_proto(each));
  }
  for (const v1::RuleState::Plugin& each : message.actions()) {
    ruleset.actions.push_back(from_proto(each));
  }
  if (message.has_pause_until_ns()) ruleset.pause_until = nanoseconds(message.pause_until_ns());
  if (message.has_suspended_at()) ruleset.suspended_at = message.suspended_at();
  ruleset.run.group = message.group();
  if (message.has_hook_deadline_ns()) {
    ruleset.run.hook_deadline = nanoseconds(message.hook_deadline_ns());
  }
  return ruleset;
}

}  // namespace

v1::RuleState to_proto(const rulesets::RuleState& state) {
  v1::RuleState out;
  out.set_evaluations(state.evaluations);
  out.set_hook_runs(state.hook_runs);
  for (const auto& [id, each] : state.rulesets) *out.add_rulesets() = to_proto(id, each);
  for (const auto& [id, usage] : state.average_usage) {
    v1::RuleState::Amount& added = *out.add_average_usage();
    added.set_cgroup_id(id);
    added.set_value(usage);
  }
  for (const auto& [id, cost] : state.io_cost) {
    v1::RuleState::Cost& added = *out.add_io_cost();
    added.set_cgroup_id(id);
    added.set_value(cost);
  }
  return out;
}

rulesets::RuleState from_proto(const v1::RuleState& message) {
  rulesets::RuleState state;
  state.evaluations = message.evaluations();
  state.hook_runs = message.hook_runs();
  for (const v1::RuleState::Ruleset& each : message.rulesets()) {
    state.rulesets[each.id()] = from_proto(each);
  }
  for (const v1::RuleState::Amount& each : message.average_usage()) {
    state.average_usage[each.cgroup_id()] = each.value();
  }
  for (const v1::RuleState::Cost& each : message.io_cost()) {
    state.io_cost[each.cgroup_id()] = each.value();
  }
  return state;
}

}  // namespace forestall::messages
