// SPDX-License-Identifier: Apache-2.0
// What the kernel's OOM killer would do: the scene it looks at, and the prediction made from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/ids.h"
#include "model/process.h"

namespace forestall {

// Why an allocation cannot be met (enum oom_constraint, include/linux/oom.h).
enum class Constraint : std::uint8_t {
  none,           // the whole node is out of memory
  cpuset,         // the nodes of a cpuset are
  memory_policy,  // the nodes of an MPOL_BIND policy are
  memcg,          // a memory cgroup is at its limit
};
[[nodiscard]] std::string_view to_string(Constraint constraint);  // "none", "cpuset", …

// Within what the kernel looks for a victim.
struct OomDomain {
  Constraint constraint = Constraint::none;
  CgroupId cgroup;         // with memcg: the one at its limit; inode 0 otherwise
  std::string path = "/";  // of that cgroup in the memory hierarchy
  // oc->totalpages: what a full oom_score_adj of 1000 is worth (mm/oom_kill.c constrained_alloc).
  // The node: RAM + swap. A memcg: its own limit, with the swap it may use
  // (mm/memcontrol.c mem_cgroup_get_max). Nodes: their present pages + swap.
  Pages total_pages = 0;
  NodeMask nodes = kAllNodes;  // with cpuset and memory_policy
  // v1 memory.oom_control 1: tasks that charge wait, nobody is chosen.
  bool kill_disabled = false;

  friend bool operator==(const OomDomain&, const OomDomain&) = default;
};

// /proc/sys/vm.
struct OomSettings {
  bool kill_allocating_task = false;
  // 0 never; 1 unless the constraint is a cpuset, a policy or a memcg; 2 always.
  int panic_on_oom = 0;

  friend bool operator==(const OomSettings&, const OomSettings&) = default;
};

// A memory cgroup, in the order of the kernel's walk (pre-order, siblings as they were created).
struct OomCgroup {
  CgroupId id;
  std::string path;
  std::optional<std::size_t> parent;  // index; nothing: the top of the scene
  bool oom_group = false;             // v2 memory.oom.group

  friend bool operator==(const OomCgroup&, const OomCgroup&) = default;
};

// All that select_bad_process() and oom_kill_process() depend on.
struct OomScene {
  OomDomain domain;
  OomSettings settings;
  // With memcg: the domain's cgroup first, and all below it. Otherwise: all cgroups of the
  // hierarchy, the root first.
  std::vector<OomCgroup> cgroups;
  // Of the domain, in any order. Others are ignored when the domain is a memcg.
  std::vector<ProcessSample> processes;
  // Who allocates, when somebody is known to: matters for a dying one, and for
  // vm.oom_kill_allocating_task.
  std::optional<pid_t> allocating;

  friend bool operator==(const OomScene&, const OomScene&) = default;
};

enum class OomVerdict : std::uint8_t {
  kills,             // the one with the highest points
  kills_allocating,  // who allocates: it is dying already, or vm.oom_kill_allocating_task says so
  waits,             // an earlier victim is not gone yet: nobody more is chosen
  nobody,            // nobody can be chosen; the node panics, a memcg's charge fails
  panics,            // vm.panic_on_oom
  disabled,          // v1 memory.oom_control: who charges waits
};
[[nodiscard]] std::string_view to_string(OomVerdict verdict);

// A process with its points, as oom_badness() gives them for the domain.
struct OomChoice {
  std::size_t process = 0;  // index into the scene's processes
  Pages points = 0;

  friend bool operator==(const OomChoice&, const OomChoice&) = default;
};

struct OomPrediction {
  OomVerdict verdict = OomVerdict::nobody;
  std::optional<OomChoice> victim;     // with kills and kills_allocating
  std::optional<OomChoice> runner_up;  // who it would be without the victim's thread group
  // Victim and runner-up have equal points: the order of the kernel's walk decided.
  bool tied = false;
  // The cgroup that goes as a whole, the victim included (memory.oom.group).
  std::optional<CgroupId> group;
  // Indices of those that die with it: they share its mm, or are members of the group. Ascending.
  std::vector<std::size_t> also;

  friend bool operator==(const OomPrediction&, const OomPrediction&) = default;
};

}  // namespace forestall
