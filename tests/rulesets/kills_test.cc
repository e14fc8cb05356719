// SPDX-License-Identifier: Apache-2.0
// oomd's kill actions: rankings, descent, attempts, prekill hooks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oomd_case.h"

namespace forestall::test {
namespace {

using testing::ElementsAre;

std::string kill_of(const std::string& plugin, const std::string& arguments) {
  return "{'name': '" + plugin + "', 'args': {'cgroup': '*'" + arguments + "}}";
}

OomdCase kill_case(const std::string& plugin, const std::string& arguments,
                   std::vector<std::string> lines) {
  return {
      one_ruleset("{'name': 'continue'}", kill_of(plugin, arguments), ", 'post_action_delay': 0"),
      std::move(lines)};
}

std::string line(int time, const std::string& cgroups, const std::string& more = "") {
  return "{'time': " + std::to_string(time) + ", 'cgroups': {" + cgroups + "}" + more + "}";
}

std::string sized(const std::string& cgroup, int current, const std::string& more = "") {
  return "'" + cgroup + "': {'memory.current': " + std::to_string(current) + more + "}";
}

TEST(OomdKills, BigOnesComeFirstByEffectiveUsage) {
  // 50 % of 1000 is 500: only /a is big. Protection lowers /c from 300 to 100.
  EXPECT_EQ(last_ranking(kill_case(
                "kill_by_memory_size_or_growth", "",
                {line(1, sized("/a", 520, ", 'memory.low': 400") + ", " + sized("/b", 180) + ", " +
                             sized("/c", 300, ", 'memory.min': 200"))})),
            "/a /b /c");
}

TEST(OomdKills, GrowthComesBeforeSizeAmongTheLargest) {
  // Five cgroups, percentile 80: only the largest by effective usage may count as growing.
  std::vector<std::string> lines;
  const auto all = [](int a, int b) {
    return sized("/a", a) + ", " + sized("/b", b) + ", " + sized("/c", 1600) + ", " +
           sized("/d", 800) + ", " + sized("/e", 800);
  };
  for (int time = 1; time < 12; ++time) lines.push_back(line(time, all(1600, 1000)));
  lines.push_back(line(12, all(1600, 2000)));
  EXPECT_EQ(last_ranking(kill_case("kill_by_memory_size_or_growth", "", lines)), "/b /a /c /d /e");
  // With percentile 0 every cgroup may; /b grew most though it is smaller.
  lines.back() = line(12, all(1600, 1500));
  EXPECT_EQ(
      last_ranking(kill_case("kill_by_memory_size_or_growth",
                             ", 'growing_size_percentile': 0, 'min_growth_ratio': '1.25'", lines)),
      "/b /a /c /d /e");
  EXPECT_EQ(last_ranking(kill_case("kill_by_memory_size_or_growth", "", lines)), "/a /c /b /d /e");
}

TEST(OomdKills, GrowthIsComparedAsFloat) {
  // All average a quarter. 300000003 / 75000000 is 4.00000004, which as a float is 4 as well.
  const std::string all =
      sized("/a", 300000003) + ", " + sized("/b", 400000000) + ", " + sized("/c", 800000000);
  EXPECT_EQ(last_ranking(kill_case("kill_by_memory_size_or_growth",
                                   ", 'growing_size_percentile': 0", {line(1, all)})),
            "/c /b /a");
}

TEST(OomdKills, ANewCgroupCountsAsGrown) {
  std::vector<std::string> lines;
  for (int time = 1; time < 12; ++time) {
    lines.push_back(line(time, sized("/a", 1600) + ", " + sized("/b", 1500)));
  }
  lines.push_back(line(12, sized("/c", 1550)));
  EXPECT_EQ(last_ranking(kill_case("kill_by_memory_size_or_growth",
                                   ", 'growing_size_percentile': 0", lines)),
            "/c /a /b");
}

TEST(OomdKills, ProtectionIsSharedAmongSiblings) {
  // /s has 300 protected; its children claim 200 and 400, so they have 100 and 200.
  const std::string tree = sized("/s", 1000, ", 'memory.min': 300") + ", " +
                           sized("/s/a", 340, ", 'memory.min': 200") + ", " +
                           sized("/s/b", 430, ", 'memory.low': 400");
  OomdCase run{one_ruleset("{'name': 'continue'}",
                           "{'name': 'kill_by_memory_size_or_growth', 'args': {'cgroup': 's/*', "
                           "'size_threshold': 100}}"),
               {line(1, tree)}};
  EXPECT_EQ(last_ranking(run), "/s/a /s/b");
}

TEST(OomdKills, SwapNeedsAThreshold) {
  const std::string cgroups =
      "'/a': {'memory.swap.current': 10}, '/b': {'memory.swap.current': 30}, '/c': {}, '/d': "
      "{'memory.swap.current': 0}";
  EXPECT_EQ(last_ranking(kill_case("kill_by_swap_usage", "", {line(1, cgroups)})), "/b /a");
  EXPECT_EQ(last_ranking(kill_case("kill_by_swap_usage", ", 'threshold': '20%'",
                                   {line(1, cgroups, ", 'host': {'SwapTotal': 100}")})),
            "/b");
  EXPECT_EQ(
      last_ranking(kill_case("kill_by_swap_usage", ", 'threshold': '0%'", {line(1, cgroups)})),
      "");  // the total is unknown
}

TEST(OomdKills, PressureIsTheMeanOfTwoAveragesWithoutFraction) {
  const auto pressure = [](const char* cgroup, const char* avg10, const char* avg60) {
    return std::string("'") + cgroup + "': {'io.pressure': {'full': {'avg10': " + avg10 +
           ", 'avg60': " + avg60 + "}}}";
  };
  // 20.9 and 20.5 are both 20, so the path decides; an unknown one is last.
  const std::string cgroups = pressure("/b", "21.8", "20") + ", " + pressure("/a", "21", "20") +
                              ", " + pressure("/c", "30", "13") + ", '/_': {}";
  EXPECT_EQ(last_ranking(kill_case("kill_by_pressure", ", 'resource': 'io'", {line(1, cgroups)})),
            "/c /a /b /_");
}

TEST(OomdKills, IoCostIsARateByDevice) {
  const auto io = [](const char* cgroup, int wios) {
    return std::string("'") + cgroup + "': {'io.stat': {'8:0': {'wios': " + std::to_string(wios) +
           "}, '8:16': {'wios': 1000000}}}";
  };
  OomdCase run = kill_case(
      "kill_by_io_cost", "",
      {line(1, io("/a", 100) + ", " + io("/b", 0)), line(2, io("/a", 101) + ", " + io("/b", 5))});
  run.io_devices = "8:0=hdd";
  EXPECT_EQ(last_ranking(run), "/b /a");
  run.lines.pop_back();
  EXPECT_EQ(last_ranking(run), "/a /b");  // all rates are 0 at first
}

TEST(OomdKills, PgscanNeedsTwoTicksAndThenKillsWhateverFires) {
  const auto scanned = [](const char* cgroup, int pages) {
    return std::string("'") + cgroup + "': {'memory.stat': {'pgscan': " + std::to_string(pages) +
           "}}";
  };
  OomdCase run{
      one_ruleset("{'name': 'exists', 'args': {'cgroup': 'x'}}", kill_of("kill_by_pg_scan", "")),
      {line(1, scanned("/a", 500) + ", " + scanned("/b", 5) + ", '/x': {}"),
       line(2, scanned("/a", 501) + ", " + scanned("/b", 9) + ", '/x': null")}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] kill_by_pg_scan=suspended",
                                         "r[] resumed kill_by_pg_scan=stop(/b killed)"));
  EXPECT_EQ(last_ranking(run), "/b /a");
}

