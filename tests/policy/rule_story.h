// SPDX-License-Identifier: Apache-2.0
// Rulesets on one node: literal rulesets and cgroups, and what was tried.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/rules.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {

inline rulesets::CgroupPatterns under(const std::string& slice) {
  return {{{slice, "*"}}};
}

inline rulesets::Cgroup rule_cgroup(const std::string& path, std::optional<Bytes> usage) {
  rulesets::Cgroup cgroup;
  cgroup.path = path;
  cgroup.id = id_of(path).inode;
  if (usage) cgroup.current = usage->count;
  return cgroup;
}

// Kills the largest cgroup of `slice` by its usage, while one of them uses more than 100 MiB.
inline rulesets::Ruleset kills_in(const std::string& slice, const std::string& name = "r") {
  rulesets::MemoryAbove usage;
  usage.cgroups = under(slice);
  usage.threshold = {false, mib(100).count};
  rulesets::Kill kill;
  kill.cgroups = under(slice);
  kill.preference = rulesets::PreferenceSource::none;
  rulesets::Ruleset ruleset;
  ruleset.name = name;
  ruleset.groups = {{"big", {{"usage", usage}}}};
  ruleset.actions = {{"kill", kill}};
  return ruleset;
}

// A node of 1000 MiB with 500 MiB available, and cgroups below /s.
struct RuleStory : Story {
  explicit RuleStory(std::vector<rulesets::Ruleset> rules, std::vector<Threshold> thresholds = {},
                     bool dry_run = false, std::vector<rulesets::PrekillHook> hooks = {})
      : Story([&] {
          Config config = policy::config(std::move(thresholds));
          config.rules = std::move(rules);
          config.dry_run = dry_run;
          if (!hooks.empty()) config.hooks = std::move(hooks);
          return config;
        }()) {
    now.node = node(mib(1000), mib(500));
    now.workloads.emplace();
    cgroups = {rule_cgroup("/s/a", mib(200)), rule_cgroup("/s/b", mib(300)),
               rule_cgroup("/s/c", mib(50))};
  }

  std::string evaluate(double at) {
    rulesets::RuleObservation read;
    read.time = second(at).time_since_epoch();
    read.host.mem_total = mib(1000).count;
    read.host.mem_free = mib(500).count;
    read.cgroups = {rule_cgroup("/", {}), rule_cgroup("/s", mib(550))};
    read.cgroups.insert(read.cgroups.end(), cgroups.begin(), cgroups.end());
    read.spared = spared;
    read.incomplete = incomplete;
    now.rules = std::move(read);
    return Story::evaluate(at);
  }
  // Without new readings for the rulesets.
  std::string between(double at) {
    now.rules.reset();
    return Story::evaluate(at);
  }
  void kill_began(const std::string& path, double at, KillState state = KillState::released) {
    KillProgress begun = kill(path, state == KillState::in_flight ? mib(100) : Bytes{0}, state);
    begun.started = second(at);
    now.kills.push_back(begun);
  }
  [[nodiscard]] std::vector<std::string> tried() const {
    std::vector<std::string> tried;
    for (const RuleReport& ruleset : decision().rulesets) {
      for (const RuleActionReport& action : ruleset.actions) {
        for (const RuleAttempt& each : action.attempts) {
          tried.push_back(each.cgroup + " " + std::string(to_string(each.outcome)));
        }
      }
    }
    return tried;
  }

  std::vector<rulesets::Cgroup> cgroups;
  std::vector<std::string> spared;
  bool incomplete = false;
};

}  // namespace forestall::policy
