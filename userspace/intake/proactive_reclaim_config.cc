// SPDX-License-Identifier: Apache-2.0
#include "intake/proactive_reclaim_config.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "intake/amounts.h"

namespace forestall::intake {
namespace {

constexpr int kItemsMax = 256;
constexpr std::int64_t kSecondsOfHour = 3600;
constexpr std::int64_t kSecondsOfDay = 24 * kSecondsOfHour;
// Percent.
constexpr double kTargetMax = 50;
constexpr double kStepMax = 10;
constexpr Bytes kWriteMin = mib(1);
constexpr Bytes kWriteMax = mib(32);
constexpr const char* kOnV1 =
    "cgroup v1 has no memory.reclaim, so memory cannot be reclaimed proactively; remove it";

Result<double> parse_percent_above_0(const std::string& text, double max) {
  const auto percent = parse_rule_percent(text);
  if (percent && *percent > 0 && *percent <= max) return *percent;
  return error(fmt::format("must be a percentage above 0%, at most {}%, found '{}'", max, text));
}

Result<std::int64_t> parse_write_max(const std::string& text) {
  const Bytes bytes = TRY(parse_bytes(text));
  if (bytes >= kWriteMin && bytes <= kWriteMax) return bytes.count;
  return error(fmt::format("must be from 1Mi to 32Mi, found '{}'", text));
}

Result<std::int64_t> parse_floor(const std::string& text) {
  return TRY(parse_bytes(text)).count;
}

// Each other glob has components.
void check_no_root(const v1::ProactiveReclaim& given, const std::string& path, Report& report) {
  for (int i = 0; i < given.cgroups_size(); ++i) {
    if (given.cgroups(i) != "/") continue;
    report.error(
        fmt::format("{}[{}]", path, i),
        "'cgroups' must not contain '/': name the cgroups that are reclaimed from, such as "
        "/batch.slice");
  }
}

std::string name_of_item(const v1::ProactiveReclaim& item, const std::string& path,
                         std::map<std::string, std::string>& seen, Report& report) {
  if (!item.has_name()) report.missing(path, "name", "set it to a name for logs and metrics");
  if (item.has_name() && item.name().empty()) {
    report.error(path + ".name", "'name' must not be empty");
  }
  std::string name = "reclaim:" + item.name();
  const auto [first, is_new] = seen.emplace(name, path);
  if (!is_new && item.has_name()) {
    report.error(path + ".name",
                 first->second.empty()
                     ? fmt::format("a ruleset is named '{}' already", name)
                     : fmt::format("the name '{}' is already used in line {}", item.name(),
                                   report.line(first->second + ".name")));
  }
  return name;
}

}  // namespace

rulesets::ProactiveReclaim proactive_reclaim(const v1::ProactiveReclaim& given, RuleValues values) {
  rulesets::ProactiveReclaim out;
  values.cgroups(given.cgroups(), out.cgroups);
  check_no_root(given, values.path("cgroups"), values.report());
  const auto percent = [&](bool is_given, const std::string& text, const std::string& key,
                           double max, double& target) {
    values.take<double>(
        is_given, text, key,
        [max](const std::string& number) { return parse_percent_above_0(number, max); }, target);
  };
  percent(given.has_pressure(), given.pressure(), "pressure", kTargetMax, out.pressure);
  percent(given.has_step(), given.step(), "step", kStepMax, out.step);
  percent(given.has_node_pressure(), given.node_pressure(), "nodePressure", 100, out.node_pressure);
  values.take<double>(given.has_swap_used_max(), given.swap_used_max(), "swapUsedMax",
                      parse_rule_percent, out.swap_used_max);
  values.seconds(given.has_every(), given.every(), "every", 1, kSecondsOfHour, out.every);
  values.seconds(given.has_back_off(), given.back_off(), "backOff", 1, kSecondsOfDay, out.back_off);
  values.take<std::int64_t>(given.has_write_max(), given.write_max(), "writeMax", parse_write_max,
                            out.write_max);
  values.take<std::int64_t>(given.has_floor(), given.floor(), "floor", parse_floor, out.floor);
  out.dry = given.dry_run();
  return out;
}

std::vector<rulesets::Ruleset> check_reclaim(const v1::Config& given,
                                             const std::vector<rulesets::Ruleset>& others,
                                             Report& report) {
  std::vector<rulesets::Ruleset> out;
  if (given.reclaim_size() > kItemsMax) {
    report.error("reclaim", fmt::format("'reclaim' has more than {} items", kItemsMax));
    return out;
  }
  std::map<std::string, std::string> seen;  // name -> path; empty: of a ruleset
  for (const rulesets::Ruleset& each : others) seen.emplace(each.name, "");
  for (int i = 0; i < given.reclaim_size(); ++i) {
    const v1::ProactiveReclaim& item = given.reclaim(i);
    const std::string path = fmt::format("reclaim[{}]", i);
    rulesets::Ruleset& made = out.emplace_back();
    made.name = name_of_item(item, path, seen, report);
    made.groups = {{"always", {{"always", rulesets::Always{true}}}}};
    made.actions = {{std::string(rulesets::kProactiveReclaim),
                     proactive_reclaim(item, RuleValues(path, report))}};
  }
  return out;
}

void find_proactive_reclaim(const v1::Config& given, const std::vector<rulesets::Ruleset>& rulesets,
                            Report& report) {
  for (int i = 0; i < given.reclaim_size(); ++i) {
    report.error(fmt::format("reclaim[{}]", i), fmt::format("'reclaim': {}", kOnV1));
  }
  for (std::size_t r = 0; r < rulesets.size(); ++r) {
    for (std::size_t a = 0; a < rulesets[r].actions.size(); ++a) {
      const rulesets::Plugin& action = rulesets[r].actions[a];
      if (!std::holds_alternative<rulesets::ProactiveReclaim>(action.arguments)) continue;
      report.error(fmt::format("rulesets[{}].actions[{}].{}", r, a, action.name),
                   fmt::format("'{}': {}", action.name, kOnV1));
    }
  }
}

}  // namespace forestall::intake
