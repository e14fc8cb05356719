// SPDX-License-Identifier: Apache-2.0
#include "model/feature.h"

namespace forestall {

std::string_view to_string(Feature feature) {
  switch (feature) {
    case Feature::bpf: return "bpf";
    case Feature::bpf_timer: return "bpf-timer";
    case Feature::bpf_charge: return "bpf-charge";
    case Feature::bpf_reclaim: return "bpf-reclaim";
    case Feature::bpf_stall: return "bpf-stall";
    case Feature::bpf_oom: return "bpf-oom";
    case Feature::bpf_oom_path: return "bpf-oom-path";
    case Feature::bpf_cgroups: return "bpf-cgroups";
    case Feature::bpf_tasks: return "bpf-tasks";
    case Feature::guard: return "guard";
    case Feature::usage_eventfd: return "usage-eventfd";
    case Feature::memory_high: return "memory-high";
    case Feature::psi_trigger: return "psi-trigger";
    case Feature::poll: return "poll";
    case Feature::oom_log: return "oom-log";
    case Feature::cgroup_kill: return "cgroup-kill";
    case Feature::pidfd: return "pidfd";
    case Feature::process_mrelease: return "process-mrelease";
    case Feature::sched_fifo: return "sched-fifo";
    case Feature::memory_lock: return "memory-lock";
    case Feature::oom_score_adj: return "oom-score-adj";
  }
  return "";
}

std::optional<Feature> parse_feature(std::string_view text) {
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    if (to_string(feature_at(i)) == text) return feature_at(i);
  }
  return std::nullopt;
}

std::string_view to_string(FeatureState state) {
  switch (state) {
    case FeatureState::in_use: return "in-use";
    case FeatureState::absent: return "absent";
    case FeatureState::refused: return "refused";
    case FeatureState::forced_off: return "forced-off";
  }
  return "";
}

std::string_view to_string(Tier tier) {
  switch (tier) {
    case Tier::full: return "full";
    case Tier::tracepoint: return "tracepoint";
    case Tier::files: return "files";
    case Tier::none: return "none";
  }
  return "";
}

}  // namespace forestall
