// SPDX-License-Identifier: Apache-2.0
// Properties of every ranking, on many small random worlds. Small numbers on purpose: orders break
// at ties. Every failure prints its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "policy/rank.h"
#include "tests/policy/dice.h"
#include "tests/policy/pods.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

constexpr std::uint32_t kWorlds = 1'500;

constexpr std::array kResources{Resource::memory, Resource::ephemeral_storage, Resource::inodes,
                                Resource::pids};

RankBy any_ranking(Dice& dice, Signal signal) {
  RankBy by{.signal = signal, .layout = {}, .compat = {}};
  by.ranking = static_cast<Ranking>(dice.below(3));
  if (!dice.one_in(4)) by.layout = static_cast<FilesystemLayout>(dice.below(3));
  by.compat.inode_rank_subtracts_bytes = dice.one_in(2);
  return by;
}

std::optional<DiskUsage> any_usage(Dice& dice) {
  if (dice.one_in(6)) return std::nullopt;
  DiskUsage usage;
  if (!dice.one_in(6)) usage.used = Bytes{dice.below(6)};
  if (!dice.one_in(6)) usage.inodes = dice.below(6);
  return usage;
}

Pod any_pod(Dice& dice, const std::string& name) {
  Pod made = pod(name, {container("c")});
  if (dice.one_in(2)) made.priority = static_cast<std::int32_t>(dice.below(4) - 1);
  if (dice.one_in(2)) made.containers[0].requests.memory = binary(dice.below(8));
  if (dice.one_in(2)) made.containers[0].requests.ephemeral_storage = binary(dice.below(8));
  if (dice.one_in(2)) made.volumes.push_back(empty_dir("v"));
  return made;
}

WorkloadSample any_workload(Dice& dice, const std::string& name) {
  WorkloadSample sample = sample_of(any_pod(dice, name), Bytes{dice.below(8)});
  if (dice.one_in(4)) sample.workload.pod.reset();
  if (dice.one_in(4)) sample.workload.memory_request = Bytes{dice.below(8)};
  if (dice.one_in(4)) sample.workload.priority = static_cast<std::int32_t>(dice.below(4) - 1);
  if (dice.one_in(5)) sample.usage.reset();
  sample.processes = static_cast<std::uint64_t>(dice.below(4));
  if (dice.one_in(5)) sample.processes.reset();
  sample.scored = !dice.one_in(30);
  if (!dice.one_in(5)) sample.badness = WorkloadBadness{{1, 1}, dice.below(4) - 1};
  if (!dice.one_in(5)) sample.growth = kib(512 * dice.below(5));
  if (dice.one_in(5)) return sample;
  return with_statistics(sample, {container_sample("c", any_usage(dice), any_usage(dice))},
                         {{.name = "v", .usage = any_usage(dice).value_or(DiskUsage{})}});
}

std::vector<WorkloadSample> any_workloads(Dice& dice) {
  std::vector<WorkloadSample> workloads;
  const auto count = dice.below(10);
  for (std::int64_t i = 0; i < count; ++i) {
    workloads.push_back(any_workload(dice, std::string(1, static_cast<char>('a' + i))));
  }
  dice.shuffle(workloads);
  return workloads;
}

RankKey any_key(Dice& dice) {
  return {.measured = !dice.one_in(3),
          .exceeds_request = dice.one_in(2),
          .priority = static_cast<std::int32_t>(dice.below(3)),
          .usage = dice.below(3),
          .request = dice.below(3),
          .over_request = dice.below(3) - 1,
          .badness = dice.one_in(3) ? std::nullopt : std::optional(dice.below(3) - 1),
          .growth = dice.one_in(3) ? std::nullopt : std::optional(dice.below(3))};
}

// The chain of rules without the identity that breaks final ties.
std::weak_ordering by_rules(const RankKey& a, const RankKey& b, Resource resource,
                            Ranking ranking) {
  for (const RankRule& rule : rules_for(resource, ranking)) {
    const auto order = rule.compare(a, b);
    if (order != 0) return order;
  }
  return std::weak_ordering::equivalent;
}

std::vector<std::string> order_of(const std::vector<WorkloadSample>& workloads, const RankBy& by) {
  std::vector<std::string> paths;
  for (const Candidate& one : rank(workloads, by, Subject{}, Exclusions(workloads, {}))) {
    paths.push_back(one.sample.workload.path);
  }
  return paths;
}

std::ptrdiff_t place_of(const std::string& path, const std::vector<WorkloadSample>& workloads,
                        const RankBy& by) {
  const auto order = order_of(workloads, by);
  return std::find(order.begin(), order.end(), path) - order.begin();
}

