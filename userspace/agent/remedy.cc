// SPDX-License-Identifier: Apache-2.0
#include "agent/remedy.h"

namespace forestall::agent {
namespace {

bool is_bpf(Feature feature) {
  return feature >= Feature::bpf && feature <= Feature::guard;
}

bool needs_trampoline(Feature feature) {
  return feature == Feature::bpf_charge || feature == Feature::bpf_stall ||
         feature == Feature::bpf_oom_path;
}

std::string of_forced_off(const FeatureReport& report) {
  if (report.evidence.starts_with("bpf is ")) return "as for bpf";
  if (report.evidence == "needs pidfd") return "as for pidfd";
  if (report.evidence.starts_with("not turned on")) return "set guard: on";
  return "remove it from disableFeatures and --disable-feature";
}

std::string of_bpf(const FeatureReport& report, const RemedyFacts& facts) {
  const bool refused = report.state == FeatureState::refused;
  if (report.feature == Feature::bpf) {
    return refused ? "grant CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN), and check that seccomp and "
                     "kernel lockdown permit bpf(2)"
                   : "none on this kernel: it needs CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF";
  }
  if (!facts.bpf_in_use) return "as for bpf";
  if (!refused) return "none on this kernel: it does not have what the programs need";
  if (needs_trampoline(report.feature)) {
    return "none by capabilities, because other BPF programs load: the kernel, its lockdown or a "
           "sandbox refuses fentry and fexit programs; permit them there, or do without";
  }
  return "none by capabilities, because other BPF programs load: check that the security modules "
         "permit this one";
}

std::string of_refused(Feature feature) {
  switch (feature) {
    case Feature::usage_eventfd:
    case Feature::memory_high:
    case Feature::cgroup_kill:
      return "run the agent as root or grant CAP_DAC_OVERRIDE, with the cgroup filesystem mounted "
             "read-write";
    case Feature::psi_trigger: return "grant CAP_SYS_RESOURCE";
    case Feature::poll: return "give the agent a readable /proc";
    case Feature::oom_log: return "grant CAP_SYSLOG, and give the agent /dev/kmsg";
    case Feature::pidfd:
      return "grant CAP_KILL in the host's user namespace, and run the agent in the host's pid "
             "namespace";
    case Feature::process_mrelease:
      return "run the agent in the host's pid namespace, and check that seccomp permits "
             "process_mrelease(2)";
    case Feature::sched_fifo:
      return "grant CAP_SYS_NICE, and on cgroup v1 give the agent's cpu cgroup a "
             "cpu.rt_runtime_us";
    case Feature::memory_lock: return "grant CAP_IPC_LOCK, or set LimitMEMLOCK=infinity";
    case Feature::oom_score_adj:
      return "grant CAP_SYS_RESOURCE, or set OOMScoreAdjust=-1000 in the agent's unit";
    default: return "none on this kernel";
  }
}

std::string of_absent(Feature feature, kernel::CgroupVersion cgroups) {
  const bool v1 = cgroups == kernel::CgroupVersion::v1;
  switch (feature) {
    case Feature::usage_eventfd:
      return v1 ? "none on this kernel: it has no cgroup.event_control"
                : "none needed: only cgroup v1 has it";
    case Feature::memory_high:
      return v1 ? "boot with the unified hierarchy (systemd.unified_cgroup_hierarchy=1)"
                : "enable the memory controller in cgroup.subtree_control";
    case Feature::psi_trigger: return "boot with psi=1, on a kernel with CONFIG_PSI";
    case Feature::poll: return "give the agent a readable /proc";
    case Feature::oom_log: return "give the agent /dev/kmsg";
    case Feature::cgroup_kill: return "mount cgroup2, on Linux 5.14 or newer";
    case Feature::pidfd: return "none on this kernel: Linux 5.3 or newer has it";
    case Feature::process_mrelease: return "none on this kernel: Linux 5.15 or newer has it";
    default: return "none on this kernel";
  }
}

}  // namespace

std::string remedy(const FeatureReport& report, const RemedyFacts& facts) {
  if (report.state == FeatureState::in_use) return "";
  if (report.state == FeatureState::forced_off) return of_forced_off(report);
  if (is_bpf(report.feature)) return of_bpf(report, facts);
  return report.state == FeatureState::refused ? of_refused(report.feature)
                                               : of_absent(report.feature, facts.cgroups);
}

}  // namespace forestall::agent
