// SPDX-License-Identifier: Apache-2.0
// Properties that hold in every world, on many small random ones. Small numbers on purpose: orders
// break at ties, nesting and repeated kills. Every failure prints its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/parse.h"
#include "policy/credit.h"
#include "policy/deadlines.h"
#include "policy/rank.h"
#include "policy/shortlist.h"
#include "policy/step.h"
#include "tests/policy/any_world.h"
#include "tests/policy/dice.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

constexpr std::uint32_t kWorlds = 3'000;

// The state after up to three evaluations of other worlds, or of this one, before it.
State any_state(Dice& dice, const Config& config, const Observation& observation) {
  State state;
  for (auto count = dice.below(4); count > 0; --count) {
    Observation before = dice.one_in(2) ? observation : any_observation(dice, config);
    before.at = observation.at - std::chrono::seconds(10 * count);
    state = step(config, state, before).state;
  }
  return state;
}

TEST(PropertyTest, TheOrderOfTheInputDoesNotMatter) {
  std::size_t kills = 0;
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    Observation observation = any_observation(dice, config);
    const State state = any_state(dice, config, observation);
    const Step before = step(config, state, observation);
    if (observation.workloads) dice.shuffle(*observation.workloads);
    dice.shuffle(observation.kills);
    const Step after = step(config, state, observation);
    EXPECT_EQ(before.decision, after.decision) << seed;
    EXPECT_EQ(before.state, after.state) << seed;
    kills += before.decision.action == Action::kill ? 1 : 0;
  }
  EXPECT_GT(kills, kWorlds / 10) << "the worlds are too quiet to prove anything";
}

TEST(PropertyTest, ASeriesLastsUntilLimitAndMinimumReclaimAreThere) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Bytes limit{1 + dice.below(40)};
    const Bytes reclaim{dice.below(20)};
    const Config config = policy::config({hard(Signal::memory_available, limit, reclaim)});
    State state;
    bool in_series = false;
    for (int i = 0; i < 40; ++i) {
      Observation observation;
      observation.at = second(i);
      const Bytes available{dice.below(70)};
      observation.node = node({100}, available);
      if (dice.one_in(3)) observation.kills = {kill("/a", {dice.below(30)})};
      in_series = available < (in_series ? limit + reclaim : limit);
      const Step now = step(config, state, observation);
      state = now.state;
      EXPECT_EQ(!state.driving.empty(), in_series) << seed << " step " << i;
      if (observation.kills.empty()) {
        EXPECT_EQ(now.decision.evidence[0].met, in_series) << seed << " step " << i;
      }
    }
  }
}

void check_victim(std::uint32_t seed, const Config& config, const Observation& observation,
                  const Decision& decision, bool resumed) {
  ASSERT_TRUE(decision.driving.has_value()) << seed;
  const Evidence& evidence = decision.evidence[*decision.driving];
  const WorkloadSample& victim = decision.considered[*decision.victim()].sample;
  EXPECT_TRUE(resumed || (evidence.met && evidence.driving)) << seed;
  EXPECT_LT(victim.workload.priority.value_or(0), kCriticalPriority) << seed;
  EXPECT_NE(victim.processes, std::optional<std::uint64_t>(0)) << seed;
  const Eviction& eviction = decision.evictions[0];
  EXPECT_FALSE(eviction.at_once && !evidence.threshold.hard()) << seed;
  EXPECT_FALSE(eviction.at_once && !config.compat.hard_at_once) << seed;
  EXPECT_FALSE(eviction.message.empty()) << seed;
  if (filesystem_of(evidence.threshold.signal)) {
    EXPECT_EQ(victim.workload.kind, WorkloadKind::pod) << seed;
    EXPECT_TRUE(observation.disk_usage_read) << seed;
  }
  if (evidence.cgroup != CgroupId{}) {
    // Evicts the surrounding cgroup only when it is empty, and then only that.
    const bool inside = path_is_within(victim.workload.path, evidence.subject);
    EXPECT_TRUE(inside || path_is_within(evidence.subject, victim.workload.path)) << seed;
    EXPECT_TRUE(inside || decision.considered.size() == 1) << seed;
  }
  for (const WorkloadSample& other : *observation.workloads) {
    if (other.workload.protection == Protection::none) continue;
    EXPECT_FALSE(path_is_within(other.workload.path, victim.workload.path)) << seed;
  }
  for (const KillProgress& kill : observation.kills) {
    if (kill.cgroup != victim.workload.cgroup || kill.state == KillState::released) continue;
    EXPECT_EQ(kill.state, KillState::terminating) << seed;
    EXPECT_TRUE(evidence.threshold.hard()) << seed << ": only a hard one ends a grace period";
  }
  for (std::size_t i = 0; i < *decision.victim(); ++i) {
    EXPECT_NE(decision.considered[i].exclusion, Exclusion::none) << seed << ": not the first";
  }
}

