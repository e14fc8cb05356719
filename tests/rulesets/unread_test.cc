// SPDX-License-Identifier: Apache-2.0
#include "rulesets/unread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace forestall::rulesets {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const CgroupPatterns kBatch{{{"batch.slice"}}};

Cgroup batch_cgroup() {
  Cgroup cgroup;
  cgroup.path = "/batch.slice";
  return cgroup;
}

RuleObservation observe(Cgroup batch) {
  RuleObservation observed;
  Cgroup root;
  root.path = "/";
  observed.cgroups = {root, std::move(batch)};
  return observed;
}

Ruleset with_detector(std::string name, PluginArguments arguments) {
  Ruleset ruleset;
  ruleset.groups = {{"any", {{std::move(name), std::move(arguments)}}}};
  return ruleset;
}

Ruleset with_action(std::string name, PluginArguments arguments) {
  Ruleset ruleset;
  ruleset.actions = {{std::move(name), std::move(arguments)}};
  return ruleset;
}

std::vector<std::string_view> missing_of(const Ruleset& ruleset, const Cgroup& batch) {
  const auto all = unread_plugins(ruleset, observe(batch));
  return all.empty() ? std::vector<std::string_view>() : all.front().missing;
}

TEST(UnreadPlugins, AReadingThatNoMatchingCgroupHas) {
  PressureOver io;
  io.cgroups = kBatch;
  io.resource = PressureResource::io;
  const Ruleset ruleset = with_detector("pressure", io);
  Cgroup batch = batch_cgroup();
  batch.memory_pressure = PressureFile{};
  EXPECT_THAT(unread_plugins(ruleset, observe(batch)),
              ElementsAre(UnreadPlugin{"pressure", false, {"io.pressure"}}));
  batch.io_pressure = PressureFile{};
  EXPECT_THAT(unread_plugins(ruleset, observe(batch)), IsEmpty());
}

TEST(UnreadPlugins, OneOfTheMatchingCgroupsIsEnough) {
  const CgroupPatterns any{{{"*.slice"}}};
  RuleObservation observed = observe(batch_cgroup());
  Cgroup other;
  other.path = "/web.slice";
  other.current = 1;
  observed.cgroups.push_back(other);
  const Ruleset ruleset = with_detector("rate", RateAbove{any, RateAbove::Of::usage, 1, 1});
  EXPECT_THAT(unread_plugins(ruleset, observed), IsEmpty());
}

TEST(UnreadPlugins, KeysOfMemoryStatCountEachForItself) {
  Cgroup batch = batch_cgroup();
  batch.stat = MemoryStatReading{};  // as on cgroup v1
  const auto rate = [](RateAbove::Of of) {
    return with_detector("rate", RateAbove{kBatch, of, 1, 1});
  };
  EXPECT_THAT(missing_of(rate(RateAbove::Of::scans), batch), ElementsAre("pgscan of memory.stat"));
  EXPECT_THAT(missing_of(rate(RateAbove::Of::refaults), batch),
              ElementsAre("workingset_refault_* of memory.stat"));
  EXPECT_THAT(missing_of(with_detector("reclaim", MemoryReclaim{kBatch, 1}), batch),
              ElementsAre("pgscan of memory.stat"));
  Kill kill;
  kill.cgroups = kBatch;
  kill.by = KillBy::pg_scan;
  batch.current = 1;
  EXPECT_THAT(missing_of(with_action("kill", kill), batch), ElementsAre("pgscan of memory.stat"));
  batch.stat->pgscan = 0;
  EXPECT_THAT(missing_of(with_action("kill", kill), batch), IsEmpty());
  batch.stat->refaults = 0;
  EXPECT_THAT(missing_of(rate(RateAbove::Of::refaults), batch), IsEmpty());
}

TEST(UnreadPlugins, EachActionNeedsTheFileThatItSets) {
  Cgroup batch = batch_cgroup();
  batch.current = 1;
  ReclaimMemory reclaim;
  reclaim.cgroups = kBatch;
  Throttle throttle;
  throttle.cgroups = kBatch;
  Freeze freeze;
  freeze.cgroups = kBatch;
  EXPECT_THAT(missing_of(with_action("reclaim", reclaim), batch), ElementsAre("memory.reclaim"));
  EXPECT_THAT(missing_of(with_action("throttle", throttle), batch), ElementsAre("memory.high"));
  EXPECT_THAT(missing_of(with_action("freeze", freeze), batch), ElementsAre("cgroup.freeze"));
  batch.has_reclaim = true;
  batch.high = kNoLimit;
  batch.frozen = false;
  EXPECT_THAT(missing_of(with_action("reclaim", reclaim), batch), IsEmpty());
  EXPECT_THAT(missing_of(with_action("throttle", throttle), batch), IsEmpty());
  EXPECT_THAT(missing_of(with_action("freeze", freeze), batch), IsEmpty());
}

TEST(UnreadPlugins, NoMatchingCgroupIsReportedUnlessThatIsCompared) {
  const CgroupPatterns absent{{{"absent.slice"}}};
  MemoryAbove usage;
  usage.cgroups = absent;
  EXPECT_THAT(unread_plugins(with_detector("usage", usage), observe(batch_cgroup())),
              ElementsAre(UnreadPlugin{"usage", false, {}}));
  EXPECT_THAT(unread_plugins(with_detector("exists", Exists{absent}), observe(batch_cgroup())),
              IsEmpty());
}

TEST(UnreadPlugins, TheRootUsesTheHostsMemoryAndNothingFollowsFromAPart) {
  MemoryAbove usage;
  usage.cgroups = {CgroupPattern{}};
  EXPECT_THAT(unread_plugins(with_detector("usage", usage), observe(batch_cgroup())), IsEmpty());
  usage.cgroups = kBatch;
  RuleObservation part = observe(batch_cgroup());
  part.incomplete = true;
  EXPECT_THAT(unread_plugins(with_detector("usage", usage), part), IsEmpty());
}

}  // namespace
}  // namespace forestall::rulesets
