// SPDX-License-Identifier: Apache-2.0
#include "agent/host.h"

#include <sys/utsname.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>

#include "kernel/file_probe.h"
#include "kernel/process_probe.h"
#include "kernel/scheduling.h"
#include "sources/bpf_source.h"
#include "sources/high_tripwire.h"
#include "sources/oom_log.h"
#include "sources/poll_source.h"
#include "sources/psi_source.h"
#include "sources/usage_eventfd.h"

namespace forestall::agent {
namespace {

constexpr std::initializer_list<Feature> kFullTier{Feature::bpf_charge, Feature::bpf_stall};
constexpr std::initializer_list<Feature> kWakesByBpf{Feature::bpf_timer, Feature::bpf_charge,
                                                     Feature::bpf_reclaim, Feature::bpf_stall};
constexpr std::initializer_list<Feature> kWakesByFiles{Feature::usage_eventfd, Feature::memory_high,
                                                       Feature::psi_trigger, Feature::poll};

std::string kernel_release() {
  utsname names{};
  return uname(&names) == 0 ? names.release : "unknown";
}

bool any_in_use(const ProbedHost& host, std::initializer_list<Feature> features) {
  return std::any_of(features.begin(), features.end(),
                     [&](Feature feature) { return host.in_use(feature); });
}

void put(ProbedHost& host, FeatureReport report) {
  host.reports[static_cast<std::size_t>(report.feature)] = std::move(report);
}

// Every slot is filled before probing, because a probe may report nothing for a feature.
std::vector<FeatureReport> blank_reports(const FeatureSet& disabled) {
  std::vector<FeatureReport> reports(kFeatureCount);
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    reports[i].feature = feature_at(i);
    if (!disabled.test(i)) continue;
    reports[i].state = FeatureState::forced_off;
    reports[i].evidence = "turned off by name";
  }
  return reports;
}

bool is_refusal(int code) {
  return code == EPERM || code == EACCES;
}

FeatureReport failed(Feature feature, const Error& error) {
  return {feature, is_refusal(error.code) ? FeatureState::refused : FeatureState::absent,
          error.text()};
}

// Loads the program that reads all cgroups. Its result is part of the report about tasks: both walk
// in iterators of tasks.
std::string load_memcgs(ProbedHost& host, const kernel::KernelTypes& types) {
  auto scan = kernel::MemcgScan::load(types);
  if (!scan.ok()) return "; workloads are read from files: " + scan.error().text();
  host.memcgs = std::move(*scan);
  return "; " + host.memcgs->evidence();
}

// Loads the BPF programs that walk all tasks, which also probes how this kernel counts rss.
void probe_tasks(ProbedHost& host, const FeatureSet& disabled, const kernel::KernelTypes& types) {
  if (has(disabled, Feature::bpf_tasks)) return;
  if (has(disabled, Feature::bpf)) {
    put(host, {Feature::bpf_tasks, FeatureState::forced_off, "bpf is forced off"});
    return;
  }
  auto scan = kernel::TaskScan::load(types);
  if (!scan.ok()) {
    put(host, failed(Feature::bpf_tasks, scan.error()));
    return;
  }
  host.tasks = std::move(*scan);
  const kernel::Calibration& calibration = host.tasks->calibration();
  put(host, {Feature::bpf_tasks, FeatureState::in_use,
             std::string("rss ") + std::string(to_string(calibration.counting)) +
                 (calibration.proven ? ": " : " (a guess): ") + calibration.evidence +
                 load_memcgs(host, types)});
}

void probe_oom_log(ProbedHost& host, const FeatureSet& disabled) {
  if (has(disabled, Feature::oom_log)) return;
  const auto log = sources::OomLog::open();
  put(host, log.ok() ? FeatureReport{Feature::oom_log, FeatureState::in_use, "/dev/kmsg"}
                     : failed(Feature::oom_log, log.error()));
}

using MakeSource = std::function<Result<std::unique_ptr<sources::Source>>(const kernel::CgroupTree&,
                                                                          const std::string&)>;

}  // namespace

bool ProbedHost::in_use(Feature feature) const {
  return reports[static_cast<std::size_t>(feature)].state == FeatureState::in_use;
}

FeatureSet ProbedHost::usable() const {
  FeatureSet set;
  for (std::size_t i = 0; i < kFeatureCount; ++i) set.set(i, in_use(feature_at(i)));
  return set;
}

Tier ProbedHost::tier() const {
  if (any_in_use(*this, kFullTier)) return Tier::full;
  if (any_in_use(*this, kWakesByBpf)) return Tier::tracepoint;
  if (any_in_use(*this, kWakesByFiles)) return Tier::files;
  return Tier::none;
}

bool ProbedHost::can_guard() const {
  return tier() != Tier::none && any_in_use(*this, {Feature::pidfd, Feature::cgroup_kill});
}

Result<ProbedHost> probe_host(const FeatureSet& disabled, const std::string& cgroup_mount) {
  ProbedHost host{kernel_release(), TRY(kernel::CgroupTree::discover(cgroup_mount)),
                  nullptr,          nullptr,
                  nullptr,          nullptr,
                  nullptr,          blank_reports(disabled)};
  const kernel::KernelTypes types;
  host.bpf = TRY(kernel::BpfPrograms::load(disabled, types));
  for (const FeatureReport& report : host.bpf->reports()) put(host, report);
  for (FeatureReport& report : kernel::probe_file_features(host.tree, disabled)) {
    put(host, std::move(report));
  }
  for (FeatureReport& report : kernel::probe_processes(host.tree, disabled)) {
    put(host, std::move(report));
  }
  probe_tasks(host, disabled, types);
  if (!has(disabled, Feature::guard)) {
    put(host, {Feature::guard, FeatureState::forced_off, "not turned on (guard: on)"});
  }
  probe_oom_log(host, disabled);
  return host;
}

