// SPDX-License-Identifier: Apache-2.0
// The OOM killer's control flow on plain values. The kernel's walk keeps the best so far. Here the
// best is the maximum of (points, place in the walk), which does not depend on the order of the
// processes: `>=` in a walk means that the last of equal ones wins.
#include "policy/oom_selection.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "policy/badness.h"

namespace forestall::policy {
namespace {

// LONG_MAX and LONG_MIN of oom_evaluate_task() and oom_badness().
constexpr Pages kChosenFirst = std::numeric_limits<Pages>::max();
constexpr Pages kNotChosen = std::numeric_limits<Pages>::min();

// The place of each cgroup of the scene, by its identity.
class Places {
 public:
  explicit Places(const std::vector<OomCgroup>& cgroups) {
    sorted_.reserve(cgroups.size());
    for (std::size_t i = 0; i < cgroups.size(); ++i) sorted_.push_back({cgroups[i].id, i});
    std::sort(sorted_.begin(), sorted_.end());
  }

  [[nodiscard]] std::optional<std::size_t> of(CgroupId id) const {
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), IndexedCgroup{id, 0});
    if (found == sorted_.end() || found->id != id) return std::nullopt;
    return found->index;
  }

 private:
  struct IndexedCgroup {
    CgroupId id;
    std::size_t index = 0;
    friend auto operator<=>(const IndexedCgroup&, const IndexedCgroup&) = default;
  };
  std::vector<IndexedCgroup> sorted_;
};

// A process that the walk might select.
struct Contender {
  std::size_t process = 0;
  std::size_t place = 0;  // of its cgroup in a memcg's walk; 0 everywhere for the node
  Pages points = 0;

  [[nodiscard]] OomChoice choice() const { return {process, points}; }
};

bool has_memory(const ProcessSample& process) {
  return process.unkillable != Unkillable::kernel_thread &&
         process.unkillable != Unkillable::no_memory;
}

// oom_unkillable_task.
bool never_killed(const ProcessSample& process) {
  return process.unkillable == Unkillable::init || process.unkillable == Unkillable::kernel_thread;
}

bool share_memory(const ProcessSample& a, const ProcessSample& b) {
  return a.memory_id != 0 && a.memory_id == b.memory_id;
}

// The parent's index; nullopt for the top, and for a parent that does not precede its child.
std::optional<std::size_t> parent_of(const std::vector<OomCgroup>& cgroups, std::size_t index) {
  const auto& parent = cgroups[index].parent;
  return parent && *parent < index ? parent : std::nullopt;
}

