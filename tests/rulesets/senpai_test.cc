// SPDX-License-Identifier: Apache-2.0
// senpai: oomd's action, and the standalone program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oomd_case.h"
#include "rulesets/standalone_senpai.h"

namespace forestall::test {
namespace {

using testing::ElementsAre;

std::string senpai(const std::string& arguments) {
  return one_ruleset("{'name': 'continue'}",
                     "{'name': 'senpai', 'args': {'cgroup': 'a'" + arguments + "}}");
}

// The writes of each line.
std::vector<std::string> writes(const OomdCase& run) {
  std::vector<std::string> all = outcomes(run);
  for (std::string& each : all) {
    const std::string prefix = "r[g] senpai=continue";
    each = each.substr(std::min(each.size(), prefix.size()));
    if (!each.empty()) each = each.substr(1);
  }
  return all;
}

const std::string kGiB = "1073741824";

// 1 GiB, half of it page cache, without swap.
std::string full_cgroup(const std::string& more) {
  return "'/a': {'memory.current': " + kGiB +
         ", 'memory.min': 0, 'memory.max': 'max', 'memory.stat': {'active_file': 268435456, "
         "'inactive_file': 268435456, 'active_anon': 1, 'inactive_anon': 1}, 'memory.pressure': "
         "{'some': {'avg10': 0, 'avg60': 0, 'avg300': 0, 'total': 1000}}, 'io.pressure': {'some': "
         "{'avg10': 0, 'avg60': 0}}" +
         more + "}";
}

std::string first(const std::string& more, const std::string& host = "") {
  return "{'time': 1, 'host': {'MemTotal': 8589934592" + host + "}, 'cgroups': {" +
         full_cgroup(more) + "}}";
}

TEST(OomdSenpai, ProbesAfterTheIntervalAndBacksOffUnderPressure) {
  OomdCase run{senpai(", 'interval': 1"),
               {first(", 'memory.high': 'max'"), "{'time': 2}", "{'time': 3}", "{'time': 4}",
                "{'time': 5, 'cgroups': {'/a': {'memory.pressure': {'some': {'total': 41000}}}}}"}};
  // 0.01 of 1 GiB less: 1063004405.76, of which 4096 * 259522 remain. Then 40 ms are 4 times the
  // pressure: (4 / 20)^2 more.
  EXPECT_THAT(writes(run),
              ElementsAre("write /a/memory.high=1073741824", "", "write /a/memory.high=1063002112",
                          "", "write /a/memory.high=1105518592"));
}

TEST(OomdSenpai, ErrorsAreWholeNumbers) {
  // 19.999 ms are 1 times the pressure, not 2: (1 / 20)^2 of 1 GiB more.
  OomdCase run{senpai(""),
               {first(", 'memory.high': 'max'"),
                "{'time': 2, 'cgroups': {'/a': {'memory.pressure': {'some': {'total': 20999}}}}}"}};
  EXPECT_EQ(writes(run)[1], "write /a/memory.high=1076424704");
}

TEST(OomdSenpai, TheLimitStaysWithinItsBounds) {
  // Unreclaimable 512 MiB and limit_min_bytes 512 MiB leave nothing to take.
  OomdCase run{senpai(", 'interval': 0, 'limit_min_bytes': '536870912'"),
               {first(", 'memory.high': 'max'"), "{'time': 2}"}};
  EXPECT_EQ(writes(run)[1], "write /a/memory.high=1073741824");
  // memory.max bounds a back-off.
  run.lines = {first(", 'memory.high': 'max'"),
               "{'time': 2, 'cgroups': {'/a': {'memory.max': 1073750016, 'memory.pressure': "
               "{'some': {'total': 901000}}}}}"};
  EXPECT_EQ(writes(run)[1], "write /a/memory.high=1073750016");
}

TEST(OomdSenpai, AChangedLimitStartsAgainAndAMissingReadingForgets) {
  OomdCase run{
      senpai(", 'interval': 0"),
      {first(", 'memory.high': 'max'"), "{'time': 2, 'cgroups': {'/a': {'memory.high': 4096}}}",
       "{'time': 3, 'cgroups': {'/a': {'memory.pressure': null}}}",
       "{'time': 4, 'cgroups': {'/a': {'memory.pressure': {'some': {'total': 1}}}}}"}};
  EXPECT_THAT(writes(run),
              ElementsAre("write /a/memory.high=1073741824", "write /a/memory.high=1073741824", "",
                          "write /a/memory.high=1073741824"));
}

TEST(OomdSenpai, TemporaryLimitsExpire) {
  OomdCase run{senpai(", 'interval': 0"),
               {first(", 'memory.high': 1073741824, 'memory.high.tmp': 'max'"), "{'time': 2}"}};
  EXPECT_THAT(writes(run), ElementsAre("write /a/memory.high.tmp=1073741824@20000000",
                                       "write /a/memory.high.tmp=1063002112@20000000"));
}

TEST(OomdSenpai, ImmediateBackoffReclaimsWhileCalm) {
  // 1 % of what lies above 512 MiB + 100 MiB.
  OomdCase run{senpai(", 'immediate_backoff': true, 'interval': '1'"),
               {first(", 'memory.reclaim': 'EAGAIN'"), "{'time': 2}", "{'time': 3}", "{'time': 4}",
                "{'time': 5, 'cgroups': {'/a': {'io.pressure': {'some': {'avg10': "
                "0.1}}}}}",
                "{'time': 6, 'cgroups': {'/a': {'io.pressure': {'some': {'avg10': 0.09}}}}}"}};
  EXPECT_THAT(writes(run), ElementsAre("", "", "write /a/memory.reclaim=4317184", "", "",
                                       "write /a/memory.reclaim=4317184"));
  run.lines = {first(", 'memory.high': 'max'"), "{'time': 2}", "{'time': 3}"};
  EXPECT_EQ(writes(run)[2], "write /a/memory.high=1069424640 write /a/memory.high=max");
}

TEST(OomdSenpai, SwapMakesAnonymousMemoryReclaimable) {
  // 2 bytes of anon with swap: one page less remains above the bound, below rounding.
  const std::string swap = ", 'swap': {'total': 1073741824, 'used': 0}, 'vm.swappiness': 60";
  OomdCase run{
      senpai(", 'immediate_backoff': true, 'interval': 0, 'max_probe': 1"),
      {first(", 'memory.reclaim': 'ok', 'memory.swap.max': 'max', 'memory.swap.current': 0", swap),
       "{'time': 2}",
       "{'time': 3, 'cgroups': {'/a': {'memory.stat': {'active_file': 268435456, "
       "'inactive_file': 268435456, 'active_anon': 268435456, 'inactive_anon': 0}}}}",
       "{'time': 4, 'cgroups': {'/a': {'memory.swap.max': 1048576}}}"}};
  EXPECT_THAT(writes(run), ElementsAre("", "write /a/memory.reclaim=432013312",
                                       "write /a/memory.reclaim=700448768",
                                       "write /a/memory.reclaim=433061888"));
}

TEST(OomdSenpai, SwapIsValidatedAndSwappinessModulated) {
  const std::string swap =
      ", 'swap': {'total': 1000, 'used': 400}, 'vm.swappiness': 60, "
      "'swapoutBps60': 262144, 'swapoutBps300': 0";
  const std::string files =
      ", 'memory.reclaim': 'ok', 'memory.swap.max': 'max', 'memory.swap.current': 0";
  OomdCase run{senpai(", 'immediate_backoff': true, 'interval': 0, 'modulate_swappiness': true, "
                      "'swap_validation': true"),
               {first(files, swap), "{'time': 2}",
                "{'time': 3, 'host': {'swap': {'total': 1000, 'used': 900}}}"}};
  // min(1 - 0.25, 1 - 0.4 / 0.8) of 60 is 30. At 90 % nothing is reclaimed.
  EXPECT_THAT(writes(run),
              ElementsAre("",
                          "write /vm.swappiness=30 write /a/memory.reclaim=4317184 write "
                          "/vm.swappiness=60",
                          ""));
}

TEST(OomdSenpai, ALevelWithoutSwapHidesThoseAboveIt) {
  std::string line =
      first(", 'memory.reclaim': 'ok', 'memory.swap.max': 1000, 'memory.swap.current': 400",
            ", 'swap': {'total': 1000, 'used': 900}, 'vm.swappiness': 60");
  line.replace(line.find("'/a'"), 4,
               "'/p': {'memory.swap.max': 0, 'memory.swap.current': 0}, '/p/a'");
  OomdCase run{one_ruleset("{'name': 'continue'}",
                           "{'name': 'senpai', 'args': {'cgroup': 'p/a', 'interval': 0, "
                           "'immediate_backoff': true, 'modulate_swappiness': true}}"),
               {line, "{'time': 2}"}};
  // Below /p, 40 % of the own limit are used: 60 * (1 - 0.4 / 0.8).
  EXPECT_THAT(writes(run)[1], testing::StartsWith("write /vm.swappiness=30 "));
}

// --- the standalone program ---------------------------------------------------------------------

class StandaloneSenpaiTest : public testing::Test {
 protected:
  std::optional<std::int64_t> evaluate(std::int64_t total) {
    rulesets::RuleObservation observed;
    observed.cgroups.resize(2);
    observed.cgroups[0].path = "/";
    rulesets::Cgroup& cgroup = observed.cgroups[1];
    cgroup.path = "/a";
    cgroup.current = current_;
    cgroup.high = high_;
    cgroup.memory_pressure.emplace().some.emplace().total_us = total;
    const auto write = rulesets::step(config_, state_, observed);
    if (write) high_ = write->value;
    return write ? std::optional(write->value) : std::nullopt;
  }

