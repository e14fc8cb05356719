// SPDX-License-Identifier: Apache-2.0
// Features: each kernel facility Forestall can use, under its name in `--disable-feature` and
// `doctor`. Only a probe decides whether it is available; the kernel's version never does.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace forestall {

enum class Feature : std::uint8_t {
  // Wake sources based on BPF. Disabling `bpf` disables all of them.
  bpf,
  bpf_timer,     // bpf_timer samples usage of the node and of watched cgroups
  bpf_charge,    // fexit/page_counter_try_charge: the exact crossing (full tier)
  bpf_reclaim,   // tracepoints of memcg and direct reclaim, kswapd
  bpf_stall,     // fentry/psi_memstall_enter, _leave (full tier)
  bpf_oom,       // tracepoints mark_victim, oom_score_adj_update
  bpf_oom_path,  // fentry/oom_kill_process, mem_cgroup_out_of_memory (full tier)
  bpf_cgroups,   // tracepoints cgroup_mkdir, _rmdir, _notify_populated
  bpf_tasks,     // iter/task: every process scored in the kernel, as its OOM killer does
  guard,         // BPF programs that kill approved workloads if the agent itself cannot
  // Wake sources based on files.
  usage_eventfd,  // v1 cgroup.event_control on memory.usage_in_bytes
  memory_high,    // v2 memory.high tripwire with POLLPRI on memory.events
  psi_trigger,    // PSI trigger on /proc/pressure/memory and memory.pressure
  poll,           // adaptive interval over /proc/vmstat and usage files
  oom_log,        // /dev/kmsg: the kernel's messages about its OOM kills
  // Killing, and protection of the agent.
  cgroup_kill,       // v2 cgroup.kill
  pidfd,             // pidfd_open, pidfd_send_signal
  process_mrelease,  // reap a dying process' memory from another thread
  sched_fifo,        // real-time scheduling of the loop
  memory_lock,       // mlockall
  oom_score_adj,     // lower the agent's own oom_score_adj
};

inline constexpr std::size_t kFeatureCount = 21;
using FeatureSet = std::bitset<kFeatureCount>;

[[nodiscard]] std::string_view to_string(Feature feature);
[[nodiscard]] std::optional<Feature> parse_feature(std::string_view text);
[[nodiscard]] constexpr Feature feature_at(std::size_t i) {
  return static_cast<Feature>(i);
}
[[nodiscard]] inline bool has(const FeatureSet& set, Feature feature) {
  return set.test(static_cast<std::size_t>(feature));
}

enum class FeatureState : std::uint8_t {
  in_use,      // probed, works
  absent,      // not available on this host
  refused,     // available, but not permitted
  forced_off,  // --disable-feature
};

[[nodiscard]] std::string_view to_string(FeatureState state);

// The result of one probe.
struct FeatureReport {
  Feature feature = Feature::bpf;
  FeatureState state = FeatureState::absent;
  std::string evidence;  // what was tried and how the kernel answered

  friend bool operator==(const FeatureReport&, const FeatureReport&) = default;
};

// Which kernel facilities are in use, from most to least (ARCHITECTURE.md).
enum class Tier : std::uint8_t { full, tracepoint, files, none };
[[nodiscard]] std::string_view to_string(Tier tier);

}  // namespace forestall
