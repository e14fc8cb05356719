// SPDX-License-Identifier: Apache-2.0
// Forestall's own detectors and actions, on short observations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oomd_case.h"

namespace forestall::test {
namespace {

using testing::ElementsAre;

// One group "g" with one detector, in YAML.
std::string detecting(const std::string& detector) {
  return "rulesets: [{name: r, detectors: [{name: g, all: [{" + detector +
         "}]}], actions: [{chain: continue}]}]";
}

// One ruleset that always fires.
std::string acting(const std::string& actions) {
  return "rulesets: [{name: r, pause: 0s, detectors: [{name: g, all: [{exists: [/go]}]}], actions: "
         "[" +
         actions + "]}]";
}

// One digit for each line: whether the group fired.
std::string fired_of(const std::string& detector, std::vector<std::string> lines) {
  OomdCase given{detecting(detector), std::move(lines)};
  given.own = true;
  std::string digits;
  for (const std::string& each : outcomes(given)) digits += each.empty() ? "0" : "1";
  return digits;
}

std::vector<std::string> acted(const std::string& actions, std::vector<std::string> lines) {
  OomdCase given{acting(actions), std::move(lines)};
  given.own = true;
  return outcomes(given);
}

std::string at(double time, const std::string& cgroups, const std::string& host = "") {
  return "{'time': " + std::to_string(time) + ", 'host': {" + host + "}, 'cgroups': {" + cgroups +
         "}}";
}

std::string stalled(const std::string& kind, double avg10, std::int64_t total,
                    const std::string& file = "memory.pressure") {
  return "'" + file + "': {'" + kind + "': {'avg10': " + std::to_string(avg10) +
         ", 'avg60': 50, 'avg300': 1, 'total': " + std::to_string(total) + "}}";
}

TEST(OwnDetectors, PressureIsOfTheChosenKindAndResource) {
  const std::string lines =
      "'/a': {" + stalled("some", 40, 0, "cpu.pressure") + ", " + stalled("full", 20, 0) + "}";
  const std::string cpu = "pressure: {cgroups: [/a], resource: cpu, stalled: some, above: 30%}";
  EXPECT_EQ(fired_of(cpu, {at(0, lines)}), "1");
  EXPECT_EQ(fired_of("pressure: {cgroups: [/a], above: 30%}", {at(0, lines)}), "0");
  EXPECT_EQ(fired_of("pressure: {cgroups: [/a], above: 19.9%}", {at(0, lines)}), "1");
  EXPECT_EQ(fired_of("pressure: {cgroups: [/a], average: 60s, above: 49%}", {at(0, lines)}), "1");
  // No cgroup has this file.
  EXPECT_EQ(fired_of("pressure: {cgroups: [/a], resource: io, above: 0%}", {at(0, lines)}), "0");
}

TEST(OwnDetectors, AWindowIsTheExactShareOfStallTime) {
  // 1 s of stall in 2 s, then none.
  const auto line = [](double time, std::int64_t total) {
    return at(time, "'/a': {" + stalled("full", 0, total) + "}");
  };
  const std::vector<std::string> lines{line(0, 5'000'000), line(1, 5'500'000), line(2, 6'000'000),
                                       line(3, 6'000'000), line(4, 6'000'000)};
  EXPECT_EQ(fired_of("pressure: {cgroups: [/a], window: 2s, above: 49%}", lines), "00100");
  EXPECT_EQ(fired_of("pressure: {cgroups: [/a], window: 2s, above: 50%}", lines), "00000");
  EXPECT_EQ(fired_of("pressure: {cgroups: [/a], window: 1s, above: 49%}", lines), "01100");
}

TEST(OwnDetectors, TheHighestValueOrTheHighestWeightDecides) {
  // /a has the higher avg10, /b the higher sum of weights.
  const std::string lines =
      "'/a': {'memory.pressure': {'full': {'avg10': 50, 'avg60': 0, 'avg300': 0}}}, "
      "'/b': {'memory.pressure': {'full': {'avg10': 40, 'avg60': 40, 'avg300': 0}}}";
  EXPECT_EQ(fired_of("pressure: {cgroups: ['/*'], above: 45%}", {at(0, lines)}), "1");
  EXPECT_EQ(fired_of("pressure: {cgroups: ['/*'], above: 45%, worstBy: weighted}", {at(0, lines)}),
            "0");
}

TEST(OwnDetectors, FallingPressureDoesNotFire) {
  const auto line = [](double time, double avg10) {
    return at(time, "'/a': {" + stalled("full", avg10, 0) + "}");
  };
  EXPECT_EQ(fired_of("pressure: {cgroups: [/a], above: 10%, fallingAtMostTo: '0.5'}",
                     {line(0, 60), line(1, 31), line(2, 15), line(3, 14)}),
            "1101");
}

TEST(OwnDetectors, AvailableMemoryAndSwapAreComparedWithAmounts) {
  const std::string host = "'MemTotal': 1000, 'MemAvailable': 99, 'SwapTotal': 0, 'SwapFree': 0";
  EXPECT_EQ(fired_of("available: {below: 10%}", {at(0, "", host)}), "1");
  EXPECT_EQ(fired_of("available: {below: '99'}", {at(0, "", host)}), "0");
  EXPECT_EQ(fired_of("available: {below: 10%, for: 2s}", {at(0, "", host), at(1, ""), at(2, "")}),
            "001");
  // Without swap nothing runs out.
  EXPECT_EQ(fired_of("available: {resource: swap, below: 100%}", {at(0, "", host)}), "0");
  EXPECT_EQ(fired_of("available: {resource: swap, below: 50%}",
                     {at(0, "", "'SwapTotal': 100, 'SwapFree': 49")}),
            "1");
  EXPECT_EQ(fired_of("available: {below: 100%}", {at(0, "")}), "0");
}

TEST(OwnDetectors, RatesAreComputedOverTheWholeTime) {
  const auto line = [](double time, int current, int refaults) {
    return at(time, "'/a': {'memory.current': " + std::to_string(current) +
                        ", 'memory.stat': {'pgscan': " + std::to_string(refaults) +
                        ", 'workingset_refault_anon': 3, 'workingset_refault_file': " +
                        std::to_string(refaults) + "}}");
  };
  const std::vector<std::string> lines{line(0, 100, 0), line(1, 100, 90), line(2, 321, 200)};
  // 221 in 2 s, and in the last second.
  EXPECT_EQ(fired_of("growth: {cgroups: [/a], above: '110', over: 2s}", lines), "001");
  EXPECT_EQ(fired_of("growth: {cgroups: [/a], above: '111', over: 2s}", lines), "000");
  EXPECT_EQ(fired_of("growth: {cgroups: [/a], above: '111', over: 1s}", lines), "001");
  EXPECT_EQ(fired_of("refaults: {cgroups: [/a], above: '89', over: 1s}", lines), "011");
  EXPECT_EQ(fired_of("scans: {cgroups: [/a], above: '99', over: 2s}", lines), "001");
  EXPECT_EQ(fired_of("scans: {cgroups: [/b], above: '0', over: 1s}", lines), "000");
}

TEST(OwnDetectors, UsageMayBeSwap) {
  const std::string line = at(0, "'/a': {'memory.current': 5, 'memory.swap.current': 60}",
                              "'SwapTotal': 100, 'SwapFree': 0");
  EXPECT_EQ(fired_of("usage: {cgroups: [/a], of: swap, above: 50%}", {line}), "1");
  EXPECT_EQ(fired_of("usage: {cgroups: [/a], above: '5'}", {line}), "0");
}

TEST(OwnActions, ReclaimsAShareInWholePages) {
  const std::string all =
      "'/go': {}, '/a': {'memory.current': 100000, 'memory.reclaim': 'ok'}, '/b': "
      "{'memory.current': 100000}";
  // 50 000 bytes hold 12 pages. /b has no memory.reclaim.
  EXPECT_THAT(acted("{reclaim: {cgroups: [/a, /b], amount: 50%}}", {at(0, all)}),
              ElementsAre("r[g] reclaim=continue(/a written) write /a/memory.reclaim=49152"));
  EXPECT_THAT(acted("{reclaim: {cgroups: [/a], amount: 50%, dryRun: true}}", {at(0, all)}),
              ElementsAre("r[g] reclaim=continue(/a dry)"));
}

TEST(OwnActions, AThrottleEndsWhenItsTimeIsOver) {
  const std::string a = "'/go': {}, '/a': {'memory.current': 100000, 'memory.high': 'max'}";
  EXPECT_THAT(acted("{throttle: {cgroups: [/a], high: 50%, for: 2s}}",
                    {at(0, a), at(1, ""), at(2, "'/go': null"), at(3, ""), at(4, "")}),
              ElementsAre("r[g] throttle=continue(/a written) write /a/memory.high=49152",
                          "r[g] throttle=continue", "", "write /a/memory.high=max", ""));
}

TEST(OwnActions, ASettingThatOthersChangedSinceStays) {
  const std::string a = "'/go': {}, '/a': {'memory.current': 100000, 'memory.high': 'max'}";
  EXPECT_THAT(acted("{throttle: {cgroups: [/a], high: 50%, for: 1s}}",
                    {at(0, a), at(1, "'/go': null, '/a': {'memory.high': 77824}"), at(2, "")}),
              ElementsAre("r[g] throttle=continue(/a written) write /a/memory.high=49152", "", ""));
  // A lower limit is not raised.
  EXPECT_THAT(acted("{throttle: {cgroups: [/a], high: 50%, for: 1s}}",
                    {at(0, "'/go': {}, '/a': {'memory.current': 100000, 'memory.high': 4096}")}),
              ElementsAre("r[g] throttle=continue"));
}

TEST(OwnActions, FreezesForATime) {
  const std::string a = "'/go': {}, '/a': {'cgroup.freeze': 0}, '/b': {'cgroup.freeze': 1}";
  EXPECT_THAT(acted("{freeze: {cgroups: ['/[ab]'], for: 1s}}, {log: x}",
                    {at(0, a), at(0.5, "'/go': null"), at(1, "")}),
              ElementsAre("r[g] freeze=continue(/a written) log=continue write /a/cgroup.freeze=1",
                          "", "write /a/cgroup.freeze=0"));
}

TEST(OwnActions, OomdsAttributesCountOnlyIfEnabled) {
  const std::string all =
      "'/go': {}, '/a': {'memory.current': 1, 'xattrs': {'user.oomd_prefer': '1'}}, '/b': "
      "{'memory.current': 9}";
  EXPECT_THAT(acted("{kill: {cgroups: ['/[ab]']}}", {at(0, all)}),
              ElementsAre("r[g] kill=stop(/b killed)"));
  EXPECT_THAT(acted("{kill: {cgroups: ['/[ab]'], preference: oomd}}", {at(0, all)}),
              ElementsAre("r[g] kill=stop(/a killed)"));
}

}  // namespace
}  // namespace forestall::test
