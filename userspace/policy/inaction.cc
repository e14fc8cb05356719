// SPDX-License-Identifier: Apache-2.0
#include "policy/inaction.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "policy/damage_limit.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

// A relevant threshold and its state at the last decision.
struct Standing {
  const Threshold* threshold = nullptr;
  ThresholdId id;
  const Evidence* evidence = nullptr;  // null: its signal is unknown, or it has no evidence
  std::optional<MonotonicTime> since;  // met since then
};

// Which thresholds are relevant.
enum class Scope : std::uint8_t {
  node,
  one_cgroup,     // the cgroup that was at its limit
  around_victim,  // a cgroup that the OOM event does not name
  anything,       // unknown: the node, or any cgroup that contains the victim
};

Scope scope_of(const OomKillEvent& kill) {
  const bool names_cgroup = kill.domain != CgroupId{} || !kill.domain_path.empty();
  if (!kill.constraint) return names_cgroup ? Scope::one_cgroup : Scope::anything;
  if (*kill.constraint != Constraint::memcg) return Scope::node;
  return names_cgroup ? Scope::one_cgroup : Scope::around_victim;
}

bool is_around(std::string_view path, std::string_view inner) {
  return !inner.empty() && path_is_within(inner, path);
}

bool is_domain(const OomKillEvent& kill, CgroupId id, std::string_view path) {
  if (kill.domain != CgroupId{}) return kill.domain == id;
  return kill.domain_path == path;
}

class Standings {
 public:
  Standings(const Config& config, const State& state, const Observation& observation,
            const Decision& last, const OomKillEvent& kill)
      : config_(config), state_(state), last_(last), kill_(kill), scope_(scope_of(kill)) {
    if (scope_ == Scope::node || scope_ == Scope::anything) {
      add_all(SubjectKind::node, CgroupId{});
    }
    if (observation.pods && counts(*observation.pods)) {
      add_all(SubjectKind::pods_cgroup, observation.pods->id);
    }
    for (const CgroupSample& watched : observation.watched) {
      if (watched.threshold >= config.thresholds.size() || !counts(watched)) continue;
      if (is_of_watched_cgroup(config.thresholds[watched.threshold].signal)) {
        add(watched.threshold, watched.id);
      }
    }
  }

  [[nodiscard]] const std::vector<Standing>& all() const { return standings_; }
  // Whether a threshold on the domain warns or throttles, and since when such a one is met.
  [[nodiscard]] bool warns() const { return warns_; }
  [[nodiscard]] std::optional<MonotonicTime> warned() const { return warned_; }

  // The earliest time since which a threshold accepted by `holds` has been met.
  template <typename Holds>
  [[nodiscard]] std::optional<MonotonicTime> earliest(Holds holds) const {
    std::optional<MonotonicTime> earliest;
    for (const Standing& one : standings_) {
      if (one.since && holds(one) && (!earliest || *one.since < *earliest)) earliest = one.since;
    }
    return earliest;
  }

 private:
  [[nodiscard]] bool counts(const CgroupSample& cgroup) const {
    switch (scope_) {
      case Scope::node: return false;
      case Scope::one_cgroup: return is_domain(kill_, cgroup.id, cgroup.path);
      case Scope::around_victim:
      case Scope::anything: break;
    }
    return cgroup.id == kill_.cgroup || is_around(cgroup.path, kill_.path);
  }

  // All thresholds on memory of the subject.
  void add_all(SubjectKind subject, CgroupId cgroup) {
    for (std::size_t i = 0; i < config_.thresholds.size(); ++i) {
      const SignalRow& row = row_of(config_.thresholds[i].signal);
      if (row.resource == Resource::memory && row.subject == subject) add(i, cgroup);
    }
  }

  void add(std::size_t index, CgroupId cgroup) {
    // A threshold that only warns or throttles does not prevent an OOM kill.
    if (config_.thresholds[index].response != Response::evict) return add_warning({index, cgroup});
    Standing standing{&config_.thresholds[index], {index, cgroup}, nullptr, std::nullopt};
    for (const Evidence& evidence : last_.evidence) {
      if (evidence.cgroup == cgroup && evidence.threshold == *standing.threshold) {
        standing.evidence = &evidence;
      }
    }
    for (const State::Met& met : state_.met) {
      if (met.id == standing.id) standing.since = met.since;
    }
    standings_.push_back(standing);
  }

  void add_warning(ThresholdId id) {
    warns_ = true;
    for (const State::Met& met : state_.met) {
      if (met.id == id && (!warned_ || met.since < *warned_)) warned_ = met.since;
    }
  }

  const Config& config_;
  const State& state_;
  const Decision& last_;
  const OomKillEvent& kill_;
  const Scope scope_;
  std::vector<Standing> standings_;
  bool warns_ = false;
  std::optional<MonotonicTime> warned_;
};

// Thresholds on own limits have evidence only if they are met; the others are assumed to be read.
bool was_read(const Standing& standing) {
  return standing.evidence != nullptr || standing.threshold->own_limits_of.has_value();
}

bool drives(const Standing& standing) {
  return standing.evidence != nullptr && standing.evidence->driving;
}

// Signalled, and not known to be finished.
bool is_signalled(const KillProgress& kill) {
  switch (kill.state) {
    case KillState::in_flight:
    case KillState::terminating:
    case KillState::stuck: return true;
    case KillState::released:
    case KillState::failed: break;
  }
  return false;
}

