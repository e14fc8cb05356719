// SPDX-License-Identifier: Apache-2.0
// The host as probed: its cgroup hierarchies, the features of its kernel, and the sources for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/bpf_programs.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "kernel/memcg_scan.h"
#include "kernel/setting_records.h"
#include "kernel/task_scan.h"
#include "model/feature.h"
#include "sources/process_source.h"
#include "sources/source.h"

namespace forestall::agent {

struct ProbedHost {
  std::string kernel_release;  // uname -r: shown, never decided upon
  kernel::CgroupTree tree;
  std::unique_ptr<kernel::BpfPrograms> bpf;   // null when turned off
  std::unique_ptr<kernel::TaskScan> tasks;    // null when it did not load, or was handed out
  std::unique_ptr<kernel::MemcgScan> memcgs;  // null when it did not load
  // Keeps the guard after the agent; null: it ends with the agent.
  std::unique_ptr<kernel::GuardStore> guard_store;
  std::unique_ptr<kernel::GuardPrograms> guard;  // null unless load_guard() loaded it
  // One per feature, in Feature order; complete once protect_self() ran.
  std::vector<FeatureReport> reports;
  kernel::SettingRecords high_records{};  // without a directory, memory.high is never set
  // Starts prekill hooks: a path, or a name that is not installed.
  std::string prekill_program = "forestall-prekill";
  kernel::SettingRecords frozen_records{};  // nor is a cgroup frozen
  kernel::SettingRecords min_records{};     // nor is memory.min set
  kernel::SettingRecords low_records{};     // nor memory.low

  [[nodiscard]] bool in_use(Feature feature) const;
  [[nodiscard]] FeatureSet usable() const;
  [[nodiscard]] Tier tier() const;
  // Whether there is a wake source and a way to kill a process.
  [[nodiscard]] bool can_guard() const;
};

// Probes every feature except those that change this process itself. An error means that there is
// no memory controller.
[[nodiscard]] Result<ProbedHost> probe_host(const FeatureSet& disabled,
                                            const std::string& cgroup_mount);

// Loads the guard's BPF programs, which takes about 100 ms: for agents that use it, and for doctor.
// `store`: null, or the host's guard_store.
void load_guard(ProbedHost& host, const FeatureSet& disabled, kernel::GuardStore* store = nullptr);

// Real-time scheduling, locked memory, a lower oom_score_adj; adds their reports. To be called
// from the loop's thread.
void protect_self(ProbedHost& host, const FeatureSet& disabled);

struct Sources {
  std::vector<std::unique_ptr<sources::Source>> all;
  // Which of them report kills by the kernel.
  bool bpf_oom = false;
  bool oom_log = false;
};

// Every source this host can use. One that could not be made is noted in the host's reports.
[[nodiscard]] Sources make_sources(ProbedHost& host);

// Reads all processes as the OOM killer does, by BPF if that is in use, else by /proc. Each call
// makes another one, for another thread. `host` must outlive it.
[[nodiscard]] Result<std::unique_ptr<sources::ProcessSource>> make_process_source(ProbedHost& host);

// What is lost without a feature, for people; empty where nothing is.
[[nodiscard]] std::string_view cost_of_missing(Feature feature);

}  // namespace forestall::agent
