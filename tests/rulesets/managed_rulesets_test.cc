// SPDX-License-Identifier: Apache-2.0
// systemd-oomd's rules as rulesets. Tests name their source: a function of systemd 252 (src/oom).
#include "rulesets/managed_rulesets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/engine.h"

namespace forestall::rulesets {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kMebi = 1 << 20;

// --- paths --------------------------------------------------------------------------------------

TEST(LiteralPattern, MatchesTheCgroupAndNothingElse) {
  for (const std::string path : {"/", "/a.slice", "/system.slice/dev-disk\\x2duuid.slice", "/u/*",
                                 "/u/?", "/u/[ab]", "/u/.hidden", "/u/a,b", "/u/\\", "/u/]"}) {
    RuleObservation observed;
    for (const std::string each :
         {"/", "/a.slice", "/system.slice", "/system.slice/dev-disk\\x2duuid.slice", "/u", "/u/*",
          "/u/?", "/u/[ab]", "/u/.hidden", "/u/a", "/u/a,b", "/u/\\", "/u/]"}) {
      observed.cgroups.emplace_back().path = each;
    }
    std::ranges::sort(observed.cgroups, {}, &Cgroup::path);
    const auto pattern = literal_pattern(path);
    ASSERT_TRUE(pattern) << path;
    const auto found = matching({*pattern}, observed);
    ASSERT_EQ(found.size(), 1U) << path;
    EXPECT_EQ(found[0]->path, path);
  }
}

TEST(LiteralPattern, RefusesWhatIsNoCgroup) {
  for (const std::string path :
       {"", "a", "a/b", "//", "/a//b", "/../etc", "/a/..", "/a/.", "/a{b}", "/a\nb", "/a\x7f"}) {
    EXPECT_FALSE(literal_pattern(path)) << path;
  }
  EXPECT_FALSE(literal_pattern(std::string("/a\0b", 4)));
  EXPECT_FALSE(literal_pattern("/" + std::string(4096, 'a')));
}

// --- decisions ----------------------------------------------------------------------------------

struct Node {
  std::string path;
  std::int64_t usage = 0;
  std::int64_t swap = 0;
  std::int64_t pgscan = 0;
  float avg10 = 0;
  std::uint32_t uid = 0;
  std::string attribute = "";
  bool oom_group = false;
};

// Every kill finds a process.
class ManagedHost {
 public:
  explicit ManagedHost(const ManagedOomRules& rules, const OomdConf& conf = {}) {
    config_.program = RuleProgram(managed_rulesets(rules, conf), {});
  }

  // The cgroup that is killed at this second; "" if none is.
  std::string at(int second, const std::vector<Node>& nodes) {
    observed_.time = std::chrono::seconds(second);
    observed_.cgroups.clear();
    for (const Node& each : nodes) add(each);
    std::ranges::sort(observed_.cgroups, {}, &Cgroup::path);
    std::vector<EffectAnswer> answers;
    RuleStep next = step(config_, state_, observed_, answers);
    while (next.wanted) {
      answers.push_back(EffectAnswer::yes);
      next = step(config_, state_, observed_, answers);
    }
    state_ = std::move(next.state);
    order_.clear();
    for (const RulesetRun& run : next.decision.rulesets) {
      for (const ActionRun& action : run.actions) {
        for (const RankedCgroup& each : action.ranking) order_.push_back(each.cgroup);
      }
    }
    return next.decision.kills.empty() ? "" : next.decision.kills.front().cgroup;
  }

  [[nodiscard]] const std::vector<std::string>& order() const { return order_; }
  Host& host() { return observed_.host; }

 private:
  void add(const Node& node) {
    Cgroup& cgroup = observed_.cgroups.emplace_back();
    cgroup.path = node.path;
    cgroup.id = std::hash<std::string>()(node.path);
    cgroup.uid = node.uid;
    cgroup.current = node.usage;
    cgroup.swap_current = node.swap;
    cgroup.stat.emplace().pgscan = node.pgscan;
    cgroup.memory_pressure.emplace().full = PressureLine{node.avg10, 0, 0, std::nullopt};
    cgroup.oom_group = node.oom_group;
    cgroup.populated = true;
    if (!node.attribute.empty()) cgroup.xattrs.emplace_back(node.attribute, "1");
  }

