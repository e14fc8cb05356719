// SPDX-License-Identifier: Apache-2.0
// The kernel OOM killer's action: the state it acts on, and the prediction made from it.
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
  cpuset,         // the nodes of a cpuset are out of memory
  memory_policy,  // the nodes of an MPOL_BIND policy are out of memory
  memcg,          // a memory cgroup is at its limit
};
[[nodiscard]] std::string_view to_string(Constraint constraint);  // "none", "cpuset", …

// Where the kernel searches for a victim.
struct OomDomain {
  Constraint constraint = Constraint::none;
  CgroupId cgroup;         // with memcg: the cgroup at its limit; inode 0 otherwise
  std::string path = "/";  // of that cgroup in the memory hierarchy
  // oc->totalpages: the value of a full oom_score_adj of 1000 (mm/oom_kill.c constrained_alloc).
  // Node: RAM + swap. Memcg: its own limit plus the swap it may use (mm/memcontrol.c
  // mem_cgroup_get_max). Nodes: their present pages + swap.
  Pages total_pages = 0;
  NodeMask nodes = kAllNodes;  // with cpuset and memory_policy
  // v1 memory.oom_control 1: tasks that charge wait; no process is selected.
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

// A memory cgroup, in the kernel's walk order (pre-order, siblings in order of creation).
struct OomCgroup {
  CgroupId id;
  std::string path;
  std::optional<std::size_t> parent;  // index; nullopt: the top of the scene
  bool oom_group = false;             // v2 memory.oom.group

  friend bool operator==(const OomCgroup&, const OomCgroup&) = default;
};

// All input of select_bad_process() and oom_kill_process().
struct OomScene {
  OomDomain domain;
  OomSettings settings;
  // With memcg: the domain's cgroup first, then its descendants. Otherwise: all cgroups of the
  // hierarchy, the root first.
  std::vector<OomCgroup> cgroups;
  // Of the domain, in any order. With memcg, processes outside of it are ignored.
  std::vector<ProcessSample> processes;
  // The allocating process, if known. It matters if it is dying, and for
  // vm.oom_kill_allocating_task.
  std::optional<pid_t> allocating;

  friend bool operator==(const OomScene&, const OomScene&) = default;
};

enum class OomVerdict : std::uint8_t {
  kills,             // the process with the highest points
  kills_allocating,  // the allocating process: it is dying, or vm.oom_kill_allocating_task is set
  waits,             // an earlier victim has not exited yet: no further one is selected
  no_victim,         // no process can be selected; the node panics, a memcg's charge fails
  panics,            // vm.panic_on_oom
  disabled,          // v1 memory.oom_control: charging processes wait
};
[[nodiscard]] std::string_view to_string(OomVerdict verdict);

// A process with its points from oom_badness() in the domain.
struct OomChoice {
  std::size_t process = 0;  // index into the scene's processes
  Pages points = 0;

  friend bool operator==(const OomChoice&, const OomChoice&) = default;
};

struct OomPrediction {
  OomVerdict verdict = OomVerdict::no_victim;
  std::optional<OomChoice> victim;     // with kills and kills_allocating
  std::optional<OomChoice> runner_up;  // the victim if the victim's thread group is ignored
  // Victim and runner-up have equal points: the kernel's walk order decided.
  bool tied = false;
  // The cgroup that is killed as a whole, the victim included (memory.oom.group).
  std::optional<CgroupId> group;
  // Indices of the processes that die too: they share its mm, or are in the group. Ascending.
  std::vector<std::size_t> also;

  friend bool operator==(const OomPrediction&, const OomPrediction&) = default;
};

}  // namespace forestall
