// SPDX-License-Identifier: Apache-2.0
// `forestall doctor`: which kernel features this host has, which are used, which are missing, and
// the effect.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "agent/host.h"
#include "agent/remedy.h"
#include "base/printable.h"
#include "base/result.h"
#include "base/trusted_file.h"
#include "cli/bpf_counter_text.h"
#include "cli/commands.h"
#include "cli/companion_program.h"
#include "cli/exit_code.h"
#include "cli/host_capacity.h"
#include "cli/kept_guard_advice.h"
#include "cli/kubelet_comparison.h"
#include "cli/managed_oom_advice.h"
#include "clients/descriptor_store_limit.h"
#include "clients/unit_restart.h"
#include "kernel/bpf_counters.h"
#include "kernel/bpf_host.h"
#include "kernel/bpf_plan.h"
#include "kernel/guard_succession.h"
#include "kernel/held_file.h"
#include "kernel/mount_table.h"
#include "kernel/pin_directory.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "model/duration.h"
#include "model/workload_example.h"
#include "policy/protection.h"
#include "rulesets/needs.h"
#include "rulesets/unread.h"
#include "sources/observer.h"
#include "sources/pod_paths.h"
#include "sources/rule_reader.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

std::string cgroup_shape(const kernel::CgroupTree& tree) {
  if (tree.hybrid()) return "hybrid";
  return tree.version() == kernel::CgroupVersion::v1 ? "v1" : "v2";
}

// Problems of the host as a whole.
std::vector<std::string> advice(const agent::ProbedHost& host) {
  std::vector<std::string> sentences;
  if (const auto visible = kernel::require_initial_pid_namespace(); !visible.ok()) {
    sentences.push_back("The agent is " + visible.error().message + ".");
  }
  if (!host.can_guard()) {
    sentences.push_back(
        "The agent has no event source or cannot kill: every event source "
        "or both pidfd and cgroup-kill are missing or disabled.");
  } else if (!host.in_use(Feature::pidfd) && host.tree.hybrid()) {
    sentences.push_back(
        "Without pidfd the agent can kill a workload only if its processes are also in the cgroup "
        "of the same path in the unified hierarchy.");
  }
  return sentences;
}

// What this host allows, in a few words.
std::string_view verdict(const agent::ProbedHost& host) {
  if (!host.can_guard()) return "NOTHING CAN GUARD THIS HOST";
  if (host.in_use(Feature::pidfd)) return "this host can be guarded";
  return host.tree.hybrid() ? "this host can be guarded in part"
                            : "this host can be guarded, by cgroup.kill only";
}

struct Workloads {
  std::size_t all = 0;
  std::size_t candidates = 0;
  std::vector<SourceNote> notes;  // what could not be read
};

Result<Workloads> count_workloads(const agent::ProbedHost& host, const Config& config) {
  const auto observer = TRY(sources::Observer::create(host.tree, config));
  std::vector<SourceNote> notes = observer->refresh();
  const auto found = observer->workloads();
  const auto candidates = std::ranges::count_if(
      found, [](const Workload* each) { return policy::protection_of(*each) == Protection::none; });
  return Workloads{found.size(), static_cast<std::size_t>(candidates), std::move(notes)};
}

// What the advice is about.
struct AdviceInput {
  const Options& options;
  const agent::ProbedHost& host;
  // Nullopt: it cannot be read, and has its own error in `check-config`.
  const std::optional<intake::LoadedConfig> loaded;
};

std::string first_of(const std::vector<SourceNote>& notes) {
  const SourceNote& first = notes.front();
  const auto text = fmt::format("{}: {}", first.subject, first.problem);
  return notes.size() == 1 ? text : fmt::format("{} (and {} more)", text, notes.size() - 1);
}

std::optional<std::string> candidate_advice(const AdviceInput& subject) {
  if (!subject.loaded) return std::nullopt;
  const auto counted = count_workloads(subject.host, subject.loaded->config);
  if (!counted) {
    return fmt::format("The workloads of this host cannot be read: {}.", counted.error().text());
  }
  if (counted->candidates > 0) {
    if (counted->notes.empty()) return std::nullopt;
    return fmt::format("Not all of this host could be read: {}.", first_of(counted->notes));
  }
  const std::string origin = config_origin(subject.options);
  // What was not found may be a candidate.
  if (!counted->notes.empty()) {
    return fmt::format(
        "With this configuration ({}) no unprotected workload was found, and not all of this host "
        "could be read: {}.",
        origin, first_of(counted->notes));
  }
  auto sentence = fmt::format("With this configuration ({}) {}", origin, kNoCandidates);
  if (counted->all > 0) return fmt::format("{}; protected: {}.", sentence, counted->all);
  return fmt::format("{}. Add lines such as these to it:\n{}", sentence,
                     fmt::join(kWorkloadExample, "\n"));
}

