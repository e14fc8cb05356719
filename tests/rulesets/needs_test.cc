// SPDX-License-Identifier: Apache-2.0
#include "rulesets/needs.h"

#include <gtest/gtest.h>

namespace forestall::rulesets {
namespace {

const CgroupPatterns kCgroups{{{"batch.slice", "*"}}};

std::vector<RuleNeed> needs_of_detector(PluginArguments arguments) {
  Ruleset ruleset;
  ruleset.groups = {{"g", {{"", std::move(arguments)}}}};
  return needs_of({ruleset});
}

std::vector<RuleNeed> needs_of_kill(KillBy by, bool descend = false,
                                    PreferenceSource preference = PreferenceSource::none) {
  Kill kill;
  kill.cgroups = kCgroups;
  kill.by = by;
  kill.recursive = descend;
  kill.preference = preference;
  Ruleset ruleset;
  ruleset.actions = {{"kill", kill}};
  return needs_of({ruleset});
}

TEST(RuleNeeds, EachDetectorReadsWhatItCompares) {
  const auto one = [](Items items) { return std::vector<RuleNeed>{{kCgroups, items, false}}; };
  PressureOver pressure;
  pressure.cgroups = kCgroups;
  EXPECT_EQ(needs_of_detector(pressure), one(Item::memory_pressure));
  pressure.resource = PressureResource::io;
  EXPECT_EQ(needs_of_detector(pressure), one(Item::io_pressure));
  pressure.resource = PressureResource::cpu;
  EXPECT_EQ(needs_of_detector(pressure), one(Item::cpu_pressure));
  MemoryAbove usage;
  usage.cgroups = kCgroups;
  EXPECT_EQ(needs_of_detector(usage), one(Item::usage));
  usage.anon = true;
  EXPECT_EQ(needs_of_detector(usage), one(Item::stat));
  usage.anon = false;
  usage.swap = true;
  EXPECT_EQ(needs_of_detector(usage), one(Item::swap));
  EXPECT_EQ(needs_of_detector(RateAbove{kCgroups, RateAbove::Of::usage, 1, 1}), one(Item::usage));
  EXPECT_EQ(needs_of_detector(RateAbove{kCgroups, RateAbove::Of::scans, 1, 1}), one(Item::stat));
  EXPECT_EQ(needs_of_detector(MemoryReclaim{kCgroups, 1}), one(Item::stat));
  EXPECT_EQ(needs_of_detector(DyingDescendants{kCgroups, 1}), one(Item::dying));
  EXPECT_EQ(needs_of_detector(Exists{kCgroups}), one({}));
  EXPECT_TRUE(needs_of_detector(AvailableBelow{}).empty()) << "the host is always read";
  EXPECT_TRUE(needs_of_detector(Always{}).empty());
}

TEST(RuleNeeds, AKillReadsItsOrderAndWhetherACandidateLives) {
  const auto items = [](KillBy by) { return needs_of_kill(by).at(0).items; };
  const Items any = Items(Item::candidate) | Item::usage;
  EXPECT_EQ(items(KillBy::memory_size_or_growth), any | Item::protection);
  EXPECT_EQ(items(KillBy::swap_usage), any | Item::swap);
  EXPECT_EQ(items(KillBy::pressure), any | Item::memory_pressure);
  EXPECT_EQ(items(KillBy::io_cost), any | Item::io);
  EXPECT_EQ(items(KillBy::pg_scan), any | Item::stat);
  EXPECT_TRUE(needs_of_kill(KillBy::pg_scan, true).at(0).descend);
  EXPECT_TRUE(needs_of_kill(KillBy::pg_scan, false, PreferenceSource::oomd)
                  .at(0)
                  .items.has(Item::preference));
}

}  // namespace
}  // namespace forestall::rulesets