class Selection {
 public:
  explicit Selection(const OomScene& scene) : scene_(scene) {
    const auto& all = scene.processes;
    if (scene.allocating) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const ProcessSample& process) {
        return process.id.pid == *scene.allocating;
      });
      if (found != all.end()) allocating_ = static_cast<std::size_t>(found - all.begin());
    }
    if (in_memcg()) places_.emplace(scene.cgroups);
  }

  // The verdict before any search; nullopt: the walk decides.
  [[nodiscard]] std::optional<OomVerdict> before_walk() const {
    if (in_memcg() && scene_.domain.kill_disabled) return OomVerdict::disabled;
    if (allocating_ && will_free_memory(*allocating_)) return OomVerdict::kills_allocating;
    if (panics()) return OomVerdict::panics;
    if (kills_who_allocates()) return OomVerdict::kills_allocating;
    return std::nullopt;
  }

  // check_panic_on_oom.
  [[nodiscard]] bool panics() const {
    const int setting = scene_.settings.panic_on_oom;
    if (setting == 0) return false;
    return setting == 2 || scene_.domain.constraint == Constraint::none;
  }

  [[nodiscard]] std::optional<std::size_t> allocating() const { return allocating_; }

  // oom_evaluate_task() for all processes except `left_out`: calls visit(contender) for each
  // selectable one, in the order of the scene. False: an earlier victim stops the walk.
  template <typename Visit>
  bool walk(std::optional<std::size_t> left_out, Visit visit) const {
    bool goes_on = true;
    for (std::size_t i = 0; i < scene_.processes.size(); ++i) {
      if (i == left_out) continue;
      const ProcessSample& process = scene_.processes[i];
      const auto place = place_of(process);
      if (!place || never_killed(process) || !is_eligible(process)) continue;
      if (process.oom_victim) {
        if (!process.oom_victim_reaped) goes_on = false;
        continue;
      }
      const auto points = process.oom_origin ? std::optional(kChosenFirst)
                                             : badness(process, scene_.domain.total_pages);
      if (points) visit(Contender{i, *place, *points});
    }
    return goes_on;
  }

  // Whether the kernel prefers `a`: a total order.
  [[nodiscard]] bool precedes(const Contender& a, const Contender& b) const {
    const auto rank = [&](const Contender& one) {
      const ProcessSample& process = scene_.processes[one.process];
      return std::make_tuple(one.points, one.place, process.order, process.id.pid, one.process);
    };
    return rank(a) > rank(b);
  }

  // task_will_free_mem: the process and all others that share its mm are exiting.
  [[nodiscard]] bool will_free_memory(std::size_t index) const {
    const ProcessSample& process = scene_.processes[index];
    if (!process.dying) return false;
    return std::all_of(
        scene_.processes.begin(), scene_.processes.end(),
        [&](const ProcessSample& other) { return other.dying || !share_memory(process, other); });
  }

 private:
  [[nodiscard]] bool in_memcg() const { return scene_.domain.constraint == Constraint::memcg; }

  // Nullopt: it does not belong to the domain.
  [[nodiscard]] std::optional<std::size_t> place_of(const ProcessSample& process) const {
    return places_ ? places_->of(process.cgroup) : std::optional<std::size_t>(0);
  }

  // oom_cpuset_eligible. The kernel keeps the mask of the allocation only for a policy.
  [[nodiscard]] bool is_eligible(const ProcessSample& process) const {
    switch (scene_.domain.constraint) {
      case Constraint::memcg: return true;
      case Constraint::memory_policy: return (process.nodes_bound & scene_.domain.nodes) != 0;
      case Constraint::cpuset: return (process.nodes_allowed & scene_.domain.nodes) != 0;
      case Constraint::none: break;
    }
    if (!allocating_) return true;
    return (process.nodes_allowed & scene_.processes[*allocating_].nodes_allowed) != 0;
  }

  // It need not be selectable by the walk: a reaped mm or a vfork does not exclude it here.
  [[nodiscard]] bool kills_who_allocates() const {
    if (!scene_.settings.kill_allocating_task || in_memcg() || !allocating_) return false;
    const ProcessSample& process = scene_.processes[*allocating_];
    return has_memory(process) && !never_killed(process) && is_eligible(process) &&
           process.oom_score_adj != kOomScoreAdjMin;
  }

  const OomScene& scene_;
  std::optional<std::size_t> allocating_;  // index of the allocating process, if it is in the scene
  std::optional<Places> places_;           // only if the walk is per cgroup
};

// The two processes that the kernel prefers.
struct Best {
  std::optional<Contender> first;
  std::optional<Contender> second;
  bool waits = false;
};

Best best_of(const Selection& selection, std::optional<std::size_t> left_out = std::nullopt) {
  Best best;
  best.waits = !selection.walk(left_out, [&](const Contender& one) {
    if (!best.first || selection.precedes(one, *best.first)) {
      best.second = best.first;
      best.first = one;
    } else if (!best.second || selection.precedes(one, *best.second)) {
      best.second = one;
    }
  });
  return best;
}

// mem_cgroup_get_oom_group: an index into the cgroups. Two linear searches, for one victim only.
std::optional<std::size_t> group_of(const OomScene& scene, CgroupId cgroup) {
  const auto& cgroups = scene.cgroups;
  const auto found = std::find_if(cgroups.begin(), cgroups.end(),
                                  [&](const OomCgroup& one) { return one.id == cgroup; });
  if (found == cgroups.end()) return std::nullopt;
  std::optional<std::size_t> group;
  for (auto at = std::optional(static_cast<std::size_t>(found - cgroups.begin())); at;
       at = parent_of(cgroups, *at)) {
    const bool is_root = !parent_of(cgroups, *at) && scene.domain.constraint != Constraint::memcg;
    if (cgroups[*at].oom_group && !is_root) group = at;
  }
  return group;
}

// Processes killed as members of the group, by index.
std::vector<bool> members_killed(const OomScene& scene, std::size_t group) {
  const auto& cgroups = scene.cgroups;
  std::vector<bool> inside(cgroups.size());
  inside[group] = true;
  for (std::size_t i = group + 1; i < cgroups.size(); ++i) {
    const auto parent = parent_of(cgroups, i);
    inside[i] = parent && inside[*parent];
  }
  const Places places(cgroups);
  std::vector<bool> killed(scene.processes.size());
  for (std::size_t i = 0; i < killed.size(); ++i) {
    const ProcessSample& process = scene.processes[i];
    const auto place = places.of(process.cgroup);
    killed[i] = place && inside[*place] && !never_killed(process) && has_memory(process) &&
                process.oom_score_adj != kOomScoreAdjMin;
  }
  return killed;
}

