// SPDX-License-Identifier: Apache-2.0
// The section `reclaim` of the configuration; tests/data/config/refused.txt has what it refuses.
#include "intake/proactive_reclaim_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config_text.h"

namespace forestall::intake {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LoadedConfig load_reclaim(const std::string& text) {
  auto loaded = test::load_text(text, [](const std::string& path) -> Result<std::string> {
    return Error{ENOENT, path};
  });
  EXPECT_TRUE(loaded) << loaded.error().text();
  return loaded ? *std::move(loaded) : LoadedConfig();
}

const rulesets::ProactiveReclaim& only_action(const rulesets::Ruleset& ruleset) {
  EXPECT_EQ(ruleset.actions.size(), 1U);
  EXPECT_EQ(ruleset.actions.at(0).name, rulesets::kProactiveReclaim);
  return std::get<rulesets::ProactiveReclaim>(ruleset.actions.at(0).arguments);
}

TEST(ProactiveReclaimConfig, EachItemIsARulesetThatAlwaysFires) {
  const LoadedConfig loaded = load_reclaim(
      "reclaim:\n"
      "- {name: batch, cgroups: [/batch.slice/*]}\n"
      "- {name: all, cgroups: [/a, /b], pressure: 0.5%, every: 1m, step: 2.5%, writeMax: 1Mi,\n"
      "   floor: 1Gi, backOff: 1h, nodePressure: 20%, swapUsedMax: 0%, dryRun: true}\n");
  EXPECT_THAT(loaded.rulesets, IsEmpty()) << "those of the section come after them";
  ASSERT_EQ(loaded.reclaim.size(), 2U);
  const rulesets::Ruleset& batch = loaded.reclaim[0];
  EXPECT_EQ(batch.name, "reclaim:batch");
  EXPECT_THAT(batch.groups,
              ElementsAre(rulesets::DetectorGroup{"always", {{"always", rulesets::Always{true}}}}));
  rulesets::ProactiveReclaim wanted;
  wanted.cgroups = {{{"batch.slice", "*"}}};
  EXPECT_EQ(only_action(batch), wanted) << "defaults";
  wanted = {};
  wanted.cgroups = {{{"a"}}, {{"b"}}};
  wanted.pressure = 0.5;
  wanted.every = 60;
  wanted.step = 2.5;
  wanted.write_max = 1 << 20;
  wanted.floor = 1LL << 30;
  wanted.back_off = 3600;
  wanted.node_pressure = 20;
  wanted.swap_used_max = 0;
  wanted.dry = true;
  EXPECT_EQ(only_action(loaded.reclaim[1]), wanted);
}

TEST(ProactiveReclaimConfig, ARulesetMayHaveItAsAnAction) {
  const LoadedConfig loaded = load_reclaim(
      "rulesets:\n- name: r\n  detectors: [{name: g, all: [{exists: [/a]}]}]\n"
      "  actions: [{proactiveReclaim: {cgroups: [/b], floor: 0}}]\n");
  ASSERT_EQ(loaded.rulesets.size(), 1U);
  rulesets::ProactiveReclaim wanted;
  wanted.cgroups = {{{"b"}}};
  wanted.floor = 0;
  EXPECT_EQ(only_action(loaded.rulesets[0]), wanted);
  EXPECT_THAT(loaded.not_run_by_agent, IsEmpty());
}

// An agent there refuses to start with these, and `doctor` shows them.
TEST(ProactiveReclaimConfig, OnCgroupV1ItIsRefusedWithThePlace) {
  const LoadedConfig loaded = load_reclaim(
      "reclaim:\n- {name: a, cgroups: [/a]}\n"
      "rulesets:\n- name: r\n  detectors: [{name: g, all: [{exists: [/a]}]}]\n"
      "  actions: [{log: x}, {proactiveReclaim: {cgroups: [/b]}}]\n");
  const std::string why =
      "cgroup v1 has no memory.reclaim, so memory cannot be reclaimed proactively; remove it";
  EXPECT_THAT(loaded.refused_on_v1, ElementsAre("config.yaml:2:3: 'reclaim': " + why,
                                                "config.yaml:6:42: 'proactiveReclaim': " + why));
  EXPECT_THAT(load_reclaim("dryRun: true\n").refused_on_v1, IsEmpty());
}

}  // namespace
}  // namespace forestall::intake
