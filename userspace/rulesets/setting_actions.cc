// SPDX-License-Identifier: Apache-2.0
#include "rulesets/setting_actions.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/rule_amounts.h"

namespace forestall::rulesets {
namespace {

constexpr std::int64_t kSettingPage = 4096;
constexpr std::string_view kHigh = "memory.high";
constexpr std::string_view kFreeze = "cgroup.freeze";

std::int64_t whole_pages(std::int64_t bytes) {
  return bytes / kSettingPage * kSettingPage;
}

std::string_view held_file(const PluginArguments& arguments) {
  if (std::holds_alternative<Throttle>(arguments)) return kHigh;
  return std::holds_alternative<Freeze>(arguments) ? kFreeze : std::string_view();
}

std::optional<std::int64_t> setting(const Cgroup& cgroup, std::string_view file) {
  if (file == kHigh) return cgroup.high;
  return cgroup.frozen ? std::optional<std::int64_t>(*cgroup.frozen ? 1 : 0) : std::nullopt;
}

// A setting that this action made already lasts longer. False: there is none.
bool extends_held(const Cgroup& cgroup, std::chrono::nanoseconds until, PluginRun& run) {
  const auto held = run.state->held.find(cgroup.id);
  if (held == run.state->held.end()) return false;
  held->second.until = until;
  return true;
}

}  // namespace

void SettingActions::write(const Cgroup& cgroup, std::string_view file, std::int64_t value) {
  scope_.decision.writes.push_back({cgroup.path, std::string(file), value, std::nullopt});
}

PluginResult SettingActions::run(const ReclaimMemory& arguments, PluginRun& run) {
  const bool dry = arguments.dry || scope_.config.dry_run;
  for (const Cgroup* each : matching(arguments.cgroups, scope_.observed)) {
    const auto usage = scope_.observed.usage(*each);
    const auto wanted = bytes_of(arguments.amount, usage);
    if (!each->has_reclaim || !usage || !wanted) continue;
    const std::int64_t bytes = whole_pages(std::min(*wanted, *usage));
    if (bytes <= 0) continue;
    run.report->attempts.push_back(
        {each->path, dry ? AttemptOutcome::dry : AttemptOutcome::written, kReclaimFile, bytes});
    if (!dry) write(*each, kReclaimFile, bytes);
  }
  return PluginResult::proceed;
}

void SettingActions::set(const Cgroup& cgroup, std::string_view file, HeldSetting setting, bool dry,
                         PluginRun& run) {
  run.report->attempts.push_back(
      {cgroup.path, dry ? AttemptOutcome::dry : AttemptOutcome::written, file, setting.written});
  if (dry) return;
  write(cgroup, file, setting.written);
  run.state->held[cgroup.id] = std::move(setting);
}

PluginResult SettingActions::run(const Throttle& arguments, PluginRun& run) {
  const bool dry = arguments.dry || scope_.config.dry_run;
  const auto until = scope_.observed.time + seconds_of(arguments.duration);
  for (const Cgroup* each : matching(arguments.cgroups, scope_.observed)) {
    if (is_root(*each) || extends_held(*each, until, run)) continue;
    const auto high = bytes_of(arguments.high, scope_.observed.usage(*each));
    if (!high || !each->high || whole_pages(*high) >= *each->high) continue;
    set(*each, kHigh, {each->path, *each->high, whole_pages(*high), until}, dry, run);
  }
  return PluginResult::proceed;
}

PluginResult SettingActions::run(const Freeze& arguments, PluginRun& run) {
  const bool dry = arguments.dry || scope_.config.dry_run;
  const auto until = scope_.observed.time + seconds_of(arguments.duration);
  for (const Cgroup* each : matching(arguments.cgroups, scope_.observed)) {
    if (is_root(*each) || extends_held(*each, until, run)) continue;
    if (!each->frozen || *each->frozen) continue;
    set(*each, kFreeze, {each->path, 0, 1, until}, dry, run);
  }
  return PluginResult::proceed;
}

PluginResult SettingActions::run(const LogAction& arguments, const PluginRun& run) {
  scope_.decision.messages.push_back({std::string(run.ruleset),
                                      run.chain == nullptr ? std::string() : run.chain->group,
                                      arguments.text});
  return PluginResult::proceed;
}

// A setting that was changed by others since is theirs, and stays.
void SettingActions::end_held(const Ruleset& ruleset, RulesetState& state) {
  for (std::size_t a = 0; a < ruleset.actions.size(); ++a) {
    const std::string_view file = held_file(ruleset.actions[a].arguments);
    if (file.empty()) continue;
    std::erase_if(state.actions[a].held, [&](const auto& entry) {
      const auto& [id, held] = entry;
      const Cgroup* cgroup = scope_.observed.find(held.path);
      if (cgroup == nullptr || cgroup->id != id) return true;
      if (scope_.observed.time < held.until) return false;
      const auto now = setting(*cgroup, file);
      if (now == held.written) write(*cgroup, file, held.before);
      return true;
    });
  }
}

}  // namespace forestall::rulesets