TEST(PropertyTest, NeverKillsExcludedWorkloads) {
  std::size_t kills = 0;
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    const Observation observation = any_observation(dice, config);
    const State state = any_state(dice, config, observation);
    const Step now = step(config, state, observation);
    ASSERT_EQ(now.decision.action == Action::kill, now.decision.victim().has_value()) << seed;
    if (!now.decision.victim()) continue;
    ++kills;
    check_victim(seed, config, observation, now.decision, state.reclaim.has_value());
  }
  EXPECT_GT(kills, kWorlds / 10) << "the worlds are too quiet to prove anything";
}

TEST(PropertyTest, CreditNeverExceedsTheUsage) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    const Observation observation = any_observation(dice, config);
    Bytes held;
    for (const KillProgress& kill : observation.kills) {
      if (kill.state == KillState::in_flight) held += kill.remaining;
    }
    for (const Evidence& evidence : step(config, {}, observation).decision.evidence) {
      EXPECT_GE(evidence.pending_release, 0) << seed;
      EXPECT_LE(evidence.pending_release, held.count) << seed;
      EXPECT_LE(evidence.available + evidence.pending_release, evidence.capacity) << seed;
    }
  }
}

TEST(PropertyTest, DecisionsAreWellFormed) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    const Observation observation = any_observation(dice, config);
    const State state = any_state(dice, config, observation);
    const Step now = step(config, state, observation);
    const Decision& decision = now.decision;
    EXPECT_EQ(now.decision, step(config, state, observation).decision) << seed;
    EXPECT_TRUE(std::is_sorted(now.state.driving.begin(), now.state.driving.end())) << seed;
    EXPECT_TRUE(std::is_partitioned(decision.evidence.begin(), decision.evidence.end(),
                                    [](const Evidence& one) { return one.met; }))
        << seed;
    EXPECT_EQ(decision.reason == Reason::no_data,
              decision.evidence.empty() && decision.action == Action::none)
        << seed;
    EXPECT_EQ(decision.action == Action::inspect, decision.reason == Reason::workloads_unread ||
                                                      decision.reason == Reason::disk_usage_unread)
        << seed;
    if (observation.workloads && observation.disk_usage_read) {
      EXPECT_NE(decision.action, Action::inspect) << seed;
    }
    for (const Evidence& one : decision.evidence) {
      EXPECT_FALSE(one.driving && !one.first_met) << seed;
      EXPECT_FALSE(one.met && !one.first_met) << seed;
      EXPECT_FALSE(one.first_met && *one.first_met > observation.at) << seed;
    }
  }
}

TEST(PropertyTest, ConsideredAreInEvictionOrder) {
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    const Observation observation = any_observation(dice, config);
    const Decision decision =
        step(config, any_state(dice, config, observation), observation).decision;
    if (!decision.driving) continue;
    const Resource resource = resource_of(decision.evidence[*decision.driving].threshold.signal);
    EXPECT_TRUE(std::is_sorted(decision.considered.begin(), decision.considered.end(),
                               [&](const Candidate& a, const Candidate& b) {
                                 return evicted_before(a, b, resource, config.ranking);
                               }))
        << seed;
  }
}

// A reported condition was met within the transition period; an unreported one was not.
TEST(PropertyTest, ConditionsNeverFallBeforeTheirTime) {
  std::size_t fallen = 0;
  for (std::uint32_t seed = 0; seed < kWorlds / 10; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    State state;
    std::array<std::optional<MonotonicTime>, kConditions.size()> last;
    MonotonicTime now = second(1);
    for (int i = 0; i < 60; ++i) {
      now += std::chrono::seconds(1 + dice.below(12));
      Observation observation = any_observation(dice, config);
      observation.at = now;
      const Step next = step(config, state, observation);
      for (const Evidence& one : next.decision.evidence) {
        const auto condition = condition_of(one.threshold.signal);
        if (condition && one.first_met) last[static_cast<std::size_t>(*condition)] = now;
      }
      for (const ConditionStatus& one : next.decision.conditions) {
        const auto met = last[static_cast<std::size_t>(one.condition)];
        EXPECT_EQ(one.last_met, met) << seed;
        EXPECT_EQ(one.status, met && now - *met < config.pressure_transition) << seed;
        fallen += one.changed && !one.status ? 1 : 0;
      }
      state = next.state;
    }
  }
  EXPECT_GT(fallen, 100U);
}

// A hard threshold acts no later than the same soft one.
TEST(PropertyTest, HardIsNeverLaterThanSoft) {
  std::size_t acted = 0;
  for (std::uint32_t seed = 0; seed < kWorlds / 3; ++seed) {
    Dice dice(seed);
    Threshold threshold = hard(Signal::memory_available, {30});
    if (dice.one_in(2)) threshold.min_reclaim = Limit::bytes({10});
    const Config hard_config = config({threshold});
    const Config soft_config = config({soft(threshold, std::chrono::seconds(1 + dice.below(20)))});
    State hard_state;
    State soft_state;
    bool hard_acted = false;
    MonotonicTime now = second(1);
    for (int i = 0; i < 30; ++i) {
      now += std::chrono::seconds(1 + dice.below(5));
      Observation observation;
      observation.at = now;
      observation.node = node({100}, {20 + dice.below(18)});
      observation.workloads = {workload("/a", Bytes{5})};
      const Step hard_step = step(hard_config, hard_state, observation);
      const Step soft_step = step(soft_config, soft_state, observation);
      hard_acted |= hard_step.decision.action == Action::kill;
      if (soft_step.decision.action == Action::kill) {
        ++acted;
        EXPECT_TRUE(hard_acted) << seed;
        EXPECT_EQ(hard_step.decision.action, Action::kill) << seed << ": met in both";
      }
      hard_state = hard_step.state;
      soft_state = soft_step.state;
    }
  }
  EXPECT_GT(acted, 100U);
}