  rulesets::StandaloneSenpai config_{.cgroup = "/a", .interval = 2};
  std::optional<rulesets::StandaloneSenpaiState> state_;
  std::int64_t current_ = 1LL << 30;
  std::optional<std::int64_t> high_;
};

TEST_F(StandaloneSenpaiTest, ProbesAfterTheGraceAndBacksOffByTheSquare) {
  EXPECT_EQ(evaluate(0), 1LL << 30);
  EXPECT_EQ(evaluate(0), std::nullopt);
  EXPECT_EQ(evaluate(0), std::nullopt);
  EXPECT_EQ(evaluate(0), 1063002112);  // 1 % less
  EXPECT_EQ(evaluate(5000), std::nullopt);
  // 50 ms in all: (5 / 20)^2 more.
  EXPECT_EQ(evaluate(50000), 1129439232);
}

TEST_F(StandaloneSenpaiTest, StartsFromTheUsageIfAnotherProgramChangedTheLimit) {
  EXPECT_EQ(evaluate(0), 1LL << 30);
  high_ = 5;
  current_ = 1LL << 29;
  // import_limit() drops the scaled value.
  EXPECT_EQ(evaluate(20000), 1LL << 29);
}

TEST_F(StandaloneSenpaiTest, TheFirstLimitIsWholePages) {
  current_ = 300000001;
  EXPECT_EQ(evaluate(0), 299999232);
}

TEST_F(StandaloneSenpaiTest, TheLimitIsClamped) {
  current_ = 5;
  EXPECT_EQ(evaluate(0), 100 << 20);
}

}  // namespace
}  // namespace forestall::test
