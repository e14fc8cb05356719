// SPDX-License-Identifier: Apache-2.0
// The prediction against a literal simulation of the kernel's control flow, on many small random
// scenes. The reference shares only the model types with the code under test: it makes the walk a
// list, evaluates task by task with the chosen one and its points as its only state, and kills by
// marking. Small numbers on purpose, so that ties and sharing are frequent. Every failure prints
// its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/badness.h"
#include "policy/oom_selection.h"
#include "tests/policy/dice.h"
#include "tests/policy/oom_world.h"

namespace forestall::policy {
namespace {

constexpr std::uint32_t kScenes = 60'000;
constexpr Pages kLongMin = std::numeric_limits<Pages>::min();
constexpr Pages kLongMax = std::numeric_limits<Pages>::max();

// One run of out_of_memory().
class Kernel {
 public:
  explicit Kernel(const OomScene& scene) : scene_(scene), is_memcg_(is_memcg(scene)) {
    for (std::size_t i = 0; i < scene.processes.size(); ++i) {
      if (scene.allocating && task(i).id.pid == *scene.allocating) current_ = i;
    }
  }

  OomVerdict verdict = OomVerdict::no_victim;
  std::optional<std::size_t> chosen;
  Pages chosen_points = kLongMin;
  std::optional<CgroupId> group;
  std::set<std::size_t> killed;

  void out_of_memory() {
    if (is_memcg_ && scene_.domain.kill_disabled) {
      verdict = OomVerdict::disabled;
      return;
    }
    if (current_ && task_will_free_mem(*current_)) {
      chosen = current_;
      killed.insert(*current_);
      verdict = OomVerdict::kills_allocating;
      return;
    }
    if (check_panic_on_oom()) {
      verdict = OomVerdict::panics;
      return;
    }
    if (!is_memcg_ && scene_.settings.kill_allocating_task && current_ && has_mm(*current_) &&
        !oom_unkillable_task(*current_) && oom_cpuset_eligible(*current_) &&
        task(*current_).oom_score_adj != -1000) {
      chosen = current_;
      verdict = OomVerdict::kills_allocating;
      oom_kill_process();
      return;
    }
    if (!select_bad_process(walk())) {
      verdict = OomVerdict::waits;
      chosen.reset();
      return;
    }
    if (!chosen) return;
    verdict = OomVerdict::kills;
    oom_kill_process();
  }

  // The walk without one thread group.
  std::optional<std::size_t> select_without(std::size_t left_out) {
    std::vector<std::size_t> list = walk();
    std::erase(list, left_out);
    chosen.reset();
    chosen_points = kLongMin;
    if (!select_bad_process(list)) return std::nullopt;
    return chosen;
  }

  [[nodiscard]] bool check_panic_on_oom() const {
    if (scene_.settings.panic_on_oom == 0) return false;
    if (scene_.settings.panic_on_oom != 2 && scene_.domain.constraint != Constraint::none) {
      return false;
    }
    return true;
  }

  // for_each_process, or for_each_mem_cgroup_tree with the tasks of each.
  [[nodiscard]] std::vector<std::size_t> walk() const {
    std::vector<std::size_t> list;
    const auto append = [&](auto belongs) {
      std::map<std::pair<std::uint64_t, pid_t>, std::size_t> sorted;
      for (std::size_t i = 0; i < scene_.processes.size(); ++i) {
        if (belongs(task(i))) sorted[{task(i).order, task(i).id.pid}] = i;
      }
      for (const auto& [key, i] : sorted) list.push_back(i);
    };
    if (!is_memcg_) {
      append([](const ProcessSample&) { return true; });
      return list;
    }
    for (const OomCgroup& cgroup : scene_.cgroups) {
      append([&](const ProcessSample& one) { return one.cgroup == cgroup.id; });
    }
    return list;
  }

 private:
  static bool is_memcg(const OomScene& scene) {
    return scene.domain.constraint == Constraint::memcg;
  }
  [[nodiscard]] const ProcessSample& task(std::size_t i) const { return scene_.processes[i]; }
  [[nodiscard]] bool has_mm(std::size_t i) const {
    return task(i).unkillable != Unkillable::no_memory &&
           task(i).unkillable != Unkillable::kernel_thread;
  }
  [[nodiscard]] bool oom_unkillable_task(std::size_t i) const {
    if (task(i).unkillable == Unkillable::init) return true;
    return task(i).unkillable == Unkillable::kernel_thread;
  }

  [[nodiscard]] bool oom_cpuset_eligible(std::size_t i) const {
    if (scene_.domain.constraint == Constraint::memory_policy) {
      return (task(i).nodes_bound & scene_.domain.nodes) != 0;
    }
    NodeMask mine = kAllNodes;
    if (current_) mine = task(*current_).nodes_allowed;
    if (scene_.domain.constraint == Constraint::cpuset) mine = scene_.domain.nodes;
    return (task(i).nodes_allowed & mine) != 0;
  }