// Signalled, and still expected to release memory.
bool is_under_way(const KillProgress& kill) {
  return kill.state == KillState::in_flight || kill.state == KillState::terminating;
}

// Whether the kernel's victim was in this cgroup.
bool holds_victim(const OomKillEvent& kill, CgroupId cgroup, std::string_view path) {
  return (cgroup != CgroupId{} && cgroup == kill.cgroup) || is_around(path, kill.path);
}

// Whether a victim of the agent at `path` releases memory to the domain that was out of it.
bool relieves(const OomKillEvent& kill, std::string_view path) {
  switch (scope_of(kill)) {
    case Scope::node:
    case Scope::anything: return true;
    case Scope::around_victim: return is_around(path, kill.path);
    case Scope::one_cgroup: break;
  }
  // A victim that contains the domain releases all of the domain's memory.
  return is_around(kill.domain_path, path) || is_around(path, kill.domain_path);
}

// Calls visit(cgroup, path) for the victims of the last decision. They were signalled after its
// observation, which therefore does not list them as kills.
template <typename Visit>
bool any_chosen(const Decision& last, Visit visit) {
  return std::any_of(last.evictions.begin(), last.evictions.end(), [&](const Eviction& eviction) {
    if (eviction.candidate >= last.considered.size()) return false;
    const Workload& workload = last.considered[eviction.candidate].sample.workload;
    return visit(workload.cgroup, workload.path);
  });
}

bool was_signalled(const Observation& observation, const Decision& last, const OomKillEvent& kill) {
  const auto holds = [&](CgroupId cgroup, std::string_view path) {
    return holds_victim(kill, cgroup, path);
  };
  return any_chosen(last, holds) ||
         std::any_of(observation.kills.begin(), observation.kills.end(),
                     [&](const KillProgress& one) {
                       return is_signalled(one) && holds(one.cgroup, one.path);
                     });
}

bool was_acting(const Observation& observation, const Decision& last, const OomKillEvent& kill) {
  return any_chosen(last, [&](CgroupId, std::string_view path) { return relieves(kill, path); }) ||
         std::any_of(observation.kills.begin(), observation.kills.end(),
                     [&](const KillProgress& one) {
                       return is_under_way(one) && relieves(kill, one.path);
                     });
}

// Why the agent did not act on a driving threshold although none of its kills is under way.
Inaction of_driving(const Config& config, const Decision& last) {
  if (config.dry_run) return Inaction::dry_run;
  // A decision without an action passed over every crossing and has the most significant reason.
  if (last.reason == Reason::no_candidates || last.reason == Reason::all_protected) {
    return Inaction::no_victim;
  }
  if (is_held_back(last.reason)) return Inaction::held_back;
  return Inaction::too_fast;
}

// A line was crossed after the last decision, on a threshold that was not met before. Whether that
// can have been a threshold that acts at once.
std::optional<Inaction> of_crossing(const std::vector<Standing>& standings) {
  std::optional<Inaction> found;
  for (const Standing& one : standings) {
    if (one.since) continue;
    if (one.threshold->hard()) return Inaction::too_fast;
    found = Inaction::in_grace;
  }
  return found;
}

std::optional<MonotonicTime> before_kill(std::optional<MonotonicTime> time,
                                         const OomKillEvent& kill) {
  return time && *time <= kill.at ? time : std::nullopt;
}

}  // namespace

InactionAnswer inaction(const Config& config, const State& state, const Observation& observation,
                        const Decision& last, const OomKillEvent& kill, LoopTimes times) {
  const Standings standings(config, state, observation, last, kill);
  const auto answer = [&](Inaction inaction, std::optional<MonotonicTime> since) {
    std::optional<Duration> before;
    if (since) before = std::max(elapsed(*since, kill.at), Duration::zero());
    return InactionAnswer{inaction, before};
  };
  // A crossing seen after the kill did not precede it.
  const auto crossed = before_kill(times.crossed, kill);
  const bool away = before_kill(times.away_since, kill).has_value();
  const auto any_since = standings.earliest([](const Standing&) { return true; });
  const auto first_crossed = any_since ? any_since : crossed;
  if (!config.dry_run && was_signalled(observation, last, kill)) {
    return answer(Inaction::ours, first_crossed);
  }
  const std::vector<Standing>& all = standings.all();
  if (all.empty() && standings.warns()) return answer(Inaction::warn_only, standings.warned());
  if (all.empty()) return answer(Inaction::not_watched, std::nullopt);
  if (!config.dry_run && was_acting(observation, last, kill)) {
    return answer(Inaction::acting, first_crossed);
  }
  if (std::any_of(all.begin(), all.end(), drives)) {
    const Inaction inaction = of_driving(config, last);
    const bool stopped = away && inaction == Inaction::too_fast;
    return answer(stopped ? Inaction::stopped : inaction, standings.earliest(drives));
  }
  if (away) return answer(Inaction::stopped, first_crossed);
  const auto by_crossing = crossed ? of_crossing(all) : std::nullopt;
  if (by_crossing == Inaction::too_fast) return answer(Inaction::too_fast, crossed);
  if (const auto since = standings.earliest(was_read)) return answer(Inaction::in_grace, since);
  if (by_crossing) return answer(*by_crossing, crossed);
  const bool read = std::any_of(all.begin(), all.end(), was_read);
  return answer(read ? Inaction::below_threshold : Inaction::unread, std::nullopt);
}

}  // namespace forestall::policy