  RuleConfig config_;
  RuleState state_;
  RuleObservation observed_;
  std::vector<std::string> order_;
};

ManagedOomRules swap_of(const std::string& path) {
  ManagedOomRules rules;
  rules.swap = {path};
  return rules;
}

ManagedOomRules pressure_of(const std::vector<std::string>& paths) {
  ManagedOomRules rules;
  for (const std::string& each : paths) rules.pressure[each] = {5000, 2s};
  return rules;
}

void set_memory(Host& host, std::int64_t available, std::int64_t swap_free) {
  host.mem_total = 1000 * kMebi;
  host.mem_available = available * kMebi;
  host.swaps_total = 1000 * kMebi;
  host.swaps_used = (1000 - swap_free) * kMebi;
  host.swap_total = 1000 * kMebi;
  host.swap_free = swap_free * kMebi;
}

// oomd_mem_available_below() and oomd_swap_free_below()
TEST(ManagedSwapRuleset, ActsWhenMemoryAndSwapAreBothUsed) {
  const std::vector<Node> nodes{{"/"}, {"/a", 0, 100 * kMebi}, {"/b", 0, 300 * kMebi}};
  ManagedHost host(swap_of("/"));
  set_memory(host.host(), 99, 100);
  EXPECT_EQ(host.at(1, nodes), "");
  set_memory(host.host(), 100, 99);
  EXPECT_EQ(host.at(2, nodes), "");
  set_memory(host.host(), 99, 99);
  EXPECT_EQ(host.at(3, nodes), "/b");
  EXPECT_EQ(host.at(4, nodes), "/b") << "there is no pause";
}

// oomd_kill_by_swap_usage(): at most 5 % of all swap is left alone.
TEST(ManagedSwapRuleset, LeavesSmallUsersOfSwapAlone) {
  ManagedHost host(swap_of("/"));
  set_memory(host.host(), 10, 10);
  EXPECT_EQ(host.at(1, {{"/"}, {"/a", 0, 49 * kMebi}}), "");
}

// get_managed_oom_cgroup_candidates() and sort: all leaves together, not level by level.
TEST(ManagedSwapRuleset, RanksAllLeavesTogether) {
  ManagedHost host(swap_of("/"));
  set_memory(host.host(), 10, 10);
  const std::vector<Node> nodes{{"/"},
                                {"/big", 0, 500 * kMebi},
                                {"/big/a", 0, 250 * kMebi},
                                {"/big/b", 0, 250 * kMebi},
                                {"/small", 0, 300 * kMebi},
                                {"/small/c", 0, 300 * kMebi}};
  EXPECT_EQ(host.at(1, nodes), "/small/c");
  EXPECT_THAT(host.order(), ElementsAre("/small/c", "/big/a", "/big/b"));
}

TEST(ManagedSwapRuleset, AGroupThatDiesTogetherIsOneCandidate) {
  ManagedHost host(swap_of("/s"));
  set_memory(host.host(), 10, 10);
  EXPECT_EQ(host.at(1, {{"/"},
                        {"/s"},
                        {"/s/a", 0, 200 * kMebi, 0, 0, 0, "", true},
                        {"/s/a/part", 0, 200 * kMebi},
                        {"/s/b", 0, 150 * kMebi}}),
            "/s/a");
}

// oomd_cgroup_context_acquire(): by swap, the ancestor is the root.
TEST(ManagedSwapRuleset, OnlyRootChoosesAPreference) {
  for (const auto& [uid, victim] : {std::pair{0U, "/b"}, std::pair{1000U, "/a"}}) {
    for (const char* attribute : {"user.oomd_omit", "user.oomd_avoid"}) {
      ManagedHost host(swap_of("/"));
      set_memory(host.host(), 10, 10);
      EXPECT_EQ(host.at(1, {{"/"},
                            {"/a", 0, 300 * kMebi, 0, 0, uid, attribute},
                            {"/b", 0, 100 * kMebi, 0, 0, uid}}),
                victim)
          << attribute << " " << uid;
    }
  }
}

TEST(ManagedSwapRuleset, ALimitWithoutPercentsActsLater) {
  OomdConf conf;
  conf.swap_used_limit = 9050;
  ManagedHost host(swap_of("/"), conf);
  set_memory(host.host(), 92, 92);
  EXPECT_EQ(host.at(1, {{"/"}, {"/a", 0, 300 * kMebi}}), "");
  set_memory(host.host(), 89, 89);
  EXPECT_EQ(host.at(2, {{"/"}, {"/a", 0, 300 * kMebi}}), "/a");
}

std::vector<Node> pressed(int second, float avg10 = 60) {
  return {{"/"},
          {"/s", 0, 0, second * 100, avg10},
          {"/s/a", 500 * kMebi, 0, second * 10},
          {"/s/b", 100 * kMebi, 0, second * 90}};
}

// monitor_memory_pressure_contexts_handler(): a rate needs two samples.
TEST(ManagedPressureRuleset, KillsTheLeafThatReclaimsMost) {
  ManagedHost host(pressure_of({"/s"}));
  EXPECT_EQ(host.at(1, pressed(1)), "");
  EXPECT_EQ(host.at(2, pressed(2)), "");
  EXPECT_EQ(host.at(3, pressed(3)), "") << "the first sample";
  EXPECT_EQ(host.at(4, pressed(4)), "/s/b");
  EXPECT_THAT(host.order(), ElementsAre("/s/b", "/s/a"));
}

TEST(ManagedPressureRuleset, PressureThatEndsBetweenTheSamplesKillsNothing) {
  ManagedHost host(pressure_of({"/s"}));
  for (int second = 1; second < 4; ++second) EXPECT_EQ(host.at(second, pressed(second)), "");
  for (int second = 4; second < 9; ++second) {
    EXPECT_EQ(host.at(second, pressed(second, 50)), "") << "50 is not above 50";
  }
}

TEST(ManagedPressureRuleset, WithoutReclaimPressureDoesNotKill) {
  ManagedHost host(pressure_of({"/s"}));
  for (int second = 1; second < 9; ++second) {
    EXPECT_EQ(host.at(second, {{"/"}, {"/s", 0, 0, 100, 90}, {"/s/a", kMebi, 0, 100}}), "");
  }
}

TEST(ManagedPressureRuleset, EqualRatesAreDecidedByUsage) {
  ManagedHost host(pressure_of({"/s"}));
  const auto nodes = [](int second) -> std::vector<Node> {
    return {{"/"},
            {"/s", 0, 0, second, 60},
            {"/s/a", 100 * kMebi, 0, second},
            {"/s/b", 500 * kMebi, 0, second}};
  };
  for (int second = 1; second < 4; ++second) EXPECT_EQ(host.at(second, nodes(second)), "");
  EXPECT_EQ(host.at(4, nodes(4)), "/s/b");
}

// POST_ACTION_DELAY_USEC holds for all of them.
TEST(ManagedPressureRuleset, OnePauseHoldsForAllCgroups) {
  ManagedHost host(pressure_of({"/s", "/t"}));
  std::map<int, std::string> kills;
  for (int second = 1; second < 40; ++second) {
    std::vector<Node> nodes = pressed(second);
    nodes.push_back({"/t", 0, 0, second, 90});
    nodes.push_back({"/t/a", kMebi, 0, second});
    const std::string victim = host.at(second, nodes);
    if (!victim.empty()) kills[second] = victim;
  }
  ASSERT_GE(kills.size(), 2U);
  EXPECT_EQ(kills.begin()->first, 4);
  EXPECT_GE(std::next(kills.begin())->first, 4 + 15);
}

// oomd_cgroup_context_acquire(): the owner of the monitored cgroup chooses among its own.
TEST(ManagedPressureRuleset, TheOwnerOfTheCgroupChoosesAmongItsOwn) {
  for (const auto& [top, owner, victim] :
       {std::tuple{1000U, 1000U, "/s/a"}, std::tuple{1000U, 0U, "/s/a"},
        std::tuple{0U, 1000U, "/s/b"}, std::tuple{1000U, 1001U, "/s/b"}}) {
    ManagedHost host(pressure_of({"/s"}));
    std::string killed;
    for (int second = 1; second < 6 && killed.empty(); ++second) {
      auto nodes = pressed(second);
      nodes[1].uid = top;
      nodes[3].uid = owner;
      nodes[3].attribute = "user.oomd_omit";
      killed = host.at(second, nodes);
    }
    EXPECT_EQ(killed, victim) << top << " " << owner;
  }
}

TEST(ManagedRulesets, AreMadeOfWhatIsMonitored) {
  EXPECT_THAT(managed_rulesets({}, {}), IsEmpty());
  ManagedOomRules rules = pressure_of({"/b", "/a", "/../x"});
  rules.pressure["/a"].duration = 1500ms;
  rules.swap = {"/z{}"};
  const auto made = managed_rulesets(rules, {});
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].name, "ManagedOOMMemoryPressure /a");
  EXPECT_EQ(made[1].name, "ManagedOOMMemoryPressure /b");
  EXPECT_EQ(std::get<PressureOver>(made[0].groups[0].plugins[0].arguments).duration, 2);
  EXPECT_DOUBLE_EQ(std::get<PressureOver>(made[0].groups[0].plugins[0].arguments).threshold, 50);
}

}  // namespace
}  // namespace forestall::rulesets
