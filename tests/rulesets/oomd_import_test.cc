// SPDX-License-Identifier: Apache-2.0
// `forestall import-oomd`: the imported rulesets decide as the original ones do.
#include "intake/oomd_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "oomd_case.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

// Random rulesets and observations; the same seed gives the same case.
class RandomOomd {
 public:
  explicit RandomOomd(std::uint32_t seed) : random_(seed) {}

  std::string config() {
    std::string all;
    const int count = number(1, 3);
    for (int i = 0; i < count; ++i) {
      std::string groups;
      const int size = number(1, 3);
      for (int g = 0; g < size; ++g) {
        groups += comma(groups) + "['g" + std::to_string(g) + "', " + detector() +
                  (chance(3) ? ", " + detector() : "") + "]";
      }
      if (chance(2)) groups += ", ['always', {'name': 'continue'}]";
      all += comma(all) + "{'name': 'r" + std::to_string(i) + "', 'detectors': [" + groups +
             "], 'actions': [" + action() + (chance(2) ? ", " + action() : "") +
             "], 'post_action_delay': " + std::to_string(number(0, 3)) + "}";
    }
    return "{'rulesets': [" + all + "]}";
  }

  std::vector<std::string> lines() {
    std::vector<std::string> all;
    double time = 0;
    const int count = number(2, 10);
    for (int i = 0; i < count; ++i) {
      std::string cgroups;
      for (const char* path : {"/a", "/a/x", "/a/y", "/b", "/c"}) {
        if (i == 0 || chance(2)) cgroups += comma(cgroups) + cgroup(path);
      }
      all.push_back("{'time': " + std::to_string(time) +
                    ", 'host': {'MemTotal': 10000, 'MemFree': " + std::to_string(number(0, 10000)) +
                    ", 'SwapTotal': 1000, 'SwapFree': " + std::to_string(number(0, 1000)) +
                    "}, 'cgroups': {" + cgroups + "}}");
      time += pick<double>({0.5, 1, 1, 2, 5});
    }
    return all;
  }

 private:
  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  bool chance(int of) { return number(1, of) == 1; }
  template <typename T>
  T pick(std::vector<T> values) {
    return values[static_cast<std::size_t>(number(0, static_cast<int>(values.size()) - 1))];
  }
  static std::string comma(const std::string& before) { return before.empty() ? "" : ", "; }

  std::string patterns() {
    return "'" + pick<std::string>({"a", "*", "a/*", "*,a/*", "[ab]", "{b}", "nope", "", "b,c"}) +
           "'";
  }

  std::string detector() {
    const std::string cgroup = "{'cgroup': " + patterns();
    const std::string duration = ", 'duration': " + std::to_string(number(0, 3)) + "}}";
    const std::string resource = ", 'resource': '" + pick<std::string>({"io", "memory"}) + "'";
    switch (number(0, 6)) {
      case 0:
        return "{'name': 'pressure_above', 'args': " + cgroup + resource +
               ", 'threshold': " + std::to_string(number(0, 90)) + duration;
      case 1:
        return "{'name': 'pressure_rising_beyond', 'args': " + cgroup + resource +
               ", 'fast_fall_ratio': " + pick<std::string>({"0.5", "0.85", "1.1"}) +
               ", 'threshold': " + std::to_string(number(0, 90)) + duration;
      case 2:
        return "{'name': 'memory_above', 'args': " + cgroup + ", '" +
               pick<std::string>({"threshold", "threshold_anon"}) + "': '" +
               pick<std::string>({"4K", "0", "33%"}) + "'" + duration;
      case 3: return "{'name': 'memory_reclaim', 'args': " + cgroup + duration;
      case 4:
        return "{'name': 'swap_free', 'args': {'threshold_pct': " + std::to_string(number(0, 100)) +
               "}}";
      case 5:
        return "{'name': 'exists', 'args': " + cgroup +
               ", 'negate': " + pick<std::string>({"true", "false"}) + "}}";
      default:
        return "{'name': 'nr_dying_descendants', 'args': " + cgroup +
               ", 'count': 5, 'lte': " + pick<std::string>({"true", "false"}) + "}}";
    }
  }

  std::string action() {
    if (chance(6)) return "{'name': '" + pick<std::string>({"continue", "stop"}) + "'}";
    if (chance(8)) {
      return "{'name': 'systemd_restart', 'args': {'service': 'a.service', 'post_action_delay': "
             "1}}";
    }
    const std::string by = pick<std::string>(
        {"memory_size_or_growth", "swap_usage", "pressure", "io_cost", "pg_scan"});
    std::string text = "{'name': 'kill_by_" + by + "', 'args': {'cgroup': " +
                       pick<std::string>({"'a'", "'*'", "'a/*'", "'*,a/*'", "'nope'"});
    for (const char* flag : {"recursive", "dry", "always_continue"}) {
      if (chance(3)) text += ", '" + std::string(flag) + "': true";
    }
    if (by == "pressure") text += ", 'resource': 'memory'";
    if (by == "swap_usage" && chance(2))
      text += ", 'threshold': '" + pick<std::string>({"100K", "10%", "0"}) + "'";
    if (by == "memory_size_or_growth" && chance(2)) {
      text += ", 'size_threshold': " + std::to_string(number(0, 100)) +
              ", 'growing_size_percentile': " + std::to_string(number(0, 99));
    }
    if (chance(4)) text += ", 'post_action_delay': " + std::to_string(number(0, 3));
    return text + "}}";
  }