// The next step on the same readings is equal in everything except times.
std::string answer(const Decision& decision) {
  std::string text = reported(decision) + " |";
  for (const ConditionStatus& one : decision.conditions) text += one.status ? " yes" : " no";
  for (const Evidence& one : decision.evidence) text += one.driving ? " drives" : " -";
  return text;
}

TEST(PropertyTest, NothingChangesBeforeTheNextDeadline) {
  std::size_t deadlines = 0;
  std::size_t changed = 0;
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    const Config config = any_config(dice);
    Observation observation = any_observation(dice, config);
    // The end of reclaim is reported once, so the reading is not the same again.
    if (observation.reclaim == ReclaimState::done) observation.reclaim = ReclaimState::ready;
    State state = any_state(dice, config, observation);
    state.reclaim.reset();
    // The pass that finds the layout is the last one without thresholds on containerfs.
    Observation before = observation;
    before.at -= Duration(1);
    const Step now = step(config, step(config, state, before).state, observation);
    const auto deadline = next_deadline(config, now.state);
    const std::string answered = answer(now.decision);
    const Duration ahead = deadline ? *deadline - observation.at : std::chrono::hours(1);
    ASSERT_GT(ahead, Duration::zero()) << seed;
    for (const Duration wait : {Duration(1), Duration(ahead / 2), Duration(ahead - Duration(1))}) {
      if (wait <= Duration::zero()) continue;
      Observation later = observation;
      later.at += wait;
      EXPECT_EQ(answer(step(config, now.state, later).decision), answered) << seed;
    }
    if (!deadline) continue;
    ++deadlines;
    observation.at = *deadline;
    changed += answer(step(config, now.state, observation).decision) != answered ? 1 : 0;
  }
  EXPECT_GT(deadlines, kWorlds / 10);
  EXPECT_GT(changed, deadlines / 2) << "most of them matter";
}

// The candidate after its working set grew.
Candidate grown(const Candidate& candidate, Bytes growth, const RankBy& by) {
  Candidate later = candidate;
  if (const auto before = later.sample.working_set()) {
    later.sample.inactive_file = Bytes{0};
    later.sample.usage = *before + growth;
  }
  later.key = rank_key(later.sample, by);
  return later;
}

// shortlist.cc computes the leads from the rules instead of trying growths.
TEST(PropertyTest, AShortlistedCandidateLeadsByTheSmallestGrowthThatPassesIt) {
  const RankBy by{.signal = Signal::memory_available, .layout = {}, .compat = {}};
  std::size_t finite = 0;
  std::size_t never = 0;
  for (std::uint32_t seed = 0; seed < kWorlds; ++seed) {
    Dice dice(seed);
    Config config = any_config(dice);
    config.ranking = Ranking::kubelet;
    Observation observation = any_observation(dice, config);
    if (!observation.workloads) continue;
    const auto count = static_cast<std::size_t>(1 + dice.below(4));
    const Shortlist head = shortlist(config, observation, {}, count);
    const Exclusions exclusions(*observation.workloads, observation.kills);
    std::vector<Candidate> rest = rank(*observation.workloads, by, {}, exclusions);
    std::erase_if(rest, [&](const Candidate& each) {
      // One without processes may have some by then.
      const bool may_come = each.exclusion == Exclusion::none || each.exclusion == Exclusion::empty;
      return !may_come || std::ranges::any_of(head.first, [&](const Candidate& listed) {
        return listed.sample.workload.cgroup == each.sample.workload.cgroup;
      });
    });
    for (std::size_t i = 0; i < head.first.size(); ++i) {
      const auto passed_at = [&](Bytes growth) {
        return std::ranges::any_of(rest, [&](const Candidate& each) {
          return evicted_before(grown(each, growth, by), head.first[i], Resource::memory);
        });
      };
      const Bytes lead = head.leads[i];
      for (std::int64_t growth = 0; growth < 40; ++growth) {
        // At the lead itself usage may be equal: the path decides. Between two of unknown usage the
        // lead is 0, whichever comes first.
        if (Bytes{growth} < lead) {
          EXPECT_FALSE(passed_at({growth})) << seed << ": " << growth << " of " << lead.count;
        } else if (Bytes{growth} > lead && head.first[i].key.measured) {
          EXPECT_TRUE(passed_at({growth})) << seed << ": " << growth << " of " << lead.count;
        }
      }
      ++(lead < Bytes{40} ? finite : never);
    }
  }
  EXPECT_GT(finite, kWorlds / 10);
  EXPECT_GT(never, kWorlds / 10);
}

}  // namespace
}  // namespace forestall::policy
