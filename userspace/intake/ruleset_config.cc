// SPDX-License-Identifier: Apache-2.0
#include "intake/ruleset_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "intake/amounts.h"
#include "intake/prekill_hook_config.h"
#include "intake/proactive_reclaim_config.h"
#include "intake/ruleset_values.h"

namespace forestall::intake {
namespace {

using rulesets::Plugin;
using rulesets::PluginArguments;

constexpr int kRulesetsMax = 256;
constexpr int kPluginsMax = 256;
constexpr std::int64_t kSecondsPerHour = 3600;
constexpr std::int64_t kSecondsPerDay = 24 * kSecondsPerHour;

constexpr const char* kCgroupsNotRoot =
    "'cgroups' must not be '/': its settings are those of the whole host";

bool names_root(const rulesets::CgroupPatterns& patterns) {
  for (const rulesets::CgroupPattern& each : patterns) {
    if (each.components.empty()) return true;
  }
  return false;
}

rulesets::PressureResource resource_at(std::size_t word) {
  constexpr rulesets::PressureResource kResources[] = {rulesets::PressureResource::memory,
                                                       rulesets::PressureResource::io,
                                                       rulesets::PressureResource::cpu};
  return kResources[word];
}

// --- detectors ------------------------------------------------------------------------------

PluginArguments pressure(const v1::PressureDetector& given, RuleValues values) {
  rulesets::PressureOver out;
  values.cgroups(given.cgroups(), out.cgroups);
  out.resource = resource_at(
      values.word(given.has_resource(), given.resource(), "resource", {"memory", "io", "cpu"}));
  out.some = values.word(given.has_stalled(), given.stalled(), "stalled", {"full", "some"}) == 1;
  const std::size_t average =
      values.word(given.has_average(), given.average(), "average", {"10s", "60s", "300s"});
  using Average = rulesets::PressureOver::Average;
  constexpr Average kMeasures[] = {Average::avg10, Average::avg60, Average::avg300};
  out.measure = kMeasures[average];
  if (given.has_window()) {
    out.measure = Average::window;
    values.seconds(true, given.window(), "window", 1, kSecondsPerHour, out.window);
    if (given.has_average()) {
      values.report().error(values.path("window"), "'window' and 'average' exclude each other");
    }
  }
  values.require(given.has_above(), "above", "set it to a percentage, such as 60%");
  values.take<double>(given.has_above(), given.above(), "above", parse_rule_percent, out.threshold);
  values.seconds(given.has_for_(), given.for_(), "for", 0, kSecondsPerDay, out.duration);
  values.take<float>(given.has_falling_at_most_to(), given.falling_at_most_to(), "fallingAtMostTo",
                     parse_ratio, out.falling_at_most_to);
  out.weighted =
      values.word(given.has_worst_by(), given.worst_by(), "worstBy", {"value", "weighted"}) == 1;
  return out;
}

PluginArguments available(const v1::AvailableDetector& given, RuleValues values) {
  rulesets::AvailableBelow out;
  out.swap =
      values.word(given.has_resource(), given.resource(), "resource", {"memory", "swap"}) == 1;
  values.require(given.has_below(), "below", "set it to a quantity or percentage, such as 5%");
  values.size(given.has_below(), given.below(), "below", out.threshold);
  values.seconds(given.has_for_(), given.for_(), "for", 0, kSecondsPerDay, out.duration);
  return out;
}

PluginArguments usage(const v1::UsageDetector& given, RuleValues values) {
  rulesets::MemoryAbove out;
  values.cgroups(given.cgroups(), out.cgroups);
  const std::size_t of = values.word(given.has_of(), given.of(), "of", {"memory", "anon", "swap"});
  out.anon = of == 1;
  out.swap = of == 2;
  values.require(given.has_above(), "above", "set it to a quantity or percentage, such as 4Gi");
  values.size(given.has_above(), given.above(), "above", out.threshold);
  values.seconds(given.has_for_(), given.for_(), "for", 0, kSecondsPerDay, out.duration);
  return out;
}

PluginArguments rate(const v1::RateDetector& given, rulesets::RateAbove::Of of, RuleValues values) {
  rulesets::RateAbove out;
  out.of = of;
  values.cgroups(given.cgroups(), out.cgroups);
  values.require(given.has_above(), "above", "set it to the amount per second, such as 10Mi");
  values.take<std::int64_t>(
      given.has_above(), given.above(), "above",
      [](const std::string& text) -> Result<std::int64_t> { return TRY(parse_bytes(text)).count; },
      out.threshold);
  values.seconds(given.has_over(), given.over(), "over", 1, kSecondsPerHour, out.over);
  return out;
}

PluginArguments reclaimed(const v1::ReclaimDetector& given, RuleValues values) {
  rulesets::MemoryReclaim out;
  values.cgroups(given.cgroups(), out.cgroups);
  values.require(given.has_within(), "within", "set it to a duration, such as 10s");
  values.seconds(given.has_within(), given.within(), "within", 0, kSecondsPerDay, out.duration);
  return out;
}

PluginArguments dying(const v1::DyingDetector& given, RuleValues values) {
  rulesets::DyingDescendants out;
  values.cgroups(given.cgroups(), out.cgroups);
  out.at_most = given.has_at_most();
  out.count = given.has_at_most() ? given.at_most() : given.above();
  if (given.has_at_most() == given.has_above()) {
    values.report().error(values.path("above"), "set exactly one of 'above' and 'atMost'");
  }
  return out;
}

PluginArguments existence(const google::protobuf::RepeatedPtrField<std::string>& given,
                          const std::string& key, RuleValues values) {
  rulesets::Exists out;
  out.negate = key == "absent";
  values.cgroups(given, out.cgroups, key);
  return out;
}

// --- actions --------------------------------------------------------------------------------

PluginArguments kill(const v1::KillAction& given, RuleValues values) {
  using rulesets::KillBy;
  rulesets::Kill out;
  values.cgroups(given.cgroups(), out.cgroups);
  constexpr KillBy kOrders[] = {KillBy::memory_size_or_growth, KillBy::swap_usage, KillBy::pressure,
                                KillBy::io_cost, KillBy::pg_scan};
  out.by = kOrders[values.word(given.has_by(), given.by(), "by",
                               {"sizeOrGrowth", "swap", "pressure", "ioCost", "scans"})];
  out.recursive = given.descend();
  if (names_root(out.cgroups) && !out.recursive) {
    values.report().error(values.path("cgroups"),
                          "'cgroups' must not be '/' without 'descend': killing the root cgroup "
                          "would kill every process");
  }
  constexpr rulesets::PreferenceSource kSources[] = {rulesets::PreferenceSource::none,
                                                     rulesets::PreferenceSource::oomd,
                                                     rulesets::PreferenceSource::systemd};
  out.preference = kSources[values.word(given.has_preference(), given.preference(), "preference",
                                        {"none", "oomd", "systemd"})];
  out.always_continue = given.then_continue();
  out.dry = given.dry_run();
  std::int64_t pause = 0;
  values.seconds(given.has_pause(), given.pause(), "pause", 0, kSecondsPerDay, pause);
  if (given.has_pause()) out.post_action_delay = pause;
  const auto only_for = [&](bool is_given, const std::string& key, KillBy by, const char* word) {
    if (!is_given || out.by == by) return;
    values.report().error(values.path(key),
                          fmt::format("'{}' has no effect without 'by: {}'", key, word));
  };
  only_for(given.has_size_share(), "sizeShare", KillBy::memory_size_or_growth, "sizeOrGrowth");
  only_for(given.has_growth_percentile(), "growthPercentile", KillBy::memory_size_or_growth,
           "sizeOrGrowth");
  only_for(given.has_growth_ratio(), "growthRatio", KillBy::memory_size_or_growth, "sizeOrGrowth");
  only_for(given.has_swap_at_least(), "swapAtLeast", KillBy::swap_usage, "swap");
  only_for(given.has_resource(), "resource", KillBy::pressure, "pressure");
  rulesets::SizeOrPercent share{true, out.size_threshold};
  values.size(given.has_size_share(), given.size_share(), "sizeShare", share);
  if (!share.is_percent) {
    values.report().error(values.path("sizeShare"), "'sizeShare' must be a percentage");
  }
  out.size_threshold = share.value;
  if (given.has_growth_percentile()) out.growing_size_percentile = given.growth_percentile();
  if (given.growth_percentile() > 99) {
    values.report().error(values.path("growthPercentile"),
                          fmt::format("'growthPercentile' must be from 0 to 99, found '{}'",
                                      given.growth_percentile()));
  }
  values.take<double>(given.has_growth_ratio(), given.growth_ratio(), "growthRatio", parse_ratio,
                      out.min_growth_ratio);
  values.size(given.has_swap_at_least(), given.swap_at_least(), "swapAtLeast", out.swap_threshold);
  out.resource = resource_at(
      values.word(given.has_resource(), given.resource(), "resource", {"memory", "io"}));
  return out;
}

PluginArguments reclaim_memory(const v1::ReclaimAction& given, RuleValues values) {
  rulesets::ReclaimMemory out;
  values.cgroups(given.cgroups(), out.cgroups);
  values.require(given.has_amount(), "amount", "set it to a quantity or percentage, such as 32Mi");
  values.size(given.has_amount(), given.amount(), "amount", out.amount);
  out.dry = given.dry_run();
  return out;
}

PluginArguments throttle(const v1::ThrottleAction& given, RuleValues values) {
  rulesets::Throttle out;
  values.cgroups(given.cgroups(), out.cgroups);
  if (names_root(out.cgroups)) {
    values.report().error(values.path("cgroups"), kCgroupsNotRoot);
  }
  values.require(given.has_high(), "high", "set it to a quantity or percentage, such as 90%");
  values.size(given.has_high(), given.high(), "high", out.high);
  values.require(given.has_for_(), "for", "set it to a duration, such as 30s");
  values.seconds(given.has_for_(), given.for_(), "for", 1, kSecondsPerHour, out.duration);
  out.dry = given.dry_run();
  return out;
}

PluginArguments freeze(const v1::FreezeAction& given, RuleValues values) {
  rulesets::Freeze out;
  values.cgroups(given.cgroups(), out.cgroups);
  if (names_root(out.cgroups)) {
    values.report().error(values.path("cgroups"), kCgroupsNotRoot);
  }
  values.require(given.has_for_(), "for", "set it to a duration, such as 30s");
  values.seconds(given.has_for_(), given.for_(), "for", 1, kSecondsPerHour, out.duration);
  out.dry = given.dry_run();
  return out;
}

// src/basic/unit-name.c unit_name_is_valid(), without the names of templates.
bool is_unit_name(std::string_view name) {
  constexpr std::size_t kUnitNameMax = 255;
  constexpr std::array<std::string_view, 11> kTypes{".service", ".socket",    ".target", ".device",
                                                    ".mount",   ".automount", ".swap",   ".timer",
                                                    ".path",    ".slice",     ".scope"};
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || name.size() > kUnitNameMax) return false;
  if (std::ranges::find(kTypes, name.substr(dot)) == kTypes.end()) return false;
  const std::size_t at = name.find('@');
  if (at == 0 || at + 1 == dot) return false;
  return std::ranges::all_of(name, [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
           (each >= '0' && each <= '9') ||
           std::string_view(":-_.\\@").find(each) != std::string_view::npos;
  });
}

PluginArguments restart(const v1::RestartAction& given, RuleValues values) {
  rulesets::RestartUnit out;
  values.require(given.has_unit(), "unit", "set it to a unit, such as cache.service");
  if (given.has_unit() && !is_unit_name(given.unit())) {
    values.report().error(
        values.path("unit"),
        fmt::format("'{}' is not the name of a unit of systemd; give it with its type, such as "
                    "cache.service",
                    given.unit()));
  }
  out.service = given.unit();
  values.seconds(given.has_pause(), given.pause(), "pause", 0, kSecondsPerDay,
                 out.post_action_delay);
  out.dry = given.dry_run();
  return out;
}

// --- rulesets -------------------------------------------------------------------------------

// The candidates of a oneof that YAML cannot express: exactly one key.
class OneKey {
 public:
  OneKey(std::string path, Report& report) : path_(std::move(path)), report_(report) {}