TEST(OomdKills, PreferenceComesBeforeTheKey) {
  const std::string cgroups =
      "'/a': {'memory.swap.current': 10, 'xattrs': {'user.oomd_prefer': '0'}}, "
      "'/b': {'memory.swap.current': 30}, "
      "'/c': {'memory.swap.current': 90, 'xattrs': {'trusted.oomd_avoid': ''}}, "
      "'/d': {'memory.swap.current': 5, 'xattrs': {'user.oomd_omit': '1'}}";
  EXPECT_EQ(last_ranking(kill_case("kill_by_swap_usage", "", {line(1, cgroups)})), "/a /b /d /c");
}

TEST(OomdKills, RecursionDescendsUnlessTheGroupDiesAsOne) {
  // `answer` is how /s/a and /s/b answer to a kill.
  const auto run = [](const std::string& answer, const char* recursive) {
    const std::string tree = "'/s': {'memory.swap.current': 90}, '/s/a': {" + answer +
                             "'memory.swap.current': 10}, '/s/b': {" + answer +
                             "'memory.swap.current': 80, 'memory.oom.group': 1}, '/s/b/x': "
                             "{'memory.swap.current': 80}, '/t': {'memory.swap.current': 20}";
    return outcomes(kill_case("kill_by_swap_usage", std::string(", 'recursive': ") + recursive,
                              {line(1, tree)}));
  };
  EXPECT_THAT(run("", "true"), ElementsAre("r[g] kill_by_swap_usage=stop(/s/b killed)"));
  EXPECT_THAT(run("", "false"), ElementsAre("r[g] kill_by_swap_usage=stop(/s killed)"));
  // The parent itself is never a victim; its next sibling follows its children.
  EXPECT_THAT(run("'kill': 'fails', ", "true"),
              ElementsAre("r[g] kill_by_swap_usage=stop(/s/b failed, /s/a failed, /t killed)"));
}

