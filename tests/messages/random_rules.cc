// SPDX-License-Identifier: Apache-2.0
// Random rulesets, what they decide on, and what they did.
#include <algorithm>

#include "forestall/v1/decision.pb.h"
#include "messages/random_model.h"

namespace forestall::test {
namespace {

using std::chrono::nanoseconds;

rulesets::CgroupPatterns random_patterns(Dice& dice) {
  rulesets::CgroupPatterns patterns{{{"batch.slice", "*"}}};
  if (dice.coin()) patterns.push_back({});  // the root
  if (dice.coin()) patterns.push_back({{"a[bc]?", "é"}});
  return patterns;
}

rulesets::SizeOrPercent random_size(Dice& dice) {
  if (dice.coin()) return {true, static_cast<std::int64_t>(dice.below(101))};
  return {false, static_cast<std::int64_t>(dice.below(1ULL << 50))};
}

std::int64_t random_seconds(Dice& dice) {
  return static_cast<std::int64_t>(dice.below(86401));
}

rulesets::Plugin random_detector(Dice& dice) {
  using namespace rulesets;
  switch (dice.below(8)) {
    case 0: {
      PressureOver pressure;
      pressure.cgroups = random_patterns(dice);
      pressure.resource = dice.one_of<rulesets::PressureResource>(3);
      pressure.some = dice.coin();
      pressure.measure = dice.one_of<PressureOver::Average>(4);
      if (pressure.measure == PressureOver::Average::window) pressure.window = random_seconds(dice);
      pressure.threshold = static_cast<double>(dice.below(1000)) / 7;
      pressure.duration = random_seconds(dice);
      pressure.falling_at_most_to =
          dice.maybe([&] { return static_cast<float>(dice.below(1000)) / 999; });
      pressure.weighted = dice.coin();
      return {"pressure", pressure};
    }
    case 1:
      return {"available", AvailableBelow{dice.coin(), random_size(dice), random_seconds(dice)}};
    case 2: {
      MemoryAbove usage;
      usage.cgroups = random_patterns(dice);
      usage.threshold = random_size(dice);
      usage.anon = dice.coin();
      usage.swap = !usage.anon && dice.coin();
      usage.duration = random_seconds(dice);
      return {"usage", usage};
    }
    case 3: {
      static const char* const kNames[] = {"growth", "scans", "refaults"};
      const auto of = dice.one_of<RateAbove::Of>(3);
      return {kNames[static_cast<std::size_t>(of)],
              RateAbove{random_patterns(dice), of, random_seconds(dice), random_seconds(dice)}};
    }
    case 4: return {"reclaim", MemoryReclaim{random_patterns(dice), random_seconds(dice)}};
    case 5:
      return {"dyingDescendants",
              DyingDescendants{random_patterns(dice), random_seconds(dice), dice.coin()}};
    case 6: {
      const bool absent = dice.coin();
      return {absent ? "absent" : "exists", Exists{random_patterns(dice), absent}};
    }
    default: return {"always", Always{dice.coin()}};
  }
}

rulesets::Plugin random_action(Dice& dice) {
  using namespace rulesets;
  switch (dice.below(8)) {
    case 0: {
      Kill kill;
      kill.by = dice.one_of<KillBy>(5);
      kill.cgroups = random_patterns(dice);
      kill.recursive = dice.coin();
      kill.post_action_delay = dice.maybe([&] { return random_seconds(dice); });
      kill.dry = dice.coin();
      kill.always_continue = dice.coin();
      kill.preference = dice.one_of<rulesets::PreferenceSource>(3);
      if (kill.by == KillBy::memory_size_or_growth) {
        kill.size_threshold = static_cast<std::int64_t>(dice.below(101));
        kill.growing_size_percentile = static_cast<std::int64_t>(dice.below(100));
        kill.min_growth_ratio = static_cast<double>(dice.below(1000)) / 7;
      }
      if (kill.by == KillBy::swap_usage) kill.swap_threshold = random_size(dice);
      if (kill.by == KillBy::pressure) kill.resource = dice.one_of<rulesets::PressureResource>(2);
      return {"kill", kill};
    }
    case 1:
      return {"reclaim", ReclaimMemory{random_patterns(dice), random_size(dice), dice.coin()}};
    case 2:
      return {"throttle", Throttle{random_patterns(dice), random_size(dice), random_seconds(dice),
                                   dice.coin()}};
    case 3: return {"freeze", Freeze{random_patterns(dice), random_seconds(dice), dice.coin()}};
    case 4: return {"restart", RestartUnit{dice.text(), random_seconds(dice), dice.coin()}};
    case 5: return {"log", LogAction{dice.text()}};
    case 6: {
      ProactiveReclaim reclaim;
      reclaim.cgroups = random_patterns(dice);
      reclaim.pressure = static_cast<double>(dice.below(1000)) / 7;
      reclaim.every = random_seconds(dice);
      reclaim.step = static_cast<double>(dice.below(1000)) / 7;
      reclaim.write_max = dice.integer();
      reclaim.floor = dice.integer();
      reclaim.back_off = random_seconds(dice);
      reclaim.node_pressure = static_cast<double>(dice.below(1000)) / 7;
      reclaim.swap_used_max = static_cast<double>(dice.below(1000)) / 7;
      reclaim.dry = dice.coin();
      return {std::string(kProactiveReclaim), reclaim};
    }
    default: return {"chain", Always{dice.coin()}};
  }
}

rulesets::PressureFile random_pressure(Dice& dice) {
  const auto line = [&] {
    return dice.maybe([&] {
      return rulesets::PressureLine{
          static_cast<float>(dice.below(10001)) / 100, static_cast<float>(dice.below(10001)) / 100,
          static_cast<float>(dice.below(10001)) / 100, dice.maybe_integer()};
    });
  };
  return {line(), line()};
}

rulesets::Cgroup random_rule_cgroup(Dice& dice, std::string path) {
  rulesets::Cgroup cgroup;
  cgroup.path = std::move(path);
  cgroup.id = dice.inode();
  cgroup.uid = dice.count();
  for (auto* each :
       {&cgroup.current, &cgroup.min, &cgroup.low, &cgroup.high, &cgroup.high_tmp, &cgroup.max,
        &cgroup.swap_current, &cgroup.swap_max, &cgroup.dying_descendants}) {
    *each = dice.maybe_integer();
  }
  cgroup.stat = dice.maybe([&] {
    return rulesets::MemoryStatReading{
        dice.maybe_integer(), dice.maybe_integer(), dice.maybe_integer(), dice.maybe_integer(),
        dice.maybe_integer(), dice.maybe_integer(), dice.maybe_integer()};
  });
  const auto pressure = [&] { return dice.maybe([&] { return random_pressure(dice); }); };
  cgroup.memory_pressure = pressure();
  cgroup.io_pressure = pressure();
  cgroup.cpu_pressure = pressure();
  cgroup.io = dice.maybe([&] {
    return dice.some([&] {
      return rulesets::DeviceIo{dice.text(),    dice.integer(), dice.integer(), dice.integer(),
                                dice.integer(), dice.integer(), dice.integer()};
    });
  });
  for (auto* each : {&cgroup.oom_group, &cgroup.populated, &cgroup.frozen}) {
    *each = dice.maybe([&] { return dice.coin(); });
  }
  cgroup.has_reclaim = dice.coin();
  cgroup.xattrs = dice.some([&] { return std::pair(dice.text(), std::string()); });
  return cgroup;
}

rulesets::PluginState random_plugin_state(Dice& dice) {
  rulesets::PluginState plugin;
  const auto time = [&] { return nanoseconds(dice.integer()); };
  plugin.since = dice.maybe(time);
  plugin.last_avg10 = static_cast<float>(dice.below(10001)) / 100;
  plugin.last_scanned = dice.maybe_integer();
  plugin.last_growth = dice.maybe(time);
  plugin.last_run = dice.maybe([&] { return dice.inode(); });
  if (dice.coin()) plugin.pgscan[dice.inode()] = dice.integer();
  if (dice.coin()) plugin.values[dice.inode()] = {{time(), dice.integer()}, {time(), 7}};
  plugin.hook = dice.maybe([&] {
    const auto cgroup = [&] { return rulesets::CgroupRef{dice.text(), dice.inode()}; };
    return rulesets::HookWait{dice.inode(), dice.text(), cgroup(), dice.some(cgroup)};
  });
  if (dice.coin()) plugin.held[dice.inode()] = {dice.text(), 1, dice.integer(), time()};
  const auto stall = [&] { return rulesets::TimedValue{time(), dice.integer()}; };
  if (dice.coin()) {
    rulesets::ReclaimedCgroup& added = plugin.reclaimed[dice.inode()];
    added = {stall(), stall(), time(), dice.maybe(time)};
  }
  plugin.node_stall = dice.maybe(stall);
  return plugin;
}

}  // namespace

rulesets::Ruleset random_ruleset(Dice& dice) {
  rulesets::Ruleset ruleset;
  ruleset.name = dice.text();
  ruleset.post_action_delay = random_seconds(dice);
  ruleset.prekill_hook_timeout = random_seconds(dice);
  ruleset.groups = dice.some([&] {
    return rulesets::DetectorGroup{dice.text(), dice.some([&] { return random_detector(dice); })};
  });
  ruleset.actions = dice.some([&] { return random_action(dice); });
  return ruleset;
}

rulesets::PrekillHook random_hook(Dice& dice) {
  rulesets::PrekillHook hook{dice.text(), random_patterns(dice), {}, {}, {}, {}};
  switch (dice.below(3)) {
    case 0:
      hook.program = "/" + dice.text();
      hook.arguments = dice.some([&] { return dice.text(); });
      break;
    case 1: hook.socket = "/" + dice.text(); break;
    default: hook.log = dice.text();
  }
  return hook;
}

rulesets::RuleObservation random_rule_observation(Dice& dice) {
  rulesets::RuleObservation observation;
  observation.time = nanoseconds(dice.integer());
  observation.host.mem_total = dice.maybe_integer();
  observation.host.mem_free = dice.maybe_integer();
  observation.host.mem_available = dice.maybe_integer();
  observation.host.swap_total = dice.maybe_integer();
  observation.host.swap_free = dice.maybe_integer();
  for (const char* path : {"/", "/a", "/a/b", "/é"}) {
    if (dice.coin()) observation.cgroups.push_back(random_rule_cgroup(dice, path));
  }
  observation.incomplete = dice.coin();
  observation.spared = dice.some([&] { return dice.text(); });
  observation.deferred = dice.some([&] { return dice.text(); });
  std::ranges::sort(observation.deferred);
  return observation;
}

rulesets::RuleState random_rule_state(Dice& dice) {
  rulesets::RuleState state;
  state.evaluations = dice.inode();
  state.hook_runs = dice.inode();
  const auto plugin = [&] { return random_plugin_state(dice); };
  for (std::uint64_t i = dice.below(3); i > 0; --i) {
    rulesets::RulesetState& ruleset = state.rulesets[dice.inode()];
    ruleset.groups = dice.some([&] { return dice.some(plugin); });
    ruleset.actions = dice.some(plugin);
    ruleset.pause_until = dice.maybe([&] { return nanoseconds(dice.integer()); });
    ruleset.suspended_at = dice.maybe([&] { return std::size_t{dice.count()}; });
    ruleset.run.group = dice.text();
    ruleset.run.hook_deadline = dice.maybe([&] { return nanoseconds(dice.integer()); });
  }
  if (dice.coin()) state.average_usage[dice.inode()] = dice.integer();
  if (dice.coin()) state.io_cost[dice.inode()] = static_cast<double>(dice.small());
  return state;
}

RuleReport random_rule_report(Dice& dice) {
  RuleReport report;
  report.name = dice.text();
  report.group = dice.maybe([&] { return dice.text(); });
  report.paused = dice.coin();
  report.resumed = dice.coin();
  report.actions = dice.some([&] {
    RuleActionReport action;
    action.name = dice.text();
    action.step = dice.one_of<ChainStep>(v1::RulesetRun::Step_MAX);
    action.ranking = dice.some([&] {
      return RuleRanked{dice.text(), dice.text(), dice.some([&] {
                          return std::pair(dice.text(), static_cast<double>(dice.small()));
                        })};
    });
    action.attempts = dice.some([&] {
      RuleAttempt attempt{dice.text(), dice.one_of<RuleOutcome>(v1::RulesetRun::Outcome_MAX),
                          dice.text(), dice.integer(), dice.text()};
      if (dice.coin()) {
        attempt.hook = "hook " + dice.text();
        attempt.hook_run = dice.inode();
        attempt.hook_until = dice.time();
      }
      return attempt;
    });
    return action;
  });
  report.log = dice.some([&] { return dice.text(); });
  return report;
}

}  // namespace forestall::test