// Of the kubelet; nullopt: there is none.
std::optional<std::string> pods_cgroup(const kernel::CgroupTree& tree, const Config& config) {
  return sources::find_pods_cgroup(tree, config.cgroup_root).optional().value_or(std::nullopt);
}

// Without Kubernetes' facts, pods are killed by what the node shows of them.
std::optional<std::string> pod_advice(const AdviceInput& subject) {
  const kernel::CgroupTree& tree = subject.host.tree;
  const Config config = subject.loaded ? subject.loaded->config : intake::built_in_config();
  if (!config.pods || !config.known_pods.empty() || !config.pod_rules.empty()) return std::nullopt;
  const auto path = pods_cgroup(tree, config);
  std::vector<sources::PodPath> pods;
  if (!path || !sources::list_pods(tree, *path, pods) || pods.empty()) return std::nullopt;
  return fmt::format(
      "The priorities of {} pods below {} are unknown: the agent protects those that may be "
      "system-node-critical, and cannot recognize system-cluster-critical ones. Set podList.",
      pods.size(), *path);
}

// The table is about the host. An agent with this configuration does not use the guard.
std::optional<std::string> guard_advice(const AdviceInput& subject) {
  if (!subject.host.in_use(Feature::guard)) return std::nullopt;
  if (!subject.loaded) return std::nullopt;
  const Config& config = subject.loaded->config;
  if (config.guard) {
    return fmt::format("guard: it acts for at most {} without the agent (guardExpiry).",
                       forestall::to_string(config.guard_expiry));
  }
  return fmt::format(
      "guard: this host supports it, and the configuration ({}) has it off; to use it, "
      "set guard: on.",
      config_origin(subject.options));
}

// Whether systemd keeps the guard of an agent in forestall.service.
std::optional<std::string> service_guard_advice(const AdviceInput& subject) {
  if (!subject.loaded || !subject.loaded->config.guard) return std::nullopt;
  if (!clients::systemd_is_running()) return std::nullopt;
  return kept_guard_advice(subject.options.keep_guard,
                           clients::read_descriptor_store_limit({}, "forestall.service"));
}

// What agents have pinned; without one that runs, the pins are left over.
std::vector<std::string> pin_advice(const Options& options) {
  if (options.keep_guard.empty()) return {};
  auto pins = kernel::PinDirectory::open(options.keep_guard);
  if (!pins) return {fmt::format("guard: {}.", printable(pins.error().text()))};
  const auto guards = kernel::describe_kept_guards(**pins, SystemClock().now());
  if (!guards) return {fmt::format("guard: {}.", printable(guards.error().text()))};
  std::vector<std::string> sentences;
  for (const std::string& guard : *guards) {
    sentences.push_back(fmt::format("{}: {}.", printable(options.keep_guard), guard));
  }
  return sentences;
}

// The threshold that acts where kubelet's comes too late.
std::optional<std::string> backstop_advice(const AdviceInput& subject) {
  const auto facts = backstop_facts();
  if (facts || !subject.loaded || !subject.loaded->needs_backstop) return std::nullopt;
  return fmt::format(
      "memory.untilOom: an agent on this host has no backstop by default, because {}; to have one, "
      "set untilOom.",
      facts.error().text());
}

AdviceInput subject_of(const Options& options, const agent::ProbedHost& host) {
  auto loaded = loaded_config(options);
  if (!loaded) return {options, host, std::nullopt};
  return {options, host, std::move(*loaded)};
}

std::string sentence_of(const std::string& ruleset, const rulesets::UnreadPlugin& unread) {
  const std::string_view kind = unread.is_action ? "action" : "detector";
  const auto begin = fmt::format("ruleset '{}': {} '{}'", ruleset, kind, unread.plugin);
  if (unread.missing.empty()) return fmt::format("{} matches no cgroup now.", begin);
  return fmt::format("{} lacks {}: no cgroup that it matches has it{}.", begin,
                     fmt::join(unread.missing, " and "),
                     unread.is_action ? "" : ", so it does not fire");
}

// Why a prekill hook would not start now.
std::optional<std::string> hook_advice(const rulesets::PrekillHook& hook) {
  const auto problem = [&hook]() -> Result<void> {
    if (hook.only_logs()) return {};
    if (!hook.socket.empty()) return check_trusted_socket(hook.socket);
    TRY(companion_program("forestall-prekill"));
    TRY(open_trusted_program(hook.program));
    return {};
  }();
  if (problem) return std::nullopt;
  return fmt::format("prekill hook '{}' does not run, and no kill waits for it: {}.", hook.name,
                     problem.error().text());
}