void load_guard(ProbedHost& host, const FeatureSet& disabled, kernel::GuardStore* store) {
  if (has(disabled, Feature::guard)) return;
  if (has(disabled, Feature::bpf)) {
    put(host, {Feature::guard, FeatureState::forced_off, "bpf is forced off"});
    return;
  }
  // Where fexit is refused, a second attempt would only take time.
  auto guard = kernel::GuardPrograms::load(
      {.charge_hook = host.in_use(Feature::bpf_charge), .store = store});
  if (!guard.ok()) {
    put(host, failed(Feature::guard, guard.error()));
    return;
  }
  host.guard = std::move(*guard);
  put(host, {Feature::guard, FeatureState::in_use, host.guard->evidence()});
}

void protect_self(ProbedHost& host, const FeatureSet& disabled) {
  put(host, kernel::lower_oom_score_adj(disabled));
  put(host, kernel::lock_memory(disabled));
  put(host, kernel::use_real_time(disabled));
}

Sources make_sources(ProbedHost& host) {
  Sources made;
  if (any_in_use(host, kWakesByBpf) || host.in_use(Feature::bpf_oom) ||
      host.in_use(Feature::bpf_cgroups)) {
    auto bpf = std::make_unique<sources::BpfSource>(*host.bpf, host.tree);
    made.bpf_oom = host.in_use(Feature::bpf_oom);
    made.all.push_back(std::move(bpf));
  }
  if (host.in_use(Feature::oom_log)) {
    if (auto log = sources::OomLog::open(); log.ok()) {
      made.oom_log = true;
      made.all.push_back(std::move(*log));
    } else {
      put(host, failed(Feature::oom_log, log.error()));
    }
  }
  const std::initializer_list<std::pair<Feature, MakeSource>> kFileSources{
      {Feature::usage_eventfd, sources::UsageEventfd::create},
      {Feature::memory_high,
       [&host](const kernel::CgroupTree& tree, const std::string&) {
         return sources::HighTripwire::create(tree, host.high_records);
       }},
      {Feature::psi_trigger, sources::PsiSource::create},
      {Feature::poll, sources::PollSource::create}};
  for (const auto& [feature, make] : kFileSources) {
    if (!host.in_use(feature)) continue;
    auto source = make(host.tree, "/proc");
    if (source) {
      made.all.push_back(std::move(*source));
    } else {
      put(host, {feature, FeatureState::refused, source.error().text()});
    }
  }
  return made;
}

Result<std::unique_ptr<sources::ProcessSource>> make_process_source(ProbedHost& host) {
  if (!host.in_use(Feature::bpf_tasks)) return sources::proc_process_source(host.tree);
  auto scan = std::exchange(host.tasks, nullptr);
  if (!scan) scan = TRY(kernel::TaskScan::load());
  return sources::bpf_process_source(std::move(scan));
}

std::string_view cost_of_missing(Feature feature) {
  switch (feature) {
    case Feature::bpf:
    case Feature::bpf_timer: return "crossings are detected by files instead: later, or by polling";
    case Feature::bpf_charge:
      return "a crossing is detected at the next tick (1 ms near the line) instead of at the "
             "charge";
    case Feature::bpf_reclaim:
      return "reclaim that turns cache into working set is detected by polling only";
    case Feature::bpf_stall: return "no stall time per cgroup; PSI files have averages only";
    case Feature::bpf_oom: return "the kernel's OOM kills are read from its log only";
    case Feature::bpf_oom_path: return "no event right before the kernel selects a victim";
    case Feature::bpf_cgroups:
      return "new workloads are found by a rescan of the cgroup tree when they are needed";
    case Feature::bpf_tasks:
      return "the kernel's next victim is computed from /proc, 50 times slower, and workloads are "
             "read from their files, 20 to 50 times slower";
    case Feature::guard: return "no workload is killed while the agent is stopped or gets no CPU";
    case Feature::usage_eventfd: return "without BPF, usage has to be polled";
    case Feature::memory_high:
      return "the kernel does not throttle a workload before it reaches its limit";
    case Feature::psi_trigger: return "without BPF, stalls below the threshold are not detected";
    case Feature::poll: return "nothing wakes the agent if every event source fails";
    case Feature::oom_log:
      return "the constraint of an OOM kill is deduced; without BPF such kills are not detected";
    case Feature::cgroup_kill: return "processes are signalled one by one, and new forks again";
    case Feature::pidfd: return "no process can be signalled safely";
    case Feature::process_mrelease:
      return "memory is freed when the victim runs: 10 to 300 times later on a busy CPU";
    case Feature::sched_fifo: return "on a busy node the reaction can take 100 ms instead of 0.2";
    case Feature::memory_lock: return "the agent may wait for its own pages under pressure";
    case Feature::oom_score_adj: return "the kernel may select the agent as its victim";
  }
  return "";
}

}  // namespace forestall::agent
