// SPDX-License-Identifier: Apache-2.0
// The policy's state, for recordings that are read from the middle.
#include <algorithm>
#include <memory>
#include <utility>

#include "messages/convert_fields.h"
#include "messages/recording_entries.h"

namespace forestall::messages {
namespace {

v1::PolicyState::ThresholdId to_proto(const ThresholdId& id) {
  v1::PolicyState::ThresholdId out;
  out.set_threshold(static_cast<std::uint32_t>(id.threshold));
  out.set_cgroup_id(id.cgroup.inode);
  return out;
}

ThresholdId from_proto(const v1::PolicyState::ThresholdId& message) {
  return {message.threshold(), CgroupId{message.cgroup_id()}};
}

void put_derived(const PolicyState& state, v1::PolicyState& out) {
  out.set_has_derived(state.derived != nullptr);
  if (state.derived == nullptr) return;
  for (const DerivedThreshold& each : *state.derived) {
    v1::PolicyState::Derived& added = *out.add_derived();
    added.set_index(static_cast<std::uint32_t>(each.index));
    added.set_replaces(each.replaces);
    *added.mutable_threshold() = messages::to_proto(each.threshold);
  }
}

void put_readings(const ReadingTimes& read, v1::PolicyState& out) {
  for (const Signal signal : kSignals) {
    const auto& at = read.node[static_cast<std::size_t>(signal)];
    if (!at) continue;
    v1::PolicyState::NodeReading& added = *out.add_node_read();
    added.set_signal(std::string(to_string(signal)));
    added.set_at_ns(to_ns(*at));
  }
  for (const ReadingTimes::Watched& each : read.watched) {
    v1::PolicyState::WatchedReading& added = *out.add_watched_read();
    added.set_cgroup_id(each.cgroup.inode);
    added.set_at_ns(to_ns(each.at));
  }
}

v1::PolicyState::Series to_proto(const PolicyState::Series& series) {
  v1::PolicyState::Series out;
  *out.mutable_id() = to_proto(series.id);
  out.set_began_ns(to_ns(series.began));
  out.set_outside_bytes(series.outside.count);
  return out;
}

v1::PolicyState::Holdings to_proto(const PolicyState::Holdings& holdings) {
  v1::PolicyState::Holdings out;
  *out.mutable_id() = to_proto(holdings.id);
  out.set_at_ns(to_ns(holdings.at));
  out.set_outside_bytes(holdings.outside.count);
  for (const PolicyState::Holdings::Held& one : *holdings.held) {
    out.add_cgroup_ids(one.cgroup.inode);
    out.add_working_set_bytes(one.working_set.count);
  }
  return out;
}

void put_kills(const PolicyState& state, v1::PolicyState& out) {
  for (const PolicyState::Series& each : state.series) *out.add_series() = to_proto(each);
  for (const PolicyState::Holdings& each : state.holdings) *out.add_holdings() = to_proto(each);
  if (!state.decided) return;
  v1::PolicyState::Decided& decided = *out.mutable_decided();
  decided.set_victim_cgroup_id(state.decided->victim.inode);
  if (state.decided->series) *decided.mutable_series() = to_proto(*state.decided->series);
  if (state.decided->holdings) *decided.mutable_holdings() = to_proto(*state.decided->holdings);
}

void put_conditions(const PolicyState& state, v1::PolicyState& out) {
  for (std::size_t i = 0; i < kConditions.size(); ++i) {
    const PolicyState::Reported& reported = state.conditions[i];
    v1::PolicyState::Reported& added = *out.add_conditions();
    added.set_type(std::string(to_string(kConditions[i])));
    if (reported.last_met) added.set_last_met_ns(to_ns(*reported.last_met));
    added.set_status(reported.status);
  }
}

Result<void> read_derived(const v1::PolicyState& message, PolicyState& state) {
  if (!message.has_derived()) return {};
  auto derived = std::make_shared<std::vector<DerivedThreshold>>();
  for (const v1::PolicyState::Derived& each : message.derived()) {
    derived->push_back({each.index(), each.replaces(),
                        TRY(inside("derived", messages::from_proto(each.threshold())))});
  }
  state.derived = std::move(derived);
  return {};
}

PolicyState::Series from_proto(const v1::PolicyState::Series& message) {
  return {from_proto(message.id()), from_ns(message.began_ns()), Bytes{message.outside_bytes()}};
}

Result<PolicyState::Holdings> from_proto(const v1::PolicyState::Holdings& message) {
  if (message.cgroup_ids_size() != message.working_set_bytes_size()) {
    return error("holdings: not as many working sets as cgroups");
  }
  auto held = std::make_shared<std::vector<PolicyState::Holdings::Held>>();
  for (int i = 0; i < message.cgroup_ids_size(); ++i) {
    held->push_back({CgroupId{message.cgroup_ids(i)}, Bytes{message.working_set_bytes(i)}});
  }
  if (!std::ranges::is_sorted(*held, {}, &PolicyState::Holdings::Held::cgroup)) {
    return error("holdings: cgroups are not in ascending order");
  }
  return PolicyState::Holdings{from_proto(message.id()), from_ns(message.at_ns()),
                               Bytes{message.outside_bytes()}, std::move(held)};
}

Result<void> read_kills(const v1::PolicyState& message, PolicyState& state) {
  for (const v1::PolicyState::Series& each : message.series()) {
    state.series.push_back(from_proto(each));
  }
  for (const v1::PolicyState::Holdings& each : message.holdings()) {
    state.holdings.push_back(TRY(from_proto(each)));
  }
  if (!message.has_decided()) return {};
  state.decided = PolicyState::Decided{CgroupId{message.decided().victim_cgroup_id()}, {}, {}};
  if (message.decided().has_series())
    state.decided->series = from_proto(message.decided().series());
  if (message.decided().has_holdings()) {
    state.decided->holdings = TRY(from_proto(message.decided().holdings()));
  }
  return {};
}

Result<void> read_readings(const v1::PolicyState& message, PolicyState& state) {
  for (const v1::PolicyState::NodeReading& each : message.node_read()) {
    const auto signal = parse_signal(each.signal());
    if (!signal) return error("nodeRead: unknown '" + each.signal() + "'");
    state.read.node[static_cast<std::size_t>(*signal)] = from_ns(each.at_ns());
  }
  for (const v1::PolicyState::WatchedReading& each : message.watched_read()) {
    state.read.watched.push_back({CgroupId{each.cgroup_id()}, from_ns(each.at_ns())});
  }
  for (const v1::PolicyState::Reported& each : message.conditions()) {
    const auto condition = parse_condition(each.type());
    if (!condition) return error("conditions: unknown '" + each.type() + "'");
    PolicyState::Reported& reported = state.conditions[static_cast<std::size_t>(*condition)];
    reported.status = each.status();
    if (each.has_last_met_ns()) reported.last_met = from_ns(each.last_met_ns());
  }
  return {};
}

}  // namespace

v1::PolicyState to_proto(const PolicyState& state) {
  v1::PolicyState out;
  if (state.at) out.set_at_ns(to_ns(*state.at));
  if (state.layout) out.set_layout(to_enum<v1::FilesystemSamples::Layout>(*state.layout));
  put_derived(state, out);
  for (const PolicyState::Met& each : state.met) {
    v1::PolicyState::Met& added = *out.add_met();
    *added.mutable_id() = to_proto(each.id);
    added.set_since_ns(to_ns(each.since));
  }
  for (const ThresholdId& each : state.driving) *out.add_driving() = to_proto(each);
  put_readings(state.read, out);
  put_conditions(state, out);
  if (state.reclaim) {
    *out.mutable_reclaim()->mutable_id() = to_proto(state.reclaim->id);
    out.mutable_reclaim()->set_done(state.reclaim->done);
  }
  if (state.cleanup_until) out.set_cleanup_until_ns(to_ns(*state.cleanup_until));
  put_kills(state, out);
  if (state.held_until) out.set_held_until_ns(to_ns(*state.held_until));
  if (state.rules) *out.mutable_rules() = messages::to_proto(*state.rules);
  if (state.rule_kill) {
    out.mutable_rule_kill()->set_victim_cgroup_id(state.rule_kill->victim.inode);
    out.mutable_rule_kill()->set_ruleset(state.rule_kill->ruleset);
    out.mutable_rule_kill()->set_at_ns(to_ns(state.rule_kill->at));
  }
  return out;
}

Result<PolicyState> from_proto(const v1::PolicyState& message) {
  PolicyState state;
  if (message.has_at_ns()) state.at = from_ns(message.at_ns());
  if (message.has_layout()) {
    state.layout = TRY(
        from_enum<FilesystemLayout>(message.layout(), v1::FilesystemSamples::Layout_MAX, "layout"));
  }
  TRY(read_derived(message, state));
  for (const v1::PolicyState::Met& each : message.met()) {
    state.met.push_back({from_proto(each.id()), from_ns(each.since_ns())});
  }
  for (const v1::PolicyState::ThresholdId& each : message.driving()) {
    state.driving.push_back(from_proto(each));
  }
  TRY(read_readings(message, state));
  if (message.has_reclaim()) {
    state.reclaim =
        PolicyState::Reclaim{from_proto(message.reclaim().id()), message.reclaim().done()};
  }
  if (message.has_cleanup_until_ns()) state.cleanup_until = from_ns(message.cleanup_until_ns());
  TRY(read_kills(message, state));
  if (message.has_held_until_ns()) state.held_until = from_ns(message.held_until_ns());
  if (message.has_rules()) state.rules = messages::from_proto(message.rules());
  if (message.has_rule_kill()) {
    const v1::RuleState::Kill& kill = message.rule_kill();
    state.rule_kill = PolicyState::UnconfirmedRuleKill{CgroupId{kill.victim_cgroup_id()},
                                                       kill.ruleset(), from_ns(kill.at_ns())};
  }
  return state;
}

}  // namespace forestall::messages