TEST(RankPropertyTest, EachRuleAndEachChainIsAStrictWeakOrder) {
  std::size_t ties = 0;
  for (std::uint32_t seed = 0; seed < 20 * kWorlds; ++seed) {
    Dice dice(seed);
    const std::array keys{any_key(dice), any_key(dice), any_key(dice)};
    const auto& [a, b, c] = keys;
    const auto check = [&](auto compare) {
      EXPECT_TRUE(compare(a, a) == 0) << seed << ": not irreflexive";
      EXPECT_TRUE(compare(a, b) == (0 <=> compare(b, a))) << seed << ": not asymmetric";
      if (compare(a, b) < 0 && compare(b, c) < 0) {
        EXPECT_TRUE(compare(a, c) < 0) << seed;
      }
      if (compare(a, b) == 0 && compare(b, c) == 0) {
        EXPECT_TRUE(compare(a, c) == 0) << seed;
      }
    };
    for (const Resource resource : kResources) {
      const auto ranking = static_cast<Ranking>(seed % 3);
      for (const RankRule& rule : rules_for(resource, ranking)) check(rule.compare);
      check([&](const RankKey& x, const RankKey& y) { return by_rules(x, y, resource, ranking); });
      ties += by_rules(a, b, resource, ranking) == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(ties, kWorlds) << "too few ties to prove anything";
}

TEST(RankPropertyTest, EvictionOrderIsAStrictWeakOrderAndTotal) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    for (const Signal signal : kSignals) {
      Dice dice(seed);
      const RankBy by = any_ranking(dice, signal);
      const Resource resource = resource_of(signal);
      const auto any = [&] {
        const auto sample =
            any_workload(dice, std::string(1, static_cast<char>('a' + dice.below(3))));
        return Candidate{sample, rank_key(sample, by), Exclusion::none};
      };
      const Candidate a = any();
      const Candidate b = any();
      const Candidate c = any();
      const auto before = [&](const Candidate& x, const Candidate& y) {
        return evicted_before(x, y, resource, by.ranking);
      };
      EXPECT_FALSE(before(a, a)) << seed;
      EXPECT_FALSE(before(a, b) && before(b, a)) << seed;
      if (before(a, b) && before(b, c)) {
        EXPECT_TRUE(before(a, c)) << seed;
      }
      if (a.sample.workload.path != b.sample.workload.path) {
        EXPECT_TRUE(before(a, b) || before(b, a)) << seed;
      }
    }
  }
}

TEST(RankPropertyTest, TheOrderOfTheInputDoesNotMatter) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    auto workloads = any_workloads(dice);
    // As read from files: names without paths and cgroups.
    if (dice.one_in(2)) {
      for (WorkloadSample& each : workloads) {
        each.workload.path.clear();
        each.workload.cgroup = {};
      }
    }
    for (const Signal signal : kSignals) {
      const RankBy by = any_ranking(dice, signal);
      const auto before = rank(workloads, by, Subject{}, Exclusions(workloads, {}));
      auto shuffled = workloads;
      dice.shuffle(shuffled);
      EXPECT_EQ(before, rank(shuffled, by, Subject{}, Exclusions(shuffled, {}))) << seed;
    }
  }
}

void grow(Dice& dice, WorkloadSample& sample) {
  const std::int64_t more = dice.below(10);
  if (sample.usage) *sample.usage += Bytes{more};
  if (sample.processes) *sample.processes += static_cast<std::uint64_t>(more);
  if (!sample.statistics) return;
  for (ContainerSample& each : sample.statistics->containers) {
    for (auto* part : {&each.rootfs, &each.logs}) {
      if (!*part || !dice.one_in(2)) continue;
      (*part)->used = (*part)->used.value_or(Bytes{0}) + Bytes{more};
      (*part)->inodes = (*part)->inodes.value_or(0) + more;
    }
  }
}

// Changes one workload of each random world. Its place may move in the direction `sign` only.
void expect_moves(int sign,
                  const std::function<void(Dice&, WorkloadSample&, const RankBy&)>& change) {
  std::size_t moved = 0;
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    auto workloads = any_workloads(dice);
    if (workloads.empty()) continue;
    const RankBy by = any_ranking(
        dice,
        kSignals[static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(kSignals.size())))]);
    WorkloadSample& one = workloads[static_cast<std::size_t>(
        dice.below(static_cast<std::int64_t>(workloads.size())))];
    const auto before = place_of(one.workload.path, workloads, by);
    change(dice, one, by);
    const auto after = place_of(one.workload.path, workloads, by);
    EXPECT_GE((after - before) * sign, 0) << seed;
    moved += after == before ? 0 : 1;
  }
  EXPECT_GT(moved, kWorlds / 20) << "too few moves to prove anything";
}

TEST(RankPropertyTest, UsingMoreNeverMovesAWorkloadBack) {
  expect_moves(-1, [](Dice& dice, WorkloadSample& one, const RankBy&) { grow(dice, one); });
}

TEST(RankPropertyTest, AHigherPriorityNeverMovesAWorkloadForward) {
  expect_moves(1, [](Dice& dice, WorkloadSample& one, const RankBy& by) {
    one.workload.priority = rank_key(one, by).priority + static_cast<std::int32_t>(dice.below(3));
  });
}

}  // namespace
}  // namespace forestall::policy