  template <typename Make>
  void option(const std::string& key, Make make) {
    keys_.push_back(key);
    if (!report_has(key)) return;
    if (plugin_) {
      report_.error(path_ + "." + key, fmt::format("'{}' and '{}' exclude each other: write each "
                                                   "as an item of its own",
                                                   plugin_->name, key));
    }
    plugin_ = Plugin{key, make(RuleValues(path_ + "." + key, report_))};
  }

  std::optional<Plugin> result() && {
    if (!plugin_) {
      std::string all;
      for (const std::string& each : keys_) all += (all.empty() ? "" : ", ") + each;
      report_.missing(path_, keys_.front(), "each item needs exactly one of: " + all);
    }
    return std::move(plugin_);
  }

 private:
  [[nodiscard]] bool report_has(const std::string& key) const {
    return report_.has(path_ + "." + key);
  }

  std::string path_;
  Report& report_;
  std::vector<std::string> keys_;
  std::optional<Plugin> plugin_;
};

std::optional<Plugin> detector(const v1::RuleDetector& given, const std::string& path,
                               Report& report) {
  using Of = rulesets::RateAbove::Of;
  OneKey one(path, report);
  one.option("pressure", [&](RuleValues v) { return pressure(given.pressure(), std::move(v)); });
  one.option("available", [&](RuleValues v) { return available(given.available(), std::move(v)); });
  one.option("usage", [&](RuleValues v) { return usage(given.usage(), std::move(v)); });
  one.option("growth", [&](RuleValues v) { return rate(given.growth(), Of::usage, std::move(v)); });
  one.option("scans", [&](RuleValues v) { return rate(given.scans(), Of::scans, std::move(v)); });
  one.option("refaults",
             [&](RuleValues v) { return rate(given.refaults(), Of::refaults, std::move(v)); });
  one.option("reclaim", [&](RuleValues v) { return reclaimed(given.reclaim(), std::move(v)); });
  one.option("dyingDescendants",
             [&](RuleValues v) { return dying(given.dying_descendants(), std::move(v)); });
  one.option("exists", [&](const RuleValues&) {
    return existence(given.exists(), "exists", RuleValues(path, report));
  });
  one.option("absent", [&](const RuleValues&) {
    return existence(given.absent(), "absent", RuleValues(path, report));
  });
  one.option("always", [&](const RuleValues&) -> PluginArguments {
    return rulesets::Always{given.always()};
  });
  return std::move(one).result();
}

std::optional<Plugin> action(const v1::RuleAction& given, const std::string& path, Report& report) {
  OneKey one(path, report);
  one.option("kill", [&](RuleValues v) { return kill(given.kill(), std::move(v)); });
  one.option("reclaim",
             [&](RuleValues v) { return reclaim_memory(given.reclaim(), std::move(v)); });
  one.option("throttle", [&](RuleValues v) { return throttle(given.throttle(), std::move(v)); });
  one.option("freeze", [&](RuleValues v) { return freeze(given.freeze(), std::move(v)); });
  one.option("restart", [&](RuleValues v) { return restart(given.restart(), std::move(v)); });
  one.option("log", [&](const RuleValues&) -> PluginArguments {
    return rulesets::LogAction{given.log()};
  });
  one.option("chain", [&](const RuleValues&) -> PluginArguments {
    const bool proceeds =
        RuleValues(path, report).word(true, given.chain(), "chain", {"continue", "stop"}) == 0;
    return rulesets::Always{proceeds};
  });
  one.option(std::string(rulesets::kProactiveReclaim), [&](RuleValues v) -> PluginArguments {
    if (given.proactive_reclaim().has_name()) {
      report.error(v.path("name"), "'name' is that of the ruleset; remove it here");
    }
    return proactive_reclaim(given.proactive_reclaim(), std::move(v));
  });
  return std::move(one).result();
}

bool fits(int size, const std::string& path, const std::string& key, const std::string& advice,
          Report& report) {
  if (size == 0) report.missing(path, key, advice);
  if (size == 0 && report.has(path + "." + key)) {
    report.error(path + "." + key, fmt::format("'{}' is empty; {}", key, advice));
  }
  if (size > kPluginsMax) {
    report.error(path + "." + key, fmt::format("'{}' has more than {} items", key, kPluginsMax));
  }
  return size > 0 && size <= kPluginsMax;
}

void check_name(bool given, const std::string& name, const std::string& path,
                std::map<std::string, std::string>& seen, Report& report) {
  if (!given) return report.missing(path, "name", "set it to a name for logs and records");
  if (name.empty()) return report.error(path + ".name", "'name' must not be empty");
  const auto [first, fresh] = seen.emplace(name, path);
  if (fresh) return;
  report.error(path + ".name", fmt::format("the name '{}' is already used in line {}", name,
                                           report.line(first->second + ".name")));
}

rulesets::Ruleset ruleset(const v1::Ruleset& given, const std::string& path, Report& report) {
  rulesets::Ruleset out;
  out.name = given.name();
  RuleValues values(path, report);
  values.seconds(given.has_pause(), given.pause(), "pause", 0, kSecondsPerDay,
                 out.post_action_delay);
  values.seconds(given.has_prekill_hook_timeout(), given.prekill_hook_timeout(),
                 "prekillHookTimeout", 0, kHookSecondsMax, out.prekill_hook_timeout);
  std::map<std::string, std::string> names;
  if (fits(given.detectors_size(), path, "detectors", "list groups: [{name: .., all: [..]}, ..]",
           report)) {
    for (int g = 0; g < given.detectors_size(); ++g) {
      const v1::DetectorGroup& group = given.detectors(g);
      const std::string at = fmt::format("{}.detectors[{}]", path, g);
      check_name(group.has_name(), group.name(), at, names, report);
      rulesets::DetectorGroup& made = out.groups.emplace_back();
      made.name = group.name();
      if (!fits(group.all_size(), at, "all", "list the detectors of the group", report)) continue;
      for (int d = 0; d < group.all_size(); ++d) {
        auto plugin = detector(group.all(d), fmt::format("{}.all[{}]", at, d), report);
        if (plugin) made.plugins.push_back(std::move(*plugin));
      }
    }
  }
  if (!fits(given.actions_size(), path, "actions", "list what is done in turn", report)) return out;
  for (int a = 0; a < given.actions_size(); ++a) {
    auto plugin = action(given.actions(a), fmt::format("{}.actions[{}]", path, a), report);
    if (plugin) out.actions.push_back(std::move(*plugin));
  }
  return out;
}

}  // namespace

