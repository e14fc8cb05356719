// SPDX-License-Identifier: Apache-2.0
// oomd's detectors by table. Each row names the rule that it shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oomd_case.h"

namespace forestall::test {
namespace {

struct DetectorCase {
  const char* rule;
  const char* plugin;              // name and arguments
  std::vector<const char*> lines;  // members of an observation after `time`, one second apart
  const char* fires;               // a letter a line: y or n
};

std::string fired(const DetectorCase& given) {
  OomdCase run{one_ruleset(given.plugin, "{'name': 'continue'}"), {}};
  int time = 1;
  for (const char* each : given.lines) {
    run.lines.push_back("{'time': " + std::to_string(time++) + std::string(each) + "}");
  }
  std::string text;
  for (const std::string& each : outcomes(run)) text += each.empty() ? 'n' : 'y';
  return text;
}

std::string full(const char* cgroup, const char* avg10, const char* avg60, const char* avg300) {
  return std::string("'") + cgroup + "': {'memory.pressure': {'full': {'avg10': " + avg10 +
         ", 'avg60': " + avg60 + ", 'avg300': " + avg300 + "}}}";
}

constexpr const char* kHigh =
    ", 'cgroups': {'/a': {'memory.pressure': {'full': {'avg10': 61, 'avg60': 61, 'avg300': 0}}}}";
constexpr const char* kAt =
    ", 'cgroups': {'/a': {'memory.pressure': {'full': {'avg10': 60, 'avg60': 61, 'avg300': 0}}}}";
constexpr const char* kSame = "";

#define PRESSURE(NAME, DURATION)                                         \
  "{'name': '" NAME                                                      \
  "', 'args': {'cgroup': 'a', 'resource': 'memory', 'threshold': '60', " \
  "'duration': '" DURATION "'}}"

TEST(OomdDetectors, PressureHasToHoldForTheDuration) {
  const DetectorCase cases[] = {
      {"duration 0 fires at the first sighting", PRESSURE("pressure_above", "0"), {kHigh}, "y"},
      {"the threshold itself is not above", PRESSURE("pressure_above", "0"), {kAt}, "n"},
      {"the clock starts at the first sighting",
       PRESSURE("pressure_above", "2"),
       {kHigh, kSame, kSame, kSame},
       "nnyy"},
      {"an interruption restarts the clock",
       PRESSURE("pressure_above", "2"),
       {kHigh, kAt, kHigh, kSame, kSame},
       "nnnny"},
      {"no match is no pressure", PRESSURE("pressure_above", "0"), {""}, "n"},
      {"a match that is gone has no pressure",
       PRESSURE("pressure_above", "0"),
       {kHigh, ", 'cgroups': {'/a': null}"},
       "yn"}};
  for (const DetectorCase& each : cases) EXPECT_EQ(fired(each), each.fires) << each.rule;
}

TEST(OomdDetectors, TheHighestWeightedPressureIsCompared) {
  // 3*avg10 + 2*avg60 + avg300 is 360 for /a and 245 for /b, whose avg10 is above the threshold.
  OomdCase run{one_ruleset("{'name': 'pressure_above', 'args': {'cgroup': 'a,b', 'resource': "
                           "'memory', 'threshold': 60, 'duration': 0}}",
                           "{'name': 'continue'}"),
               {"{'time': 1, 'cgroups': {" + full("/a", "40", "80", "80") + ", " +
                full("/b", "65", "20", "10") + "}}"}};
  EXPECT_EQ(outcomes(run)[0], "");
  run.lines = {"{'time': 1, 'cgroups': {" + full("/a", "40", "40", "40") + ", " +
               full("/b", "65", "60", "10") + "}}"};
  EXPECT_EQ(outcomes(run)[0], "r[g] continue=continue");
}

TEST(OomdDetectors, RisingPressureMayNotFallFast) {
  const auto line = [](const char* avg10, const char* avg60) {
    return ", 'cgroups': {" + full("/a", avg10, avg60, "0") + "}";
  };
  const std::string below = line("84.9", "61");
  const std::string first = line("85", "61");
  const std::string falls = line("72", "61");
  const std::string slowly = line("73", "61");
  const std::string calm_minute = line("99", "60");
  constexpr const char* kRising = PRESSURE("pressure_rising_beyond", "0");
  const DetectorCase cases[] = {
      {"the last value begins at 100, so the first tick needs 85", kRising, {below.c_str()}, "n"},
      {"85 is not below 0.85 * 100", kRising, {first.c_str()}, "y"},
      {"72 is below 0.85 * 85", kRising, {first.c_str(), falls.c_str()}, "yn"},
      {"73 is not", kRising, {first.c_str(), slowly.c_str()}, "yy"},
      {"avg60 has to be above as well", kRising, {calm_minute.c_str()}, "n"},
      {"the minute is what has to last",
       PRESSURE("pressure_rising_beyond", "1"),
       {first.c_str(), kSame},
       "ny"}};
  for (const DetectorCase& each : cases) EXPECT_EQ(fired(each), each.fires) << each.rule;
}

#define MEMORY(ARGUMENTS) "{'name': 'memory_above', 'args': {'cgroup': 'a', " ARGUMENTS "}}"

TEST(OomdDetectors, MemoryIsComparedWithASize) {
  constexpr const char* kTwoMiB =
      ", 'host': {'MemTotal': 20971520}, 'cgroups': {'/a': {'memory.current': 2097152, "
      "'memory.stat': {'anon': 1048577}}}";
  const DetectorCase cases[] = {
      {"a whole number is MiB", MEMORY("'threshold': '1', 'duration': 0"), {kTwoMiB}, "y"},
      {"equal is not above", MEMORY("'threshold': '2', 'duration': 0"), {kTwoMiB}, "n"},
      {"percent of MemTotal, equal", MEMORY("'threshold': '10%', 'duration': 0"), {kTwoMiB}, "n"},
      {"1.9 % is 1 %", MEMORY("'threshold': '9.9%', 'duration': 0"), {kTwoMiB}, "y"},
      {"a fraction without a unit is bytes",
       MEMORY("'threshold': '1.5', 'duration': 0"),
       {", 'cgroups': {'/a': {'memory.current': 2}}"},
       "y"},
      {"anon replaces usage",
       MEMORY("'threshold': '9', 'threshold_anon': '1', 'duration': 0"),
       {kTwoMiB},
       "y"},
      {"it has to last", MEMORY("'threshold': '1', 'duration': 1"), {kTwoMiB, kSame}, "ny"},
      {"unknown usage does not fire",
       MEMORY("'threshold': '0', 'duration': 0"),
       {", 'cgroups': {'/a': {}}"},
       "n"},
      {"no match counts 0, which is above a negative threshold",
       MEMORY("'threshold': '-1', 'duration': 0"),
       {""},
       "y"},
      {"percent of an unknown total does not fire",
       MEMORY("'threshold': '0%', 'duration': 0"),
       {", 'cgroups': {'/a': {'memory.current': 5}}"},
       "n"},
      {"the root uses MemTotal - MemFree",
       "{'name': 'memory_above', 'args': {'cgroup': '/', 'threshold': '3K', 'duration': 0}}",
       {", 'host': {'MemTotal': 9000, 'MemFree': 5000}", ", 'host': {'MemFree': 6000}"},
       "yn"}};
  for (const DetectorCase& each : cases) EXPECT_EQ(fired(each), each.fires) << each.rule;
}

TEST(OomdDetectors, ReclaimIsGrowthOfScannedPages) {
  constexpr const char* kReclaim =
      "{'name': 'memory_reclaim', 'args': {'cgroup': 'a,b', 'duration': '2'}}";
  const DetectorCase cases[] = {
      {"what was scanned before the first tick does not count",
       kReclaim,
       {", 'cgroups': {'/a': {'memory.stat': {'pgscan': 5}}}", kSame},
       "nn"},
      {"growth holds for the duration, inclusive",
       kReclaim,
       {", 'cgroups': {'/a': {'memory.stat': {'pgscan': 5}}}",
        ", 'cgroups': {'/a': {'memory.stat': {'pgscan': 6}}}", kSame, kSame, kSame},
       "nyyyn"},
      {"a cgroup that vanishes hides growth of another",
       kReclaim,
       {", 'cgroups': {'/a': {'memory.stat': {'pgscan': 5}}, '/b': {'memory.stat': {'pgscan': 5}}}",
        ", 'cgroups': {'/a': {'memory.stat': {'pgscan': 6}}, '/b': null}"},
       "nn"},
      {"a new cgroup has been scanned since the last tick",
       kReclaim,
       {"", ", 'cgroups': {'/a': {'memory.stat': {'pgscan': 5}}}"},
       "ny"}};
  for (const DetectorCase& each : cases) EXPECT_EQ(fired(each), each.fires) << each.rule;
}

TEST(OomdDetectors, SwapExistenceAndDyingDescendants) {
  constexpr const char* kSwapFree = "{'name': 'swap_free', 'args': {'threshold_pct': '20'}}";
  constexpr const char* kExists = "{'name': 'exists', 'args': {'cgroup': 'a/*'}}";
  constexpr const char* kAbsent = "{'name': 'exists', 'args': {'cgroup': 'a/*', 'negate': true}}";
  constexpr const char* kFew =
      "{'name': 'nr_dying_descendants', 'args': {'cgroup': 'a', 'count': 3}}";
  constexpr const char* kMany =
      "{'name': 'nr_dying_descendants', 'args': {'cgroup': 'a', 'count': 3, 'lte': 'false'}}";
  constexpr const char* kThree =
      ", 'cgroups': {'/a': {'cgroup.stat': {'nr_dying_descendants': 3}}}";
  constexpr const char* kFour = ", 'cgroups': {'/a': {'cgroup.stat': {'nr_dying_descendants': 4}}}";
  const DetectorCase cases[] = {
      {"strictly below", kSwapFree, {", 'host': {'swap': {'total': 100, 'used': 80}}"}, "n"},
      {"below", kSwapFree, {", 'host': {'swap': {'total': 100, 'used': 81}}"}, "y"},
      {"whole numbers: 20 % of 104 is 20",
       kSwapFree,
       {", 'host': {'swap': {'total': 104, 'used': 84}}"},
       "n"},
      {"never without swap", kSwapFree, {", 'host': {'swap': {'total': 0, 'used': 0}}"}, "n"},
      {"unknown swap", kSwapFree, {""}, "n"},
      {"any match exists", kExists, {"", ", 'cgroups': {'/a/x': {}}"}, "ny"},
      {"none exists", kAbsent, {"", ", 'cgroups': {'/a/x': {}}"}, "yn"},
      {"at most", kFew, {kThree, kFour}, "yn"},
      {"more than", kMany, {kThree, kFour}, "ny"},
      {"no match", kFew, {""}, "n"},
      {"an unknown number is not few", kFew, {", 'cgroups': {'/a': {}}"}, "n"},
      {"a file without the number counts 0",
       kFew,
       {", 'cgroups': {'/a': {'cgroup.stat': {}}}"},
       "y"},
      {"an overview always continues",
       "{'name': 'dump_cgroup_overview', 'args': {'cgroup': 'a'}}",
       {""},
       "y"},
      {"stop is false", "{'name': 'stop'}", {""}, "n"}};
  for (const DetectorCase& each : cases) EXPECT_EQ(fired(each), each.fires) << each.rule;
}

}  // namespace
}  // namespace forestall::test
