// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_plan.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace forestall::kernel {
namespace {

constexpr auto kPrograms = std::to_array<BpfProgram>({
    {"setup", Feature::bpf},
    {"sample_node", Feature::bpf},
    {"resolve_cgroup", Feature::bpf},
    {"start_timer", Feature::bpf_timer},
    {"charge", Feature::bpf_charge, Hook::function, "page_counter_try_charge"},
    {"memcg_reclaim_begin", Feature::bpf_reclaim, Hook::tracepoint,
     "mm_vmscan_memcg_reclaim_begin"},
    {"memcg_reclaim_end", Feature::bpf_reclaim, Hook::tracepoint, "mm_vmscan_memcg_reclaim_end"},
    {"direct_reclaim_begin", Feature::bpf_reclaim, Hook::tracepoint,
     "mm_vmscan_direct_reclaim_begin"},
    {"direct_reclaim_end", Feature::bpf_reclaim, Hook::tracepoint, "mm_vmscan_direct_reclaim_end"},
    {"kswapd_wake", Feature::bpf_reclaim, Hook::tracepoint, "mm_vmscan_kswapd_wake"},
    {"kswapd_sleep", Feature::bpf_reclaim, Hook::tracepoint, "mm_vmscan_kswapd_sleep"},
    {"forget_task", Feature::bpf_reclaim, Hook::tracepoint, "sched_process_exit",
     Feature::bpf_stall},
    {"memstall_enter", Feature::bpf_stall, Hook::function, "psi_memstall_enter"},
    {"memstall_leave", Feature::bpf_stall, Hook::function, "psi_memstall_leave"},
    {"mark_victim", Feature::bpf_oom, Hook::tracepoint, "mark_victim"},
    {"oom_score_adj_update", Feature::bpf_oom, Hook::tracepoint, "oom_score_adj_update"},
    // Any one of them is enough; compilers inline one or another.
    {"mem_cgroup_out_of_memory", Feature::bpf_oom_path, Hook::function, "mem_cgroup_out_of_memory",
     std::nullopt, true},
    {"out_of_memory", Feature::bpf_oom_path, Hook::function, "out_of_memory", std::nullopt, true},
    {"oom_kill_process", Feature::bpf_oom_path, Hook::function, "oom_kill_process", std::nullopt,
     true},
    {"cgroup_mkdir", Feature::bpf_cgroups, Hook::tracepoint, "cgroup_mkdir"},
    {"cgroup_rmdir", Feature::bpf_cgroups, Hook::tracepoint, "cgroup_rmdir"},
    {"cgroup_notify_populated", Feature::bpf_cgroups, Hook::tracepoint, "cgroup_notify_populated"},
});

constexpr std::array kFeatures{Feature::bpf,          Feature::bpf_timer,  Feature::bpf_charge,
                               Feature::bpf_reclaim,  Feature::bpf_stall,  Feature::bpf_oom,
                               Feature::bpf_oom_path, Feature::bpf_cgroups};

std::string missing(const BpfProgram& program) {
  return program.hook == Hook::tracepoint
             ? "BTF of this kernel has no tracepoint " + std::string(program.target)
             : "BTF of this kernel has no function " + std::string(program.target);
}

// The verdict of BTF and of the boot parameters on one feature.
BpfVerdict verdict_on(const KernelTypes& types, Feature feature) {
  if (feature == Feature::bpf_stall && !psi_is_on()) {
    return {FeatureState::absent, std::string(kPsiIsOff)};
  }
  std::size_t present = 0;
  std::string lacks;
  for (const BpfProgram& program : kPrograms) {
    if (program.feature != feature) continue;
    if (offers(types, program.hook, program.target)) {
      ++present;
      continue;
    }
    if (!program.may_lack) return {FeatureState::absent, missing(program)};
    lacks = missing(program);
  }
  if (present == 0) return {FeatureState::absent, lacks};
  return {FeatureState::in_use, lacks};
}

}  // namespace

bool serves(const BpfProgram& program, Feature feature) {
  return program.feature == feature || program.also == feature;
}

bool psi_is_on() {
  return ::access("/proc/pressure/memory", F_OK) == 0;
}

std::span<const BpfProgram> bpf_programs() {
  return kPrograms;
}

std::span<const Feature> bpf_features() {
  return kFeatures;
}

bool offers(const KernelTypes& types, Hook hook, std::string_view target) {
  switch (hook) {
    case Hook::none: return types.valid();
    case Hook::tracepoint: return types.has_tracepoint(target);
    case Hook::function: return types.has_function(target);
  }
  return false;
}

BpfPlan plan_bpf(const KernelTypes& types, const FeatureSet& disabled) {
  BpfPlan plan;
  for (const Feature feature : kFeatures) {
    if (has(disabled, feature)) {
      plan[feature] = {FeatureState::forced_off, "--disable-feature"};
    } else if (has(disabled, Feature::bpf)) {
      plan[feature] = {FeatureState::forced_off, "bpf is forced off"};
    } else if (!types.valid()) {
      plan[feature] = {FeatureState::absent, "this kernel offers no BTF (/sys/kernel/btf/vmlinux)"};
    } else {
      plan[feature] = verdict_on(types, feature);
    }
  }
  return plan;
}

bool should_load(const BpfPlan& plan, const KernelTypes& types, const BpfProgram& program) {
  const bool served = std::ranges::any_of(plan, [&](const auto& entry) {
    return entry.second.state == FeatureState::in_use && serves(program, entry.first);
  });
  return served && offers(types, program.hook, program.target);
}

}  // namespace forestall::kernel
