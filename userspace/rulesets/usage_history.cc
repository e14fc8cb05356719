// SPDX-License-Identifier: Apache-2.0
#include "rulesets/usage_history.h"

#include "rulesets/cgroup_pattern.h"

namespace forestall::rulesets {
namespace {

// Calls visit(const Kill&) for each kill action, wherever it stands.
template <typename Visit>
void each_kill(const Ruleset& ruleset, Visit visit) {
  const auto visit_kill = [&visit](const Plugin& plugin) {
    if (const auto* kill = std::get_if<Kill>(&plugin.arguments)) visit(*kill);
  };
  for (const DetectorGroup& group : ruleset.groups) {
    for (const Plugin& plugin : group.plugins) visit_kill(plugin);
  }
  for (const Plugin& plugin : ruleset.actions) visit_kill(plugin);
}

double cost_of(const std::vector<DeviceIo>& all, const std::vector<IoDevice>& devices) {
  double cost = 0;
  for (const IoDevice& device : devices) {
    for (const DeviceIo& io : all) {
      if (io.device != device.device) continue;
      const std::int64_t counts[] = {io.rios, io.rbytes, io.wios, io.wbytes, io.dios, io.dbytes};
      for (std::size_t i = 0; i < device.cost.size(); ++i) {
        cost += static_cast<double>(counts[i]) * device.cost[i];
      }
    }
  }
  return cost;
}

}  // namespace

void cover(const RuleObservation& observed, const Cgroup& cgroup, bool recursive,
           std::map<std::uint64_t, const Cgroup*>& all) {
  all.emplace(cgroup.id, &cgroup);
  if (!recursive || cgroup.oom_group.value_or(false)) return;
  for (const Cgroup* child : observed.children(cgroup)) cover(observed, *child, true, all);
}

// The average of a cgroup that is seen first begins at 0, as oomd's does: it counts as grown, by
// the factor 4. It decides the victim, so it is not corrected here.
void UsageHistory::update(const std::vector<RulesetInstance>& order) {
  std::map<std::uint64_t, const Cgroup*> sized;
  std::map<std::uint64_t, const Cgroup*> costed;
  for (const RulesetInstance& instance : order) {
    each_kill(*instance.ruleset, [&](const Kill& action) {
      const bool by_size = action.by == KillBy::memory_size_or_growth;
      if (!by_size && action.by != KillBy::io_cost) return;
      for (const Cgroup* each : matching(action.cgroups, scope_.observed)) {
        cover(scope_.observed, *each, action.recursive, by_size ? sized : costed);
      }
    });
  }
  std::map<std::uint64_t, std::int64_t> averages;
  for (const auto& [id, cgroup] : sized) {
    const auto usage = scope_.observed.usage(*cgroup);
    if (!usage) continue;
    const auto known = scope_.state.average_usage.find(id);
    const double before =
        known == scope_.state.average_usage.end() ? 0 : static_cast<double>(known->second);
    averages[id] = static_cast<std::int64_t>(0.75 * before + static_cast<double>(*usage) / 4);
  }
  scope_.state.average_usage = std::move(averages);
  std::map<std::uint64_t, double> costs;
  for (const auto& [id, cgroup] : costed) {
    if (!cgroup->io) continue;
    const double cost = cost_of(*cgroup->io, scope_.config.devices);
    const auto known = scope_.state.io_cost.find(id);
    io_rate_[id] = known == scope_.state.io_cost.end() ? 0 : cost - known->second;
    costs[id] = cost;
  }
  scope_.state.io_cost = std::move(costs);
}

std::optional<double> UsageHistory::growth(const Cgroup& cgroup) const {
  const auto usage = scope_.observed.usage(cgroup);
  const auto average = scope_.state.average_usage.find(cgroup.id);
  if (!usage || average == scope_.state.average_usage.end()) return std::nullopt;
  if (average->second == 0) return 0;
  return static_cast<double>(*usage) / static_cast<double>(average->second);
}

std::optional<double> UsageHistory::io_cost(const Cgroup& cgroup) const {
  const auto rate = io_rate_.find(cgroup.id);
  return rate == io_rate_.end() ? std::nullopt : std::optional(rate->second);
}

}  // namespace forestall::rulesets
