// SPDX-License-Identifier: Apache-2.0
#include "rulesets/managed_oom.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace forestall::rulesets {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kPauseAfterAction = std::chrono::seconds(15);
constexpr nanoseconds kReclaimWithin = std::chrono::seconds(30);
constexpr std::uint64_t kSwapFloorPercent = 5;
constexpr std::uint64_t kWhole = 10000;

// parse_boolean() of systemd; anything else is unset.
bool is_true(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTrue{"1", "yes", "y", "true", "t", "on"};
  const auto equal = [&](std::string_view word) {
    return std::equal(text.begin(), text.end(), word.begin(), word.end(), [](char a, char b) {
      return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
    });
  };
  return std::any_of(kTrue.begin(), kTrue.end(), equal);
}

bool has_flag(const Cgroup& cgroup, std::string_view name) {
  const std::string* value = cgroup.xattr(name);
  return value != nullptr && is_true(*value);
}

// The preference of a candidate that is judged for `ancestor`.
ManagedPreference preference_below(const Cgroup& cgroup, const Cgroup* ancestor) {
  const bool trusted = cgroup.uid == 0 || (ancestor != nullptr && cgroup.uid == ancestor->uid);
  return trusted ? managed_preference(cgroup) : ManagedPreference::none;
}

// memory.pressure's full avg10 in hundredths of a percent, the precision of the kernel.
std::int64_t hundredths(float percent) {
  return std::llround(static_cast<double>(percent) * 100);
}

std::int64_t to_int64(std::uint64_t value) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(value, kMax));
}

RankedCgroup ranked_of(const ManagedCandidate& candidate, ManagedRanking by) {
  RankedCgroup ranked;
  ranked.cgroup = candidate.cgroup;
  ranked.preference =
      candidate.preference == ManagedPreference::avoid ? Preference::avoid : Preference::normal;
  if (by == ManagedRanking::swap) {
    ranked.key.emplace_back("memory.swap.current", to_int64(candidate.swap));
  } else {
    ranked.key.emplace_back("pgscanRate", to_int64(candidate.pgscan_rate()));
    ranked.key.emplace_back("memory.current", to_int64(candidate.usage));
  }
  return ranked;
}

// What systemd-oomd reads of a cgroup.
struct ManagedReading {
  std::int64_t avg10 = 0;  // full, hundredths of a percent
  std::uint64_t usage = 0;
  std::uint64_t swap = 0;
  std::uint64_t pgscan = 0;
};

class ManagedEvaluation {
 public:
  ManagedEvaluation(const ManagedOomConfig& config, const ManagedOomState& state,
                    const RuleObservation& observed, const std::vector<bool>& answers)
      : config_(config), observed_(observed), answers_(answers) {
    step_.state = state;
    step_.decision.time = observed.time;
  }

  ManagedOomStep run() {
    swap_monitor();
    if (step_.wanted_kill) return std::move(step_);
    pressure_monitor();
    // clear_candidate_hashmapp(): an evaluation that does not refresh the candidates forgets them.
    if (!refreshed_) step_.state.candidate_pgscan.clear();
    return std::move(step_);
  }

 private:
  enum class KillStep : std::uint8_t { done, wanted };

  [[nodiscard]] std::optional<ManagedReading> read(const Cgroup& cgroup) const {
    ManagedReading reading;
    const auto& pressure = cgroup.memory_pressure;
    if (pressure && pressure->full) {
      reading.avg10 = hundredths(pressure->full->avg10);
    } else if (!config_.absent.pressure) {
      return std::nullopt;
    }
    if (is_root(cgroup)) {
      const Host& host = observed_.host;
      if (!host.mem_total || !host.mem_available) return std::nullopt;
      reading.usage = static_cast<std::uint64_t>(
          std::max<std::int64_t>(*host.mem_total - *host.mem_available, 0));
      return reading;
    }
    const bool has_limits =
        (cgroup.min || config_.absent.min) && (cgroup.low || config_.absent.low);
    if (!cgroup.current || !has_limits) return std::nullopt;
    reading.usage = static_cast<std::uint64_t>(*cgroup.current);
    // Kernels without swap accounting have no such file.
    reading.swap = static_cast<std::uint64_t>(cgroup.swap_current.value_or(0));
    if (cgroup.stat && cgroup.stat->pgscan) {
      reading.pgscan = static_cast<std::uint64_t>(*cgroup.stat->pgscan);
    } else if (!config_.absent.pgscan) {
      return std::nullopt;
    }
    return reading;
  }