// Processes that die with the victim: `killed` ones, and those that share the mm of a killed one.
// The kernel sends that kill to every process of the node, whatever its adjustment, except init and
// kernel threads.
std::vector<std::size_t> die_with(const OomScene& scene, std::size_t victim,
                                  std::vector<bool> killed) {
  const auto& processes = scene.processes;
  killed.resize(processes.size());
  killed[victim] = true;
  std::vector<std::uint64_t> memories;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (killed[i] && processes[i].memory_id != 0) memories.push_back(processes[i].memory_id);
  }
  std::sort(memories.begin(), memories.end());
  std::vector<std::size_t> also;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const ProcessSample& process = processes[i];
    const bool shares = !never_killed(process) &&
                        std::binary_search(memories.begin(), memories.end(), process.memory_id);
    if (i != victim && (killed[i] || shares)) also.push_back(i);
  }
  return also;
}

// oom_kill_process.
void kill(const OomScene& scene, const Selection& selection, std::size_t victim,
          OomPrediction& prediction) {
  if (selection.will_free_memory(victim)) return;
  const auto group = group_of(scene, scene.processes[victim].cgroup);
  if (group) prediction.group = scene.cgroups[*group].id;
  prediction.also =
      die_with(scene, victim, group ? members_killed(scene, *group) : std::vector<bool>());
}

// The allocating process is killed without a walk; the runner-up is the walk's choice without it.
void kill_allocating(const OomScene& scene, const Selection& selection, OomPrediction& prediction) {
  const std::size_t victim = *selection.allocating();
  const auto points = badness(scene.processes[victim], scene.domain.total_pages);
  prediction.victim = OomChoice{victim, points.value_or(kNotChosen)};
  kill(scene, selection, victim, prediction);
  if (selection.panics()) return;
  const Best others = best_of(selection, victim);
  if (!others.waits && others.first) prediction.runner_up = others.first->choice();
}

}  // namespace

OomPrediction predict(const OomScene& scene) {
  const Selection selection(scene);
  OomPrediction prediction;
  if (const auto verdict = selection.before_walk()) {
    prediction.verdict = *verdict;
    if (*verdict == OomVerdict::kills_allocating) kill_allocating(scene, selection, prediction);
    return prediction;
  }
  const Best best = best_of(selection);
  if (best.waits) {
    prediction.verdict = OomVerdict::waits;
    return prediction;
  }
  if (!best.first) return prediction;
  prediction.verdict = OomVerdict::kills;
  prediction.victim = best.first->choice();
  if (best.second) {
    prediction.runner_up = best.second->choice();
    prediction.tied = best.first->points == best.second->points;
  }
  kill(scene, selection, best.first->process, prediction);
  return prediction;
}

std::vector<OomChoice> oom_order(const OomScene& scene) {
  const Selection selection(scene);
  std::vector<Contender> contenders;
  contenders.reserve(scene.processes.size());
  selection.walk(std::nullopt, [&](const Contender& one) { contenders.push_back(one); });
  std::sort(contenders.begin(), contenders.end(),
            [&](const Contender& a, const Contender& b) { return selection.precedes(a, b); });
  std::vector<OomChoice> order;
  order.reserve(contenders.size());
  for (const Contender& one : contenders) order.push_back(one.choice());
  return order;
}

std::size_t may_die_too(const OomScene& scene, const OomPrediction& prediction) {
  if (!prediction.victim) return 0;
  std::vector<bool> dies(scene.processes.size());
  dies[prediction.victim->process] = true;
  for (const std::size_t each : prediction.also) dies[each] = true;
  bool all_known = true;
  for (std::size_t i = 0; i < dies.size(); ++i) {
    if (dies[i] && has_memory(scene.processes[i]) && scene.processes[i].memory_id == 0) {
      all_known = false;
    }
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < dies.size(); ++i) {
    const ProcessSample& process = scene.processes[i];
    if (dies[i] || never_killed(process) || !has_memory(process)) continue;
    if (!all_known || process.memory_id == 0) ++count;
  }
  return count;
}

std::vector<std::size_t> tied_for_first(const OomScene& scene) {
  const Selection selection(scene);
  if (selection.before_walk()) return {};
  const Best best = best_of(selection);
  if (best.waits || !best.first) return {};
  std::vector<std::size_t> tied;
  selection.walk(std::nullopt, [&](const Contender& one) {
    if (one.points == best.first->points && one.place == best.first->place) {
      tied.push_back(one.process);
    }
  });
  if (tied.size() < 2) tied.clear();
  return tied;
}

}  // namespace forestall::policy
