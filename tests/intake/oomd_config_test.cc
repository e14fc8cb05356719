// SPDX-License-Identifier: Apache-2.0
// oomd.json: what is accepted, the typed values, and the exact message of what is refused.
#include "intake/oomd_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "intake/io_devices.h"
#include "intake/oomd_values.h"
#include "intake/senpai_config.h"

namespace forestall::intake {
namespace {

using testing::HasSubstr;

std::string quotes(std::string_view json) {
  std::string text(json);
  std::replace(text.begin(), text.end(), '\'', '"');
  return text;
}

// The first finding, or "accepted".
std::string verdict(const std::string& json) {
  text::Findings findings;
  const auto config = parse_oomd_config("oomd.json", quotes(json), findings);
  if (config.has_value() != findings.errors.empty()) return "a verdict without findings";
  return config ? "accepted" : text::format_each(findings.errors).front();
}

std::string with_ruleset(const std::string& members) {
  return "{'rulesets': [{'name': 'r', " + members + "}]}";
}

constexpr const char* kChain =
    "'detectors': [['g', {'name': 'continue'}]], 'actions': [{'name': 'continue'}]";

std::string with_plugin(const std::string& plugin) {
  return with_ruleset("'actions': [{'name': 'continue'}], 'detectors': [['g', " + plugin + "]]");
}

OomdConfig accepted(const std::string& json) {
  text::Findings findings;
  auto config = parse_oomd_config("oomd.json", quotes(json), findings);
  EXPECT_TRUE(config) << text::format(findings.errors);
  return config ? std::move(*config) : OomdConfig();
}

// The arguments of the only detector.
template <typename Arguments>
Arguments arguments_of(const std::string& plugin) {
  const OomdConfig config = accepted(with_plugin(plugin));
  if (config.rulesets.empty()) return {};
  return std::get<Arguments>(config.rulesets[0].groups[0].plugins[0].arguments);
}

TEST(OomdConfig, DefaultsAndForms) {
  const OomdConfig config = accepted(
      "// a comment\n{'rulesets': [{'name': 7, 'silence-logs': ' engine , plugins', "
      "'post_action_delay': '3', 'prekill_hook_timeout': 4, 'drop-in': {'detectors': true, "
      "'actions': false, 'disable-on-drop-in': true,}, " +
      std::string(kChain) + "}, {'name': 'r', 'post_action_delay': '', " + kChain +
      "}], /* hooks */ 'prekill_hooks': [{'name': 'dummy_prekill_hook', 'args': {'cgroup': "
      "'a,b/*'}}]}");
  ASSERT_EQ(config.rulesets.size(), 2U);
  const rulesets::Ruleset& first = config.rulesets[0];
  EXPECT_EQ(first.name, "7");
  EXPECT_TRUE(first.silence_engine && first.silence_plugins);
  EXPECT_EQ(first.post_action_delay, 3);
  EXPECT_EQ(first.prekill_hook_timeout, 4);
  EXPECT_TRUE(first.drop_in_detectors && first.disable_on_drop_in);
  EXPECT_FALSE(first.drop_in_actions);
  EXPECT_EQ(first.groups[0].name, "g");
  EXPECT_EQ(config.rulesets[1].post_action_delay, 15);
  EXPECT_EQ(config.rulesets[1].prekill_hook_timeout, 5);
  ASSERT_EQ(config.hooks.size(), 1U);
  EXPECT_EQ(config.hooks[0].cgroups[1].components.size(), 2U);
  EXPECT_TRUE(accepted("{}").rulesets.empty());
}

TEST(OomdConfig, WhatOomdRefusesOrIgnoresIsRefusedWithItsPlace) {
  const std::pair<std::string, const char*> cases[] = {
      {"{} x", "oomd.json:1:4: invalid JSON: text after the end of the document"},
      {"[]", "oomd.json:1:1: expected an object, found a list"},
      {"{'ruleset': []}", "oomd.json:1:2: unknown key 'ruleset'; did you mean 'rulesets'?"},
      {"{'rulesets': {}}", "oomd.json:1:14: 'rulesets': expected a list, found an object"},
      {"{'rulesets': [{" + std::string(kChain) + "}]}",
       "oomd.json:1:15: 'name' of the ruleset is missing"},
      {with_ruleset("'detectors': [['g', {'name': 'continue'}]]"),
       "oomd.json:1:24: ruleset 'r' has no actions"},
      {with_ruleset("'detectors': [], 'actions': [{'name': 'continue'}]"),
       "oomd.json:1:24: ruleset 'r' has no detectors"},
      {with_ruleset("'detectors': [['g']], 'actions': [{'name': 'continue'}]"),
       "oomd.json:1:43: group 'g' has no detectors"},
      {with_ruleset("'detectors': [[{'name': 'continue'}]], 'actions': [{'name': 'continue'}]"),
       "oomd.json:1:43: the first item of a group of detectors must be its name"},
      {with_ruleset(std::string(kChain) + ", 'cgroup': 'a'"),
       "oomd.json:1:108: 'cgroup' is of an oomd later than 0.5.0, which would ignore it; remove "
       "it"},
      {with_ruleset(std::string(kChain) + ", 'post_action_delay': '7s'"),
       "oomd.json:1:129: 'post_action_delay': expected a whole number, found '7s'; oomd would "
       "ignore what follows 7"},
      {with_ruleset(std::string(kChain) + ", 'post_action_delay': -1"),
       "oomd.json:1:129: 'post_action_delay' must not be negative"},
      {with_ruleset(std::string(kChain) + ", 'silence-logs': 'all'"),
       "oomd.json:1:124: 'silence-logs': unknown word 'all'; use engine or plugins"},
      {with_ruleset(std::string(kChain) + ", 'drop-in': {'actions': 'true'}"),
       "oomd.json:1:131: 'actions': expected 0 or 1, found 'true'"},
      {with_plugin("{'name': 'presure_above'}"),
       "oomd.json:1:93: unknown plugin 'presure_above'; did you mean 'pressure_above'?"},
      {with_plugin("{'args': {}}"),
       "oomd.json:1:84: 'name' is missing in a plugin: {\"name\": .., \"args\": {..}}"},
      {with_plugin("{'name': 'exists'}"), "oomd.json:1:84: exists needs the argument 'cgroup'"},
      {with_plugin("{'name': 'exists', 'args': {'cgroup': 'a', 'negat': true}}"),
       "oomd.json:1:127: exists has no argument 'negat'; did you mean 'negate'?"},
      {with_plugin("{'name': 'exists', 'args': {'cgroup': ['a']}}"),
       "oomd.json:1:122: 'cgroup' of exists: expected a string, a number, true or false, found a "
       "list; oomd would drop this and the arguments after it"},
      {with_plugin("{'name': 'kill_by_io_cost', 'args': {'cgroup': 'a', 'kernelkill': true}}"),
       "oomd.json:1:136: kill_by_io_cost has no argument 'kernelkill' (it is of an oomd later than "
       "0.5.0)"},
      {with_plugin("{'name': 'swap_free', 'args': {'threshold_pct': 60.9}}"),
       "oomd.json:1:132: 'threshold_pct' of swap_free: expected a whole number, found "
       "'60.899999999999999'; oomd would ignore what follows 60"},
      {with_plugin("{'name': 'swap_free', 'args': {'threshold_pct': '99999999999'}}"),
       "oomd.json:1:132: 'threshold_pct' of swap_free: '99999999999' does not fit 32 bits"},
      {with_plugin("{'name': 'exists', 'args': {'cgroup': 'a', 'negate': 'yes'}}"),
       "oomd.json:1:137: 'negate' of exists: expected true or false, found 'yes'"},
      {with_plugin("{'name': 'senpai', 'args': {'cgroup': 'a', 'limit_min_bytes': '100M'}}"),
       "oomd.json:1:146: 'limit_min_bytes' of senpai: expected a whole number without a unit, "
       "found '100M'; oomd would read 100"},
      {with_plugin("{'name': 'kill_by_memory_size_or_growth', 'args': {'cgroup': 'a', "
                   "'growing_size_percentile': 100}}"),
       "oomd.json:1:177: 'growing_size_percentile' of kill_by_memory_size_or_growth: must be below "
       "100; oomd's behaviour is undefined from 100 on"},
      {"{'prekill_hooks': [{'name': 'hook'}]}",
       "oomd.json:1:29: unknown prekill hook 'hook'; use dummy_prekill_hook"}};
  for (const auto& [json, expected] : cases) EXPECT_EQ(verdict(json), expected) << json;
}

TEST(OomdConfig, ContinueAndStopIgnoreTheirArguments) {
  EXPECT_EQ(verdict(with_plugin("{'name': 'stop', 'args': {'x': 1}}")), "accepted");
}

TEST(OomdConfig, ArgumentsAreTyped) {
  const auto pressure = arguments_of<rulesets::PressureAbove>(
      "{'name': 'pressure_rising_beyond', 'args': {'cgroup': 'a', 'resource': 'io', 'threshold': "
      "' 60', 'duration': 7.0}}");
  EXPECT_EQ(pressure.resource, rulesets::PressureResource::io);
  EXPECT_EQ(pressure.threshold, 60);
  EXPECT_EQ(pressure.duration, 7);
  EXPECT_FLOAT_EQ(pressure.fast_fall_ratio.value_or(0), 0.85F);
  const auto kill = arguments_of<rulesets::Kill>(
      "{'name': 'kill_by_memory_size_or_growth', 'args': {'cgroup': 'a', 'recursive': 1, "
      "'post_action_delay': 0, 'min_growth_ratio': '1.5'}}");
  EXPECT_TRUE(kill.recursive);
  EXPECT_EQ(kill.post_action_delay, 0);
  EXPECT_DOUBLE_EQ(kill.min_growth_ratio, 1.5);
  EXPECT_EQ(kill.size_threshold, 50);
  const auto memory = arguments_of<rulesets::MemoryAbove>(
      "{'name': 'memory_above', 'args': {'cgroup': 'a', 'threshold_anon': '10%', 'duration': 1}}");
  EXPECT_TRUE(memory.anon);
  EXPECT_EQ(memory.threshold, (rulesets::SizeOrPercent{true, 10}));
  const auto unread = arguments_of<rulesets::MemoryAbove>(
      "{'name': 'memory_above', 'args': {'cgroup': 'a', 'threshold': 'rubbish', 'threshold_anon': "
      "'10%', 'duration': 1}}");
  EXPECT_EQ(unread.threshold, (rulesets::SizeOrPercent{true, 10}));
}

// rulesets' sizes: percent, whole numbers, sums.
TEST(OomdSizes, FollowOomdsGrammar) {
  const std::pair<const char*, std::int64_t> bytes[] = {
      {"1", 1 << 20}, {" 1", 1 << 20},     {"-1", -(1 << 20)},        {"1.5", 1},
      {"5 ", 5},      {"1.5G", 3LL << 29}, {"1G 512M", 3LL << 29},    {"1e3", 1000},
      {"0x10", 16},   {"2k3", 2051},       {"1T", 1LL << 40},         {"0", 0},
      {"1 k", 1024},  {"1e3k", 1024000},   {"-1G512M", -(3LL << 29)}, {"+1k+1k", 2048}};
  for (const auto& [text, expected] : bytes) {
    const auto size = parse_oomd_size(text);
    ASSERT_TRUE(size) << text;
    EXPECT_EQ(size->value, expected) << text;
    EXPECT_FALSE(size->is_percent) << text;
  }
  for (const auto& [text, expected] : {std::pair("10%", 10), {"1.9%", 1}, {"0%", 0}, {" 7%", 7}}) {
    EXPECT_EQ(parse_oomd_size(text).value(), (rulesets::SizeOrPercent{true, expected})) << text;
  }
  for (const char* text : {"", "%", "G", ".5G", "1GB", "1KiB", "101%", "-1%", "x", "1x", "1Gnan",
                           "1G-512M", "- 5k", "99999999999999999999", "9e30"}) {
    EXPECT_FALSE(parse_oomd_size(text)) << text;
  }
}

TEST(OomdConfig, DifferencesNameTheirPlace) {
  const OomdConfig config = accepted(
      with_plugin("{'name': 'kill_by_swap_usage', 'args': {'cgroup': 'a', 'threshold': '5%'}}"));
  ASSERT_EQ(config.differences.size(), 1U);
  EXPECT_EQ(text::to_string(config.differences[0].place), "oomd.json:1:139");
  EXPECT_THAT(config.differences[0].original, HasSubstr("32 bits"));
  EXPECT_TRUE(accepted(with_plugin("{'name': 'swap_free', 'args': {'threshold_pct': 5}}"))
                  .differences.empty());
  const OomdConfig negative =
      accepted(with_plugin("{'name': 'swap_free', 'args': {'threshold_pct': -5}}"));
  ASSERT_EQ(negative.differences.size(), 1U);
  EXPECT_EQ(negative.differences[0].forestall, "never fires");
}

std::string drop_in_verdict(const std::string& json) {
  const OomdConfig base = accepted("{'rulesets': [{'name': 'r', 'drop-in': {'detectors': true}, " +
                                   std::string(kChain) + "}]}");
  text::Findings findings;
  const auto drop_in =
      parse_oomd_drop_in("d/x.json", "x.json", quotes(json), base.rulesets, findings);
  return drop_in ? "accepted" : text::format_each(findings.errors).front();
}

TEST(OomdDropInFile, NamesABaseAndReplacesWhatItMay) {
  EXPECT_EQ(drop_in_verdict("{'rulesets': [{'name': 'r'}]}"), "accepted");
  EXPECT_EQ(drop_in_verdict("{'rulesets': [{'name': 'q'}]}"),
            "d/x.json:1:24: no ruleset 'q' to drop this into");
  EXPECT_EQ(drop_in_verdict("{'rulesets': [{'name': 'r', 'actions': [{'name': 'stop'}]}]}"),
            "d/x.json:1:29: ruleset 'r' does not let drop-ins replace its actions: set actions in "
            "its 'drop-in'");
  EXPECT_EQ(drop_in_verdict("{'rulesets': [{'name': 'r', 'detectors': [['h', {'name': "
                            "'continue'}]]}]}"),
            "accepted");
}

TEST(IoDevices, HaveAKind) {
  const auto devices = parse_io_devices("8:0=hdd,259:0=ssd");
  ASSERT_TRUE(devices);
  EXPECT_EQ((*devices)[1].device, "259:0");
  EXPECT_DOUBLE_EQ((*devices)[1].cost[5], 9.1e-10);
  EXPECT_TRUE(parse_io_devices("").value().empty());
  EXPECT_FALSE(parse_io_devices("8:0"));
  EXPECT_FALSE(parse_io_devices("8=hdd"));
  EXPECT_FALSE(parse_io_devices("8:0=hdd,8:0=ssd"));
}

TEST(SenpaiConfig, AcceptsTheSpellingsOfItsKeys) {
  text::Findings findings;
  const auto config = parse_senpai_config(
      "s.json", quotes("{'cgroup': 'a', 'min-size': 1, 'max_size': 2, 'coeffProbe': 0.5}"),
      findings);
  ASSERT_TRUE(config) << text::format(findings.errors);
  EXPECT_EQ(config->cgroup, "/a");
  EXPECT_EQ(config->min_size, 1);
  EXPECT_EQ(config->max_size, 2);
  EXPECT_DOUBLE_EQ(config->coeff_probe, 0.5);
  EXPECT_FALSE(parse_senpai_config("s.json", quotes("{'cgroup': 'a', 'size': 1}"), findings));
  EXPECT_FALSE(parse_senpai_config("s.json", "{}", findings));
}

}  // namespace
}  // namespace forestall::intake