  std::string pressure() {
    const auto line = [this] {
      return "{'avg10': " + std::to_string(number(0, 100)) +
             ", 'avg60': " + std::to_string(number(0, 100)) +
             ", 'avg300': " + std::to_string(number(0, 100)) + "}";
    };
    return "{'some': " + line() + ", 'full': " + line() + "}";
  }

  std::string cgroup(const std::string& path) {
    return "'" + path + "': {'memory.current': " + std::to_string(number(0, 9000)) +
           ", 'memory.swap.current': " + std::to_string(number(0, 200)) +
           ", 'memory.low': " + std::to_string(number(0, 3000)) + ", 'memory.min': 0" +
           ", 'memory.stat': {'anon': " + std::to_string(number(0, 9000)) +
           ", 'pgscan': " + std::to_string(number(0, 50)) + "}, 'memory.pressure': " + pressure() +
           ", 'io.pressure': " + pressure() +
           ", 'io.stat': {'8:0': {'rbytes': " + std::to_string(number(0, 900)) +
           "}}, 'cgroup.stat': {'nr_dying_descendants': " + std::to_string(number(0, 9)) +
           "}, 'populated': " + std::to_string(number(0, 5) > 0) + ", 'xattrs': {'" +
           pick<std::string>({"user.x", "user.oomd_prefer", "trusted.oomd_avoid", "user.x"}) +
           "': '1'}" + (chance(6) ? ", 'kill': 'fails'" : "") + "}";
  }

  std::mt19937 random_;
};

std::string imported_yaml(const std::string& config) {
  text::Findings findings;
  const auto parsed = intake::parse_oomd_config("oomd.json", double_quoted(config), findings);
  if (!parsed) return text::format(findings.errors);
  const auto imported = intake::import_oomd("oomd.json", *parsed, findings);
  return imported ? imported->yaml : text::format(findings.errors);
}

TEST(OomdImport, ImportedRulesetsDecideAsTheOriginals) {
  int kills = 0;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    RandomOomd random(seed);
    OomdCase original{random.config(), random.lines(), "8:0=hdd"};
    original.names = false;
    OomdCase imported = original;
    imported.config = imported_yaml(original.config);
    imported.own = true;
    const std::vector<std::string> expected = outcomes(original);
    ASSERT_EQ(outcomes(imported), expected) << seed << "\n" << imported.config << original.config;
    for (const std::string& each : expected) {
      if (each.find("killed") != std::string::npos) ++kills;
    }
  }
  EXPECT_GT(kills, 300);
}

TEST(OomdImport, NamesAreQuoted) {
  const std::string yaml = imported_yaml(
      "{'rulesets': [{'name': 'a: #b', 'detectors': [['- g', {'name': 'exists', 'args': {'cgroup': "
      "'x y'}}]], 'actions': [{'name': 'stop'}]}]}");
  EXPECT_EQ(yaml,
            "rulesets:\n- name: \"a: #b\"\n  pause: 15s\n  detectors:\n  - name: \"- g\"\n    "
            "all:\n    - exists: [\"/x y\"]\n  actions:\n  - chain: stop\n");
}

TEST(OomdImport, WhatRulesetsCannotExpressIsRefusedByName) {
  EXPECT_EQ(
      imported_yaml(one_ruleset("{'name': 'stop'}", "{'name': 'senpai', 'args': {'cgroup': 'a'}}")),
      "oomd.json: ruleset 'r', action 1 (senpai): rulesets have no proactive reclaim");
  EXPECT_EQ(
      imported_yaml(one_ruleset("{'name': 'kill_by_io_cost', 'args': {'cgroup': 'a'}}",
                                "{'name': 'exists', 'args': {'cgroup': 'a'}}")),
      "oomd.json: ruleset 'r', group 'g' (kill_by_io_cost): an action among the detectors; write "
      "it as an action of a ruleset of its own\n"
      "oomd.json: ruleset 'r', action 1 (exists): a detector among the actions; add it to the "
      "groups of detectors");
  EXPECT_THAT(imported_yaml(one_ruleset("{'name': 'swap_free', 'args': {'threshold_pct': 101}}",
                                        "{'name': 'stop'}")),
              HasSubstr("imported rulesets of oomd.json:7:"));
  EXPECT_THAT(imported_yaml(one_ruleset("{'name': 'stop'}",
                                        "{'name': 'kill_by_io_cost', 'args': {'cgroup': '/'}}")),
              HasSubstr("killing the root cgroup would kill every process"));
}

}  // namespace
}  // namespace forestall::test