// What the rulesets of the configuration lack on this host.
std::vector<std::string> ruleset_advice(const AdviceInput& subject) {
  std::vector<std::string> sentences;
  if (!subject.loaded) return sentences;
  std::vector<rulesets::Ruleset> configured = subject.loaded->rulesets;
  configured.insert(configured.end(), subject.loaded->reclaim.begin(),
                    subject.loaded->reclaim.end());
  if (configured.empty()) return sentences;
  if (subject.host.tree.version() == kernel::CgroupVersion::v1) {
    std::ranges::copy(subject.loaded->refused_on_v1, std::back_inserter(sentences));
  }
  sources::RuleSampleReader reader(subject.host.tree);
  const auto observed = reader.read(SystemClock().now(), rulesets::needs_of(configured));
  for (const auto& ruleset : configured) {
    for (const auto& unread : rulesets::unread_plugins(ruleset, observed)) {
      sentences.push_back(sentence_of(ruleset.name, unread));
    }
  }
  for (const rulesets::PrekillHook& hook : subject.loaded->hooks) {
    if (auto sentence = hook_advice(hook)) sentences.push_back(std::move(*sentence));
  }
  if (!clients::systemd_is_running()) {
    std::ranges::copy(subject.loaded->refused_without_systemd, std::back_inserter(sentences));
  }
  return sentences;
}

// What keeps memory QoS from having values on this host.
std::optional<std::string> memory_qos_advice(const AdviceInput& subject) {
  if (!subject.loaded) return std::nullopt;
  const MemoryQosConfig& qos = subject.loaded->config.memory_qos;
  if (qos.mode == MemoryQosMode::off) return std::nullopt;
  if (subject.host.tree.version() != kernel::CgroupVersion::v2) {
    return "memoryQoS has no effect: cgroup v1 has no memory.min, memory.low and memory.high, and "
           "its soft limit protects nothing.";
  }
  for (const MemoryQosCgroup& each : qos.cgroups) {
    if (subject.host.tree.id_at(each.path)) continue;
    return fmt::format("memoryQoSCgroups: the cgroup {} does not exist now.", printable(each.path));
  }
  if (qos.mode == MemoryQosMode::enforce && !kernel::psi_is_on()) {
    return fmt::format("memoryQoS writes no memory.high: {}.", kernel::kPsiIsOff);
  }
  constexpr const char* kMounts = "/proc/self/mountinfo";
  const auto file = kernel::HeldFile::open(AT_FDCWD, kMounts, kMounts);
  std::string buffer;
  const auto mounts = file ? file->read(buffer) : file.error();
  if (qos.mode == MemoryQosMode::enforce && mounts && !kernel::protects_recursively(*mounts)) {
    return "memoryQoS: cgroup v2 is mounted without memory_recursiveprot: the processes of a "
           "container with cgroups of its own are not protected.";
  }
  return std::nullopt;
}

// What keeps the response to pressure of containers from having an effect on this host.
std::optional<std::string> container_pressure_advice(const AdviceInput& subject) {
  if (!subject.loaded) return std::nullopt;
  const ContainerPressureConfig& pressure = subject.loaded->config.container_pressure;
  if (!pressure.is_on()) return std::nullopt;
  if (subject.host.tree.version() != kernel::CgroupVersion::v2) {
    return "containerPressure has no effect: cgroup v1 has no memory.high and no events of it.";
  }
  const auto evicts = [](const Threshold& each) {
    return each.signal == Signal::memory_available && each.response == Response::evict;
  };
  if (std::ranges::none_of(subject.loaded->config.thresholds, evicts)) {
    return "containerPressure only reports: no threshold on memory.available evicts, so that the "
           "node counts neither as calm nor as short.";
  }
  const auto& psi = pressure.rule.thresholds[static_cast<std::size_t>(PressureSignal::psi)];
  if (psi && !kernel::psi_is_on()) {
    return fmt::format("containerPressure: memoryPSIEvictionThreshold has no effect: {}.",
                       kernel::kPsiIsOff);
  }
  for (const std::string& each : pressure.cgroups) {
    if (subject.host.tree.id_at(each)) continue;
    return fmt::format("containerPressure: the cgroup {} does not exist now.", printable(each));
  }
  return std::nullopt;
}

// What keeps managedOOM from having rules on this host, or where they come from. Without it: what
// can stop the agent.
std::optional<std::string> managed_oom_advice(const AdviceInput& subject) {
  if (!subject.loaded || !subject.loaded->managed_oom) {
    if (!clients::systemd_is_running()) return std::nullopt;
    return systemd_oomd_advice(read_systemd_oomd(subject.host.tree));
  }
  if (subject.host.tree.version() != kernel::CgroupVersion::v2) {
    return "managedOOM has no effect: it needs cgroup v2, as systemd-oomd does.";
  }
  if (!clients::systemd_is_running()) {
    return "managedOOM has no effect: systemd does not run here.";
  }
  return managed_oom_source_advice(read_systemd_oomd(subject.host.tree),
                                   subject.loaded->managed_oom_by_dbus);
}