  [[nodiscard]] bool shares_mm(std::size_t a, std::size_t b) const {
    return task(a).memory_id != 0 && task(a).memory_id == task(b).memory_id;
  }

  [[nodiscard]] bool task_will_free_mem(std::size_t i) const {
    if (!task(i).dying) return false;
    for (std::size_t p = 0; p < scene_.processes.size(); ++p) {
      if (!shares_mm(p, i)) continue;
      if (p == i) continue;
      if (!task(p).dying) return false;
    }
    return true;
  }

  enum class Next { next, abort };

  Next oom_evaluate_task(std::size_t i) {
    Pages points = 0;
    if (oom_unkillable_task(i)) goto next;
    if (!is_memcg_ && !oom_cpuset_eligible(i)) goto next;
    if (task(i).oom_victim) {
      if (task(i).oom_victim_reaped) goto next;
      return Next::abort;
    }
    if (task(i).oom_origin) {
      points = kLongMax;
      goto select;
    }
    points = oom_badness(i);
    if (points == kLongMin || points < chosen_points) goto next;
  select:
    chosen = i;
    chosen_points = points;
  next:
    return Next::next;
  }

  [[nodiscard]] Pages oom_badness(std::size_t i) const {
    if (task(i).unkillable != Unkillable::none || task(i).oom_score_adj == -1000) return kLongMin;
    const ProcessMemory& memory = task(i).memory;
    Pages points = memory.file + memory.anon + memory.shmem + memory.swap + memory.page_tables;
    Pages adjustment = task(i).oom_score_adj;
    adjustment *= scene_.domain.total_pages / 1000;
    points += adjustment;
    return points;
  }

  // False: aborted.
  bool select_bad_process(const std::vector<std::size_t>& list) {
    for (const std::size_t i : list) {
      if (oom_evaluate_task(i) == Next::abort) return false;
    }
    return true;
  }

  [[nodiscard]] const OomCgroup* find(CgroupId id) const {
    for (const OomCgroup& one : scene_.cgroups) {
      if (one.id == id) return &one;
    }
    return nullptr;
  }
  [[nodiscard]] const OomCgroup* parent(const OomCgroup& of) const {
    return of.parent ? &scene_.cgroups[*of.parent] : nullptr;
  }

  [[nodiscard]] const OomCgroup* mem_cgroup_get_oom_group(std::size_t victim) const {
    const OomCgroup* found = nullptr;
    const OomCgroup* domain = &scene_.cgroups.front();
    for (const OomCgroup* at = find(task(victim).cgroup); at != nullptr; at = parent(*at)) {
      const bool is_root = !is_memcg_ && at == domain;
      if (at->oom_group && !is_root) found = at;
      if (at == domain) break;
    }
    return found;
  }

  [[nodiscard]] bool is_descendant(CgroupId id, const OomCgroup& of) const {
    for (const OomCgroup* at = find(id); at != nullptr; at = parent(*at)) {
      if (at == &of) return true;
    }
    return false;
  }

  void kill_process(std::size_t victim) {
    if (!has_mm(victim)) return;
    killed.insert(victim);
    for (std::size_t p = 0; p < scene_.processes.size(); ++p) {
      if (!shares_mm(p, victim)) continue;
      if (p == victim) continue;
      if (task(p).unkillable == Unkillable::init) continue;
      if (task(p).unkillable == Unkillable::kernel_thread) continue;
      killed.insert(p);
    }
  }

  void oom_kill_process() {
    if (task_will_free_mem(*chosen)) {
      killed.insert(*chosen);
      return;
    }
    const OomCgroup* whole = mem_cgroup_get_oom_group(*chosen);
    kill_process(*chosen);
    if (whole == nullptr) return;
    group = whole->id;
    for (std::size_t i = 0; i < scene_.processes.size(); ++i) {
      if (!is_descendant(task(i).cgroup, *whole)) continue;
      if (task(i).oom_score_adj == -1000 || task(i).unkillable == Unkillable::init) continue;
      kill_process(i);
    }
  }