  // A cgroup without children; a child that the kernel would kill as a whole. The monitored cgroup
  // itself only if it has no children.
  void collect(const Cgroup& cgroup, std::map<std::string, ManagedCandidate>& all) const {
    const auto children = observed_.children(cgroup);
    if (children.empty()) return add_candidate(cgroup, all);
    for (const Cgroup* child : children) {
      if (!child->oom_group && !config_.absent.oom_group) continue;
      if (child->oom_group.value_or(false)) {
        add_candidate(*child, all);
      } else {
        collect(*child, all);
      }
    }
  }

  void add_candidate(const Cgroup& cgroup, std::map<std::string, ManagedCandidate>& all) const {
    const auto reading = read(cgroup);
    if (!reading) return;
    ManagedCandidate candidate;
    candidate.cgroup = cgroup.path;
    candidate.swap = reading->swap;
    candidate.pgscan = reading->pgscan;
    candidate.usage = reading->usage;
    all.emplace(cgroup.path, std::move(candidate));
  }

  // The candidates at or below `ancestor`, ranked, each with the preference that holds there.
  [[nodiscard]] std::vector<ManagedCandidate> ranked_below(
      const std::map<std::string, ManagedCandidate>& all, std::string_view ancestor,
      ManagedRanking by) const {
    const Cgroup* judge = observed_.find(ancestor);
    std::vector<ManagedCandidate> candidates;
    for (const auto& [path, candidate] : all) {
      if (!is_within(path, ancestor)) continue;
      candidates.push_back(candidate);
      candidates.back().preference = preference_below(*observed_.find(path), judge);
    }
    return rank_managed(std::move(candidates), by);
  }

  // Kills the candidate; a cgroup without processes ends the search as well.
  KillStep kill(const ManagedCandidate& candidate, const char* reason, RulesetRun& run) {
    ActionRun& action = run.actions.back();
    if (config_.dry_run) {
      action.attempts.push_back({candidate.cgroup, AttemptOutcome::dry});
      report_kill(candidate, reason, run, /*dry=*/true);
      return KillStep::done;
    }
    if (answered_ == answers_.size()) {
      step_.wanted_kill = candidate.cgroup;
      return KillStep::wanted;
    }
    const bool killed = answers_[answered_++];
    action.attempts.push_back(
        {candidate.cgroup, killed ? AttemptOutcome::killed : AttemptOutcome::failed});
    if (killed) report_kill(candidate, reason, run, /*dry=*/false);
    return KillStep::done;
  }

  void report_kill(const ManagedCandidate& candidate, const char* reason, RulesetRun& run,
                   bool dry) {
    run.actions.back().result = PluginResult::stop;
    step_.decision.kills.push_back({candidate.cgroup, reason, run.name, *run.group, dry});
  }

  static ActionRun action_run(const char* name, const std::vector<ManagedCandidate>& ranking,
                              ManagedRanking by) {
    ActionRun action;
    action.name = name;
    for (const ManagedCandidate& each : ranking) action.ranking.push_back(ranked_of(each, by));
    return action;
  }

  // --- swap -----------------------------------------------------------------------------------

  // Whether less than what the limit leaves is available, in integers.
  [[nodiscard]] bool is_short(std::int64_t total, std::int64_t left) const {
    const std::uint64_t rest = kWhole - static_cast<std::uint64_t>(config_.conf.swap_used_limit);
    return static_cast<std::uint64_t>(left) < static_cast<std::uint64_t>(total) * rest / kWhole;
  }

