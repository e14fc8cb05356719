// SPDX-License-Identifier: Apache-2.0
// Actions that change a setting of cgroups, some of them for a time, or only log.
#include <algorithm>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/evaluation.h"

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

}  // namespace

void RuleEvaluation::write(const Cgroup& cgroup, std::string_view file, std::int64_t value) {
  decision_.writes.push_back({cgroup.path, std::string(file), value, std::nullopt});
}

PluginResult RuleEvaluation::reclaim(const ReclaimMemory& arguments, PluginRun& run) {
  const bool dry = arguments.dry || config_.dry_run;
  for (const Cgroup* each : matching(arguments.cgroups, observed_)) {
    const auto usage = observed_.usage(*each);
    const auto wanted = bytes_of(arguments.amount, usage);
    if (!each->has_reclaim || !usage || !wanted) continue;
    const std::int64_t bytes = whole_pages(std::min(*wanted, *usage));
    if (bytes <= 0) continue;
    run.report->attempts.push_back(
        {each->path, dry ? AttemptOutcome::dry : AttemptOutcome::written});
    if (!dry) write(*each, "memory.reclaim", bytes);
  }
  return PluginResult::proceed;
}

// A setting that this action made already lasts longer. False: there is none.
bool RuleEvaluation::extends_held(const Cgroup& cgroup, std::chrono::nanoseconds until,
                                  PluginRun& run) {
  const auto held = run.state->held.find(cgroup.id);
  if (held == run.state->held.end()) return false;
  held->second.until = until;
  return true;
}

void RuleEvaluation::hold(const Cgroup& cgroup, std::string_view file, HeldSetting setting,
                          bool dry, PluginRun& run) {
  run.report->attempts.push_back(
      {cgroup.path, dry ? AttemptOutcome::dry : AttemptOutcome::written});
  if (dry) return;
  write(cgroup, file, setting.written);
  run.state->held[cgroup.id] = std::move(setting);
}

PluginResult RuleEvaluation::throttle(const Throttle& arguments, PluginRun& run) {
  const bool dry = arguments.dry || config_.dry_run;
  const auto until = observed_.time + seconds_of(arguments.duration);
  for (const Cgroup* each : matching(arguments.cgroups, observed_)) {
    if (is_root(*each) || extends_held(*each, until, run)) continue;
    const auto high = bytes_of(arguments.high, observed_.usage(*each));
    if (!high || !each->high || whole_pages(*high) >= *each->high) continue;
    hold(*each, kHigh, {each->path, *each->high, whole_pages(*high), until}, dry, run);
  }
  return PluginResult::proceed;
}

PluginResult RuleEvaluation::freeze(const Freeze& arguments, PluginRun& run) {
  const bool dry = arguments.dry || config_.dry_run;
  const auto until = observed_.time + seconds_of(arguments.duration);
  for (const Cgroup* each : matching(arguments.cgroups, observed_)) {
    if (is_root(*each) || extends_held(*each, until, run)) continue;
    if (!each->frozen || *each->frozen) continue;
    hold(*each, kFreeze, {each->path, 0, 1, until}, dry, run);
  }
  return PluginResult::proceed;
}

PluginResult RuleEvaluation::log(const LogAction& arguments, const PluginRun& run) {
  decision_.messages.push_back({std::string(run.ruleset),
                                run.chain == nullptr ? std::string() : run.chain->group,
                                arguments.text});
  return PluginResult::proceed;
}

// A setting that was changed by others since is theirs, and stays.
void RuleEvaluation::end_held(const Ruleset& ruleset, RulesetState& state) {
  for (std::size_t a = 0; a < ruleset.actions.size(); ++a) {
    const std::string_view file = held_file(ruleset.actions[a].arguments);
    if (file.empty()) continue;
    std::erase_if(state.actions[a].held, [&](const auto& entry) {
      const auto& [id, held] = entry;
      const Cgroup* cgroup = observed_.find(held.path);
      if (cgroup == nullptr || cgroup->id != id) return true;
      if (observed_.time < held.until) return false;
      const auto now = setting(*cgroup, file);
      if (now == held.written) write(*cgroup, file, held.before);
      return true;
    });
  }
}

}  // namespace forestall::rulesets