  const OomScene& scene_;
  const bool is_memcg_;
  std::optional<std::size_t> current_;
};

// A tree in pre-order: each node is appended under a random node of the path to the last.
std::vector<OomCgroup> any_tree(Dice& dice) {
  std::vector<OomCgroup> tree;
  std::vector<std::size_t> open;  // the path to the last one
  const auto count = 1 + dice.below(7);
  for (std::int64_t i = 0; i < count; ++i) {
    OomCgroup one;
    if (!open.empty()) {
      open.resize(static_cast<std::size_t>(1 + dice.below(static_cast<std::int64_t>(open.size()))));
      one.parent = open.back();
    }
    one.path = (one.parent ? tree[*one.parent].path + "/" : "/") + std::to_string(i);
    // Identities are unordered.
    one.id = {static_cast<std::uint64_t>(1'000 + (i * 37) % 101)};
    one.oom_group = dice.one_in(4);
    open.push_back(tree.size());
    tree.push_back(one);
  }
  return tree;
}

ProcessSample any_process(Dice& dice, pid_t pid, const std::vector<OomCgroup>& tree) {
  ProcessSample one = process(pid, dice.below(4));
  one.memory.swap = dice.below(3);
  one.memory.page_tables = dice.below(2);
  const auto size = static_cast<std::int64_t>(tree.size());
  one.cgroup = tree[static_cast<std::size_t>(dice.below(size))].id;
  if (dice.one_in(12)) one.cgroup = {dice.one_in(2) ? 0U : 5U};  // unknown, or of another domain
  one.memory_id = static_cast<std::uint64_t>(dice.below(dice.one_in(3) ? 4 : 1'000));
  one.order = static_cast<std::uint64_t>(dice.below(dice.one_in(4) ? 3 : 100));
  constexpr std::array<std::int32_t, 8> kAdjustments{0, 0, 0, 1, -1, -999, 1000, -1000};
  one = adjusted(one, kAdjustments[static_cast<std::size_t>(dice.below(8))]);
  if (dice.one_in(6)) one = unkillable(one, static_cast<Unkillable>(dice.below(7)));
  one.oom_origin = dice.one_in(20);
  if (dice.one_in(25)) one = chosen_before(one, dice.one_in(2));
  if (dice.one_in(8) && one.memory_id != 0) one.dying = true;
  // Never without any node.
  if (dice.one_in(3)) one.nodes_allowed = static_cast<NodeMask>(1 + dice.below(7));
  if (dice.one_in(3)) one.nodes_bound = static_cast<NodeMask>(1 + dice.below(7));
  return one;
}

OomScene any_scene(Dice& dice) {
  OomScene scene;
  scene.cgroups = any_tree(dice);
  scene.domain.constraint = static_cast<Constraint>(dice.below(4));
  if (scene.domain.constraint == Constraint::memcg) {
    scene.domain.cgroup = scene.cgroups.front().id;
    scene.domain.kill_disabled = dice.one_in(20);
  }
  scene.domain.total_pages = dice.one_in(4) ? dice.below(3'000) : 2'000;
  scene.domain.nodes = static_cast<NodeMask>(1 + dice.below(7));
  scene.settings.kill_allocating_task = dice.one_in(5);
  if (dice.one_in(8)) scene.settings.panic_on_oom = static_cast<int>(dice.below(3));
  const auto count = dice.below(12);
  for (std::int64_t i = 0; i < count; ++i) {
    scene.processes.push_back(any_process(dice, static_cast<pid_t>(10 + i), scene.cgroups));
  }
  dice.shuffle(scene.processes);
  if (count > 0 && dice.one_in(3)) scene.allocating = static_cast<pid_t>(10 + dice.below(count));
  return scene;
}

std::optional<std::size_t> process_of(const std::optional<OomChoice>& choice) {
  return choice ? std::optional(choice->process) : std::nullopt;
}

// The choice of the walk without the prediction's victim.
std::optional<std::size_t> runner_up(const OomScene& scene, const Kernel& ran) {
  if (!ran.chosen) return std::nullopt;
  Kernel again(scene);
  if (ran.verdict == OomVerdict::kills_allocating && again.check_panic_on_oom()) {
    return std::nullopt;
  }
  return again.select_without(*ran.chosen);
}

TEST(OomPropertyTest, ThePredictionMatchesTheKernel) {
  std::map<OomVerdict, std::uint32_t> verdicts;
  std::uint32_t groups = 0;
  std::uint32_t crowds = 0;
  std::uint32_t ties = 0;
  for (std::uint32_t seed = 0; seed < kScenes; ++seed) {
    Dice dice(seed);
    const OomScene scene = any_scene(dice);
    const OomPrediction prediction = predict(scene);
    Kernel kernel(scene);
    kernel.out_of_memory();
    ASSERT_EQ(to_string(prediction.verdict), to_string(kernel.verdict)) << seed;
    ASSERT_EQ(process_of(prediction.victim), kernel.chosen) << seed;
    ASSERT_EQ(prediction.group, kernel.group) << seed;
    std::set<std::size_t> dead(prediction.also.begin(), prediction.also.end());
    ASSERT_TRUE(std::is_sorted(prediction.also.begin(), prediction.also.end())) << seed;
    if (prediction.victim) {
      ASSERT_TRUE(dead.insert(prediction.victim->process).second) << seed;
    }
    // A process with oom_origin and without an mm is chosen, but not killed.
    if (kernel.chosen) kernel.killed.insert(*kernel.chosen);
    ASSERT_EQ(dead, kernel.killed) << seed;
    if (prediction.verdict == OomVerdict::kills) {
      ASSERT_EQ(prediction.victim->points, kernel.chosen_points) << seed;
    }
    ASSERT_EQ(process_of(prediction.runner_up), runner_up(scene, kernel)) << seed;
    ++verdicts[prediction.verdict];
    groups += prediction.group ? 1 : 0;
    crowds += prediction.also.empty() ? 0 : 1;
    ties += prediction.tied ? 1 : 0;
  }
  for (const OomVerdict each : {OomVerdict::kills, OomVerdict::kills_allocating, OomVerdict::waits,
                                OomVerdict::no_victim, OomVerdict::panics, OomVerdict::disabled}) {
    EXPECT_GT(verdicts[each], 300U) << to_string(each) << ": too few to prove anything";
  }
  EXPECT_GT(groups, 5'000U);
  EXPECT_GT(crowds, 5'000U);
  EXPECT_GT(ties, 3'000U);
}

// The order must be known exactly for the processes that another order could make the victim.
TEST(OomPropertyTest, OnlyTiesInOneCgroupDependOnTheOrder) {
  std::uint32_t ties = 0;
  for (std::uint32_t seed = 0; seed < kScenes / 6; ++seed) {
    Dice dice(seed);
    OomScene scene = any_scene(dice);
    const std::vector<std::size_t> tied = tied_for_first(scene);
    const OomPrediction before = predict(scene);
    std::set<std::size_t> victims;
    if (before.verdict == OomVerdict::kills) victims.insert(before.victim->process);
    for (std::size_t last = 0; last < scene.processes.size(); ++last) {
      OomScene other = scene;
      other.processes[last].order = 1'000;
      const OomPrediction after = predict(other);
      ASSERT_EQ(after.verdict, before.verdict) << seed;
      if (after.verdict == OomVerdict::kills) victims.insert(after.victim->process);
    }
    if (victims.size() < 2) {
      ASSERT_TRUE(tied.empty()) << seed;
      continue;
    }
    ++ties;
    ASSERT_EQ(tied, std::vector<std::size_t>(victims.begin(), victims.end())) << seed;
    ASSERT_TRUE(before.tied) << seed;
  }
  EXPECT_GT(ties, 500U);
}

// Consecutive kills come in the predicted order.
TEST(OomPropertyTest, TheOrderMatchesConsecutiveKills) {
  for (std::uint32_t seed = 0; seed < kScenes / 6; ++seed) {
    Dice dice(seed);
    const OomScene scene = any_scene(dice);
    const std::vector<OomChoice> order = oom_order(scene);
    OomScene left = scene;
    left.settings = {};
    left.domain.kill_disabled = false;
    // The allocating process matters for its nodes; a dying one would be chosen for that.
    for (ProcessSample& one : left.processes) one.dying = false;
    std::erase_if(left.processes, [](const ProcessSample& one) {
      return one.oom_victim && !one.oom_victim_reaped;
    });
    if (left.processes.size() != scene.processes.size()) continue;
    for (const OomChoice& next : order) {
      const OomPrediction prediction = predict(left);
      ASSERT_EQ(prediction.verdict, OomVerdict::kills) << seed;
      ASSERT_EQ(*prediction.victim, next) << seed;
      left.processes[next.process].oom_victim = true;
      left.processes[next.process].oom_victim_reaped = true;
    }
    ASSERT_EQ(predict(left).verdict, OomVerdict::no_victim) << seed;
  }
}

TEST(OomPropertyTest, TheOrderOfTheSceneNeverMatters) {
  for (std::uint32_t seed = 0; seed < kScenes / 6; ++seed) {
    Dice dice(seed);
    const OomScene scene = any_scene(dice);
    OomScene shuffled = scene;
    dice.shuffle(shuffled.processes);
    const auto pids = [](const OomScene& of) {
      const OomPrediction prediction = predict(of);
      std::multiset<pid_t> also;
      for (const std::size_t i : prediction.also) also.insert(of.processes[i].id.pid);
      const auto pid = [&](const std::optional<OomChoice>& choice) {
        return choice ? of.processes[choice->process].id.pid : 0;
      };
      return std::make_tuple(prediction.verdict, pid(prediction.victim), pid(prediction.runner_up),
                             prediction.tied, prediction.group, also);
    };
    ASSERT_EQ(pids(scene), pids(shuffled)) << seed;
  }
}

}  // namespace
}  // namespace forestall::policy