  void swap_monitor() {
    const Host& host = observed_.host;
    const auto total = host.swap_total ? host.swap_total : host.total_swap();
    auto free = host.swap_free;
    if (!free && total && host.used_swap()) free = *total - *host.used_swap();
    const bool known = host.mem_total && host.mem_available && total && free;
    if (step_.state.rules.swap.empty() || !known) return;
    if (*host.mem_available > *host.mem_total || *free > *total || *free < 0) return;
    if (!is_short(*host.mem_total, *host.mem_available) || !is_short(*total, *free)) return;

    std::map<std::string, ManagedCandidate> all;
    for (const std::string& path : step_.state.rules.swap) {
      if (const Cgroup* cgroup = observed_.find(path)) collect(*cgroup, all);
    }
    const auto ranking = ranked_below(all, "/", ManagedRanking::swap);
    RulesetRun run;
    run.name = "ManagedOOMSwap";
    run.group = "memory and swap used";
    run.actions.push_back(action_run("kill_by_swap_usage", ranking, ManagedRanking::swap));
    const std::uint64_t floor = static_cast<std::uint64_t>(*total) * kSwapFloorPercent / 100;
    const auto first =
        std::find_if(ranking.begin(), ranking.end(),
                     [&](const ManagedCandidate& each) { return each.swap > floor; });
    if (first != ranking.end()) kill(*first, "memory-used", run);
    step_.decision.rulesets.push_back(std::move(run));
  }

  // --- pressure -------------------------------------------------------------------------------

  void read_monitored() {
    ManagedOomState& state = step_.state;
    // Rules may have been removed without ManagedOomState::apply().
    std::erase_if(state.monitored, [&state](const auto& each) {
      return !state.rules.pressure.contains(each.first);
    });
    for (const auto& [path, rule] : state.rules.pressure) {
      const Cgroup* cgroup = observed_.find(path);
      const auto reading = cgroup != nullptr ? read(*cgroup) : std::nullopt;
      if (!reading) {
        state.monitored.erase(path);
        continue;
      }
      // All that a newly reported cgroup has ever scanned counts as now.
      MonitoredCgroup& monitored = state.monitored[path];
      const std::uint64_t last = monitored.pgscan > reading->pgscan ? 0 : monitored.pgscan;
      if (reading->pgscan > last) monitored.last_reclaim = observed_.time;
      monitored.pgscan = reading->pgscan;
      if (reading->avg10 <= rule.limit_permyriad) {
        monitored.above_since.reset();
      } else if (!monitored.above_since) {
        monitored.above_since = observed_.time;
      }
    }
  }

  std::map<std::string, ManagedCandidate> refresh_candidates() {
    ManagedOomState& state = step_.state;
    refreshed_ = true;
    std::map<std::string, ManagedCandidate> all;
    for (const auto& [path, monitored] : state.monitored) collect(*observed_.find(path), all);
    std::map<std::string, std::uint64_t> pgscan;
    for (auto& [path, candidate] : all) {
      const auto last = state.candidate_pgscan.find(path);
      if (last != state.candidate_pgscan.end()) candidate.last_pgscan = last->second;
      pgscan.emplace(path, candidate.pgscan);
    }
    state.candidate_pgscan = std::move(pgscan);
    return all;
  }

  [[nodiscard]] std::vector<std::string> targets() const {
    std::vector<std::string> found;
    for (const auto& [path, rule] : step_.state.rules.pressure) {
      const auto monitored = step_.state.monitored.find(path);
      if (monitored == step_.state.monitored.end() || !monitored->second.above_since) continue;
      // In microseconds: the longest durations have no number of nanoseconds.
      const auto above_for = std::chrono::floor<std::chrono::microseconds>(
          observed_.time - *monitored->second.above_since);
      if (above_for >= rule.duration) found.push_back(path);
    }
    return found;
  }

  [[nodiscard]] bool any_above() const {
    return std::any_of(step_.state.monitored.begin(), step_.state.monitored.end(),
                       [](const auto& each) { return each.second.above_since.has_value(); });
  }

  void pressure_monitor() {
    ManagedOomState& state = step_.state;
    if (state.rules.pressure.empty()) return;
    read_monitored();
    const bool paused =
        state.last_action && *state.last_action + kPauseAfterAction > observed_.time;
    if (!paused) state.last_action.reset();
    const std::vector<std::string> above = targets();
    if (above.empty() || paused) {
      // From now on a rate is that of the time between two evaluations.
      if (any_above()) refresh_candidates();
      for (const std::string& path : above) report_pressure(path).paused = true;
      return;
    }
    for (const std::string& path : above) {
      // Pressure without reclaim does not fall by a kill.
      const auto& reclaim = state.monitored.at(path).last_reclaim;
      if (!reclaim || observed_.time - *reclaim > kReclaimWithin) continue;
      act_on(path);
      return;
    }
  }