TEST(OomdKills, EmptyCgroupsAreSkippedAndAKillIsUsedUp) {
  OomdCase run = kill_case(
      "kill_by_swap_usage", "",
      {line(1,
            "'/a': {'memory.swap.current': 9, 'populated': 0}, '/b': {'memory.swap.current': 5, "
            "'kill': 'ok'}, '/c': {'memory.swap.current': 3}"),
       "{'time': 2}"});
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] kill_by_swap_usage=stop(/b killed)",
                                         "r[g] kill_by_swap_usage=stop(/b failed, /c killed)"));
}

// --- prekill hooks ------------------------------------------------------------------------------

OomdCase hook_case(const char* timeout, const char* hook_cgroup, std::vector<std::string> lines) {
  return {"{'rulesets': [{'name': 'r', 'prekill_hook_timeout': " + std::string(timeout) +
              ", 'detectors': [['g', {'name': 'exists', 'args': {'cgroup': 'x'}}]], 'actions': "
              "[{'name': 'kill_by_swap_usage', 'args': {'cgroup': 's/*'}}]}], 'prekill_hooks': "
              "[{'name': 'dummy_prekill_hook', 'args': {'cgroup': '" +
              hook_cgroup + "'}}]}",
          std::move(lines)};
}

const std::string kVictims =
    "'/x': {}, '/s/a': {'memory.swap.current': 9}, '/s/b': {'memory.swap.current': 5}";

TEST(OomdHooks, AKillWaitsForItsHookAndIsNotRankedAgain) {
  const OomdCase run =
      hook_case("5", "s",
                {line(1, kVictims, ", 'hookSeconds': 2"),
                 line(2, "'/x': null, '/s/b': {'memory.swap.current': 50}"), "{'time': 3}"});
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] kill_by_swap_usage=suspended(/s/a hook)",
                                         "r[] resumed kill_by_swap_usage=suspended(/s/a hook)",
                                         "r[] resumed kill_by_swap_usage=stop(/s/a killed)"));
}

TEST(OomdHooks, AFinishedHookDoesNotDelay) {
  EXPECT_EQ(outcomes(hook_case("5", "s", {line(1, kVictims)}))[0],
            "r[g] kill_by_swap_usage=stop(/s/a killed)");
  // No hook for this cgroup.
  EXPECT_EQ(outcomes(hook_case("5", "t", {line(1, kVictims, ", 'hookSeconds': 2")}))[0],
            "r[g] kill_by_swap_usage=stop(/s/a killed)");
}

TEST(OomdHooks, TheDeadlineOfTheChainEndsTheWait) {
  const OomdCase run = hook_case(
      "1", "/", {line(1, kVictims, ", 'hookSeconds': 60"), "{'time': 2}", "{'time': 2.1}"});
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] kill_by_swap_usage=suspended(/s/a hook)",
                                         "r[g] resumed kill_by_swap_usage=suspended(/s/a hook)",
                                         "r[g] resumed kill_by_swap_usage=stop(/s/a killed)"));
  EXPECT_EQ(outcomes(hook_case("0", "/", {line(1, kVictims, ", 'hookSeconds': 60")}))[0],
            "r[g] kill_by_swap_usage=stop(/s/a killed)");
}

TEST(OomdHooks, AVictimThatIsGoneEndsTheKill) {
  const OomdCase run = hook_case("5", "s/*",
                                 {line(1, kVictims, ", 'hookSeconds': 1"),
                                  line(2, "'/x': null, '/s/a': null"), "{'time': 3}"});
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] kill_by_swap_usage=suspended(/s/a hook)",
                                         "r[] resumed kill_by_swap_usage=continue", ""));
}

TEST(OomdHooks, TheNextCandidateHasAHookOfItsOwn) {
  const OomdCase run =
      hook_case("9", "s/*",
                {line(1, kVictims + ", '/s/c': {'memory.swap.current': 1}", ", 'hookSeconds': 1"),
                 line(2, "'/s/a': {'kill': 'fails'}", ", 'hookSeconds': 1"),
                 line(3, "'/s/b': {'kill': 'fails'}, '/s/c': null")});
  EXPECT_THAT(outcomes(run),
              ElementsAre("r[g] kill_by_swap_usage=suspended(/s/a hook)",
                          "r[g] resumed kill_by_swap_usage=suspended(/s/a failed, /s/b hook)",
                          "r[g] resumed kill_by_swap_usage=continue(/s/b failed)"));
}

}  // namespace
}  // namespace forestall::test