std::vector<rulesets::Ruleset> check_rulesets(const v1::Config& given, Report& report) {
  std::vector<rulesets::Ruleset> out;
  if (given.rulesets_size() > kRulesetsMax) {
    report.error("rulesets", fmt::format("'rulesets' has more than {} items", kRulesetsMax));
    return out;
  }
  std::map<std::string, std::string> names;
  for (int i = 0; i < given.rulesets_size(); ++i) {
    const std::string path = fmt::format("rulesets[{}]", i);
    check_name(given.rulesets(i).has_name(), given.rulesets(i).name(), path, names, report);
    out.push_back(ruleset(given.rulesets(i), path, report));
  }
  return out;
}

std::string_view not_run_by_agent(const rulesets::Plugin& action) {
  constexpr std::string_view kOnlyRules =
      "`forestall rules` evaluates it, and the agent does not run it; remove it";
  const PluginArguments& arguments = action.arguments;
  if (const auto* kill = std::get_if<rulesets::Kill>(&arguments)) {
    if (kill->by != rulesets::KillBy::io_cost) return {};
    return "the agent has no costs of devices to rank by I/O; choose another order";
  }
  const bool runs = std::holds_alternative<rulesets::LogAction>(arguments) ||
                    std::holds_alternative<rulesets::Always>(arguments) ||
                    std::holds_alternative<rulesets::ReclaimMemory>(arguments) ||
                    std::holds_alternative<rulesets::ProactiveReclaim>(arguments) ||
                    std::holds_alternative<rulesets::Throttle>(arguments) ||
                    std::holds_alternative<rulesets::Freeze>(arguments) ||
                    std::holds_alternative<rulesets::RestartUnit>(arguments);
  return runs ? std::string_view() : kOnlyRules;
}

namespace {

// `why` returns an empty text for an action that is right.
void report_actions(const std::vector<rulesets::Ruleset>& rulesets, Report& report,
                    std::string_view (*why)(const rulesets::Plugin& action)) {
  for (std::size_t r = 0; r < rulesets.size(); ++r) {
    for (std::size_t a = 0; a < rulesets[r].actions.size(); ++a) {
      const Plugin& action = rulesets[r].actions[a];
      const std::string_view problem = why(action);
      if (problem.empty()) continue;
      report.error(fmt::format("rulesets[{}].actions[{}].{}", r, a, action.name),
                   fmt::format("'{}': {}", action.name, problem));
    }
  }
}

}  // namespace

void find_not_run_by_agent(const std::vector<rulesets::Ruleset>& rulesets, Report& report) {
  report_actions(rulesets, report, not_run_by_agent);
}

void find_restarts(const std::vector<rulesets::Ruleset>& rulesets, Report& report) {
  report_actions(rulesets, report, [](const rulesets::Plugin& action) {
    return std::holds_alternative<rulesets::RestartUnit>(action.arguments) ? kNoSystemd
                                                                           : std::string_view();
  });
}

}  // namespace forestall::intake