  RulesetRun& report_pressure(const std::string& path) {
    RulesetRun& run = step_.decision.rulesets.emplace_back();
    run.name = "ManagedOOMMemoryPressure " + path;
    run.group = "memory pressure";
    return run;
  }

  void act_on(const std::string& path) {
    const auto all = refresh_candidates();
    const auto ranking = ranked_below(all, path, ManagedRanking::pgscan);
    RulesetRun& run = report_pressure(path);
    run.actions.push_back(action_run("kill_by_pgscan_rate", ranking, ManagedRanking::pgscan));
    const auto first = std::find_if(
        ranking.begin(), ranking.end(),
        [](const ManagedCandidate& each) { return each.pgscan != 0 || each.usage != 0; });
    if (first != ranking.end() && kill(*first, "memory-pressure", run) == KillStep::wanted) return;
    step_.state.last_action = observed_.time;
  }

  const ManagedOomConfig& config_;
  const RuleObservation& observed_;
  const std::vector<bool>& answers_;
  std::size_t answered_ = 0;
  bool refreshed_ = false;  // the candidates, by this evaluation
  ManagedOomStep step_;
};

}  // namespace

std::int64_t permyriad_of(std::uint32_t limit) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::int64_t>((std::uint64_t{limit} * kWhole + kMax / 2) / kMax);
}

std::string_view to_string(ManagedPreference preference) {
  switch (preference) {
    case ManagedPreference::none: return "none";
    case ManagedPreference::avoid: return "avoid";
    case ManagedPreference::omit: return "omit";
  }
  return "";
}

ManagedPreference managed_preference(const Cgroup& cgroup) {
  if (has_flag(cgroup, "user.oomd_omit")) return ManagedPreference::omit;
  return has_flag(cgroup, "user.oomd_avoid") ? ManagedPreference::avoid : ManagedPreference::none;
}

bool is_within(std::string_view path, std::string_view ancestor) {
  if (ancestor == "/" || path == ancestor) return true;
  return path.starts_with(ancestor) && path[ancestor.size()] == '/';
}

void ManagedOomRules::apply(const ManagedOomElement& element, const OomdConf& conf) {
  if (element.property == ManagedOomProperty::swap) {
    if (element.kill) {
      swap.insert(element.path);
    } else {
      swap.erase(element.path);
    }
    return;
  }
  if (!element.kill) {
    pressure.erase(element.path);
    return;
  }
  ManagedPressureRule& rule = pressure[element.path];
  rule.limit_permyriad = element.limit > 0 ? permyriad_of(element.limit) : conf.pressure_limit;
  rule.duration = element.duration.value_or(conf.pressure_duration);
}

std::uint64_t ManagedCandidate::pgscan_rate() const {
  return last_pgscan > pgscan ? pgscan : pgscan - last_pgscan;
}

std::vector<ManagedCandidate> rank_managed(std::vector<ManagedCandidate> candidates,
                                           ManagedRanking by) {
  std::erase_if(candidates, [](const ManagedCandidate& each) {
    return each.preference == ManagedPreference::omit;
  });
  const auto before = [by](const ManagedCandidate& a, const ManagedCandidate& b) {
    if (by == ManagedRanking::swap) {
      return std::tie(a.preference, b.swap, a.cgroup) < std::tie(b.preference, a.swap, b.cgroup);
    }
    const std::uint64_t rate_a = a.pgscan_rate();
    const std::uint64_t rate_b = b.pgscan_rate();
    return std::tie(a.preference, rate_b, b.usage, a.cgroup) <
           std::tie(b.preference, rate_a, a.usage, b.cgroup);
  };
  std::sort(candidates.begin(), candidates.end(), before);
  return candidates;
}

void ManagedOomState::apply(const ManagedOomElement& element, const OomdConf& conf) {
  rules.apply(element, conf);
  if (element.property == ManagedOomProperty::memory_pressure && !element.kill) {
    monitored.erase(element.path);
  }
}

ManagedOomStep managed_oom_step(const ManagedOomConfig& config, const ManagedOomState& state,
                                const RuleObservation& observed, const std::vector<bool>& answers) {
  return ManagedEvaluation(config, state, observed, answers).run();
}

}  // namespace forestall::rulesets