std::optional<v1::KubeletComparison> comparison_of(const AdviceInput& subject) {
  if (!subject.loaded) return std::nullopt;
  intake::LoadedConfig agent = *subject.loaded;
  add_backstop_of_host(agent);
  const Config& config = agent.config;
  const kernel::CgroupTree& tree = subject.host.tree;
  return compare_with_kubelet(
      {.agent = agent,
       .capacity =
           host_capacity(config.filesystems.nodefs).optional().value_or(policy::NodeCapacity{}),
       .cgroup_v2 = tree.version() == kernel::CgroupVersion::v2,
       .of_this_host = true,
       .has_pods = pods_cgroup(tree, config).has_value()});
}

v1::DoctorReport to_report(const Options& options, const agent::ProbedHost& host) {
  v1::DoctorReport report;
  report.set_version(FORESTALL_VERSION);
  report.set_kernel(host.kernel_release);
  report.set_cgroups(cgroup_shape(host.tree));
  report.set_tier(messages::to_proto(host.tier()));
  report.set_can_guard(host.can_guard());
  const agent::RemedyFacts facts{host.in_use(Feature::bpf), host.tree.version()};
  for (const FeatureReport& each : host.reports) {
    v1::FeatureReport* feature = report.add_features();
    *feature = messages::to_proto(each);
    const std::string_view cost = agent::cost_of_missing(each.feature);
    if (each.state == FeatureState::in_use) continue;
    if (!cost.empty()) feature->set_cost(std::string(cost));
    report.add_advice(fmt::format("{}: {}.", to_string(each.feature), agent::remedy(each, facts)));
  }
  // An unreadable counter is not a reason to withhold the report.
  const auto counters = kernel::bpf_counters(host.bpf.get(), host.guard.get());
  if (counters) {
    for (const BpfCounter& each : *counters) *report.add_bpf_counters() = messages::to_proto(each);
  } else {
    report.add_advice(
        "The counters of the BPF programs cannot be read: " + counters.error().text() + ".");
  }
  for (std::string& sentence : advice(host)) report.add_advice(std::move(sentence));
  const AdviceInput subject = subject_of(options, host);
  for (const auto advice_of :
       {guard_advice, service_guard_advice, pod_advice, backstop_advice, candidate_advice,
        memory_qos_advice, container_pressure_advice, managed_oom_advice}) {
    if (auto sentence = advice_of(subject)) report.add_advice(std::move(*sentence));
  }
  for (std::string& sentence : pin_advice(options)) report.add_advice(std::move(sentence));
  for (std::string& sentence : ruleset_advice(subject)) report.add_advice(std::move(sentence));
  if (auto comparison = comparison_of(subject)) *report.mutable_kubelet() = std::move(*comparison);
  return report;
}

void print_text(const agent::ProbedHost& host, const v1::DoctorReport& report) {
  fmt::print("forestall {} on Linux {}, cgroups {}\n", report.version(), report.kernel(),
             report.cgroups());
  fmt::print("tier: {} - {}\n\n", to_string(host.tier()), verdict(host));
  tables::Table table({"feature", "state", "evidence"});
  for (const FeatureReport& each : host.reports) {
    table.add(
        {std::string(to_string(each.feature)), std::string(to_string(each.state)), each.evidence});
  }
  table.print();
  fmt::print("{}", bpf_counter_text(report.bpf_counters()));
  bool headed = false;
  for (const v1::FeatureReport& each : report.features()) {
    if (!each.has_cost()) continue;
    if (!headed) fmt::print("\nMissing features and their effect\n");
    headed = true;
    fmt::print("  {}: {}\n", each.feature(), each.cost());
  }
  if (report.has_kubelet()) fmt::print("\n{}", comparison_text(report.kubelet()));
  if (report.advice_size() > 0) fmt::print("\nAdvice and remedies\n");
  for (const std::string& sentence : report.advice()) fmt::print("  - {}\n", sentence);
}

}  // namespace

int run_doctor(const Options& options) {
  const auto disabled = disabled_features(options);
  if (!disabled) {
    fmt::print(stderr, "forestall doctor: {}\n", printable_lines(disabled.error().text()));
    return kExitUsage;
  }
  auto host = agent::probe_host(*disabled, options.cgroup_mount);
  if (!host) {
    fmt::print(stderr, "forestall doctor: {}\n", printable_lines(host.error().text()));
    return kExitUnguarded;
  }
  agent::load_guard(*host, *disabled);
  agent::protect_self(*host, *disabled);
  const v1::DoctorReport report = to_report(options, *host);
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(report, messages::JsonStyle::pretty));
  } else {
    print_text(*host, report);
  }
  return host->can_guard() ? kExitOk : kExitUnguarded;
}

}  // namespace forestall::cli
