// SPDX-License-Identifier: Apache-2.0
#include "intake/config_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "intake/amounts.h"
#include "intake/cgroup_glob.h"
#include "intake/compat_check.h"
#include "intake/container_pressure_section.h"
#include "intake/memory_qos_section.h"
#include "intake/own_settings.h"
#include "intake/own_thresholds.h"
#include "intake/pod_annotation_section.h"
#include "intake/prekill_hook_config.h"
#include "intake/proactive_reclaim_config.h"
#include "intake/recording_place.h"
#include "intake/report.h"
#include "intake/ruleset_config.h"

namespace forestall::intake {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kWatchMax = 256;
constexpr std::size_t kWorkloadRulesMax = 4096;

// Kubernetes' priorities (pkg/apis/scheduling/types.go): users' classes end at
// HighestUserDefinablePriority, and the two system classes are above.
constexpr std::int32_t kUserPriorityMax = 1'000'000'000;
constexpr std::int32_t kSystemPriorityMin = 2'000'000'000;
constexpr std::int32_t kSystemPriorityMax = 2'000'001'000;

constexpr std::array kWakeFeatures{Feature::bpf, Feature::usage_eventfd, Feature::memory_high,
                                   Feature::psi_trigger, Feature::poll};

std::string at_index(std::string_view list, int i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

constexpr const char* kNameTheCgroup =
    "name the cgroup that holds the workloads, such as '/batch.slice/*'";

// --- watch rules ----------------------------------------------------------------------------

std::optional<std::string> take_glob(bool given, const std::string& glob, const std::string& path,
                                     Report& report) {
  if (!given) {
    report.missing(path, "cgroup", "set it to a glob of cgroup paths");
    return std::nullopt;
  }
  const Result<void> checked = check_glob(glob);
  if (checked) return glob;
  report.error(path + ".cgroup", "'cgroup' " + checked.error().message);
  return std::nullopt;
}

void check_watch_amounts(const Threshold& threshold, const std::string& path, Report& report) {
  if (threshold.cgroup == "/" && !threshold.capacity) {
    report.error(path + ".cgroup",
                 "'cgroup' is the root cgroup, which has no limit of its own; give 'capacity', or "
                 "use 'evictionHard'");
  }
  if (threshold.capacity && threshold.limit.quantity &&
      *threshold.limit.quantity >= binary(threshold.capacity->count)) {
    report.error(path + ".available",
                 "'available' must be below 'capacity', or the threshold would always be met");
  }
}

// One rule; nothing if it is refused or disabled.
std::optional<Threshold> check_watch(const v1::Watch& watch, const std::string& path,
                                     Report& report) {
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.tune = watch.tune_memory_high();
  const auto glob = take_glob(watch.has_cgroup(), watch.cgroup(), path, report);
  if (!watch.has_available()) {
    report.missing(path, "available", "set it to a quantity or percentage, e.g. 64Mi or 5%");
    return std::nullopt;
  }
  const auto limit =
      report.take(parse_threshold_limit(watch.available()), path + ".available", "available");
  report.doubt(watch.available(), path + ".available");
  if (watch.has_minimum_reclaim()) {
    const std::string place = path + ".minimumReclaim";
    const auto reclaim =
        report.take(parse_minimum_reclaim(watch.minimum_reclaim()), place, "minimumReclaim");
    report.doubt(watch.minimum_reclaim(), place);
    // A reclaim of 0 has no effect.
    if (reclaim != Limit::bytes(Bytes{0})) threshold.min_reclaim = reclaim;
  }
  if (watch.has_capacity()) {
    threshold.capacity =
        report.take(parse_positive_bytes(watch.capacity()), path + ".capacity", "capacity");
    report.doubt(watch.capacity(), path + ".capacity");
  }
  if (!glob || !limit) return std::nullopt;
  if (!*limit) {
    report.warn(path + ".available",
                "'" + watch.available() + "' disables this rule, as in kubelet");
    return std::nullopt;
  }
  if (const auto system = system_cgroups_in(*glob); !system.empty()) {
    report.warn(path + ".cgroup", "'" + *glob + "' also matches the system cgroup '" + system[0] +
                                      "', so the memory of system services can reach this "
                                      "threshold; " +
                                      kNameTheCgroup);
  }
  threshold.cgroup = *glob;
  threshold.limit = **limit;
  check_watch_amounts(threshold, path, report);
  return threshold;
}

ThresholdOrigin origin_of(const v1::Watch& watch, const std::string& path, const Report& report) {
  ThresholdOrigin origin{watch.available(), std::nullopt, report.at_key(path + ".available"),
                         report.at_value(path + ".available")};
  if (watch.has_minimum_reclaim()) origin.minimum_reclaim = watch.minimum_reclaim();
  return origin;
}

void add_watch_thresholds(const v1::Config& file, CheckedConfig& checked, Report& report) {
  if (static_cast<std::size_t>(file.watch_size()) > kWatchMax) {
    report.error("watch", "'watch' has more than " + std::to_string(kWatchMax) +
                              " rules; combine them with wildcards");
    return;
  }
  std::map<std::string, std::string> seen;  // glob -> path of its rule
  for (int i = 0; i < file.watch_size(); ++i) {
    const std::string path = at_index("watch", i);
    const auto threshold = check_watch(file.watch(i), path, report);
    if (!threshold) continue;
    const auto [first, fresh] = seen.emplace(threshold->cgroup, path);
    if (!fresh) {
      report.error(path + ".cgroup", "'" + threshold->cgroup + "' is already watched by line " +
                                         std::to_string(report.line(first->second + ".cgroup")));
    }
    checked.config.thresholds.push_back(*threshold);
    checked.origins.push_back(origin_of(file.watch(i), path, report));
  }
}

// --- workloads and pods ---------------------------------------------------------------------

// Reads the declarations that rules about cgroups and rules about pods share.
template <typename Message, typename Rule>
void take_declarations(const Message& message, const std::string& path, Rule& rule,
                       Report& report) {
  if (message.has_name()) rule.name = message.name();
  if (message.has_priority()) {
    const std::int32_t priority = message.priority();
    if (priority > kUserPriorityMax &&
        (priority < kSystemPriorityMin || priority > kSystemPriorityMax)) {
      report.error(path + ".priority",
                   "'priority' must be at most 1000000000, or from 2000000000 to 2000001000 for "
                   "system-critical workloads, found " +
                       std::to_string(priority));
    }
    rule.priority = priority;
  }
  if (message.has_memory_request()) {
    rule.memory_request = report.take(parse_bytes(message.memory_request()),
                                      path + ".memoryRequest", "memoryRequest");
    report.doubt(message.memory_request(), path + ".memoryRequest");
  }
  rule.is_protected = message.protected_();
}

// The first rule that matches a cgroup applies to it.
void warn_of_system_cgroups(const WorkloadRule& rule, const std::vector<WorkloadRule>& earlier,
                            const std::string& path, Report& report) {
  if (rule.is_protected) return;
  for (const std::string& system : system_cgroups_in(rule.cgroup)) {
    const bool taken = std::any_of(earlier.begin(), earlier.end(), [&](const WorkloadRule& each) {
      return glob_matches(each.cgroup, system);
    });
    if (taken) continue;
    report.warn(path + ".cgroup", "'" + rule.cgroup + "' also matches the system cgroup '" +
                                      system + "', so the agent may kill system services; " +
                                      kNameTheCgroup);
    return;
  }
}

template <typename Messages>
std::vector<WorkloadRule> check_workloads(const Messages& messages, const std::string& list,
                                          Report& report) {
  std::vector<WorkloadRule> rules;
  if (static_cast<std::size_t>(messages.size()) > kWorkloadRulesMax) {
    report.error(list, "'" + list + "' has more than " + std::to_string(kWorkloadRulesMax) +
                           " rules; combine them with wildcards");
    return rules;
  }
  std::map<std::string, std::string> seen;  // glob -> path of its rule
  for (int i = 0; i < messages.size(); ++i) {
    const std::string path = at_index(list, i);
    WorkloadRule rule;
    take_declarations(messages[i], path, rule, report);
    const auto glob = take_glob(messages[i].has_cgroup(), messages[i].cgroup(), path, report);
    if (!glob) continue;
    rule.cgroup = *glob;
    if (rule.cgroup == "/") {
      report.error(path + ".cgroup",
                   "'cgroup' must not be '/': killing the root cgroup would "
                   "kill every process");
    }
    const auto [first, fresh] = seen.emplace(rule.cgroup, path);
    if (!fresh) {
      report.error(path + ".cgroup", "'" + rule.cgroup + "' already has a rule in line " +
                                         std::to_string(report.line(first->second + ".cgroup")) +
                                         "; the first match applies, so this rule has no effect");
    }
    warn_of_system_cgroups(rule, rules, path, report);
    rules.push_back(std::move(rule));
  }
  return rules;
}

bool is_uid(std::string_view text) {
  return text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-';
         });
}

// --- features and times ---------------------------------------------------------------------

FeatureSet check_features(const v1::Config& file, Report& report) {
  FeatureSet disabled;
  std::vector<std::string> allowed;
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    allowed.emplace_back(to_string(feature_at(i)));
  }
  for (int i = 0; i < file.disable_features_size(); ++i) {
    const std::string& name = file.disable_features(i);
    const std::optional<Feature> feature = parse_feature(name);
    const std::string path = at_index("disableFeatures", i);
    if (!feature) {
      report.error(path, "unknown feature '" + name + "'" + messages::allowed_words(name, allowed));
    } else if (has(disabled, *feature)) {
      report.error(path, "feature '" + name + "' is listed twice");
    } else {
      disabled.set(static_cast<std::size_t>(*feature));
    }
  }
  return disabled;
}

void check_features_against(const v1::Config& file, const Config& config, Report& report) {
  const FeatureSet& disabled = config.disabled;
  if (has(disabled, Feature::cgroup_kill) && has(disabled, Feature::pidfd) && !config.dry_run) {
    report.error("disableFeatures",
                 "without 'cgroup-kill' and 'pidfd' nothing can be killed; set 'dryRun: true' if "
                 "that is intended");
  }
  if (std::all_of(kWakeFeatures.begin(), kWakeFeatures.end(),
                  [&](Feature f) { return has(disabled, f); })) {
    report.warn("disableFeatures",
                "every source that could wake the agent is disabled: it only evaluates every "
                "'recheckInterval'");
  }
  if (!has(disabled, Feature::memory_high)) return;
  for (int i = 0; i < file.watch_size(); ++i) {
    if (!file.watch(i).tune_memory_high()) continue;
    report.warn(at_index("watch", i) + ".tuneMemoryHigh",
                "'tuneMemoryHigh' has no effect: feature 'memory-high' is disabled");
  }
}

void check_times(const v1::Config& file, Config& config, Report& report) {
  if (file.has_release_timeout()) {
    const auto timeout = report.take(parse_duration_within(file.release_timeout(), 10ms, 1min),
                                     "releaseTimeout", "releaseTimeout");
    if (timeout) config.release_timeout = *timeout;
  }
  if (file.has_recheck_interval()) {
    const auto interval = report.take(parse_duration_within(file.recheck_interval(), 100ms, 10min),
                                      "recheckInterval", "recheckInterval");
    if (interval) config.recheck_interval = *interval;
  }
}

// Globs of the cgroups that contain pods, for both cgroup drivers.
std::vector<std::string> pod_globs(const Config& config) {
  if (!config.pods) return {};
  const std::string root = config.cgroup_root == "/" ? "" : config.cgroup_root;
  return {root + "/kubepods", root + "/kubepods.slice"};
}

// Whether a watched cgroup can contain workloads. The depth of pods below kubepods is unknown, so
// it is enough if either glob can contain the other.
bool may_hold_workload(const Config& config, const std::string& watched) {
  const auto rules =
      std::any_of(config.workloads.begin(), config.workloads.end(),
                  [&](const WorkloadRule& rule) { return may_lie_within(rule.cgroup, watched); });
  const auto globs = pod_globs(config);
  return rules || std::any_of(globs.begin(), globs.end(), [&](const std::string& pods) {
           return may_lie_within(pods, watched) || may_lie_within(watched, pods);
         });
}

// A container below a pod counts for its pod.
bool may_be_workload(const Config& config, const std::string& path) {
  const auto globs = pod_globs(config);
  return std::ranges::any_of(
             config.workloads,
             [&](const WorkloadRule& rule) { return glob_matches(rule.cgroup, path); }) ||
         std::ranges::any_of(globs,
                             [&](const std::string& pods) { return may_lie_within(path, pods); });
}

// The stages evict and kill end workloads only.
void check_pressed_workloads(const Config& config, Report& report) {
  const ContainerPressureConfig& pressure = config.container_pressure;
  const PressureStages& stages = pressure.rule.stages;
  if (!stages.contains(PressureStage::evict) && !stages.contains(PressureStage::kill)) return;
  for (std::size_t i = 0; i < pressure.cgroups.size(); ++i) {
    const std::string& cgroup = pressure.cgroups[i];
    if (may_be_workload(config, cgroup)) continue;
    report.error(at_index("containerPressure.cgroups", static_cast<int>(i)),
                 "'" + cgroup +
                     "' is no workload, so that the stages evict and kill cannot end it; add it to "
                     "'workloads', or leave them out of 'stages'");
  }
}

// --- settings shared with the kubelet -------------------------------------------------------

// Protobuf's maps are unordered, so the positions of the keys define the order.
void take_pairs(const google::protobuf::Map<std::string, std::string>& map, const std::string& key,
                const ReadConfig& own, std::optional<Written<WrittenPairs>>& out) {
  if (!own.places.has(key)) return;
  WrittenPairs pairs;
  for (const auto& [name, value] : map) {
    const std::string path = key + "[" + name + "]";
    pairs.push_back(
        {name, value, {own.file, own.places.key(path)}, {own.file, own.places.value(path)}});
  }
  std::sort(pairs.begin(), pairs.end(),
            [](const WrittenPair& a, const WrittenPair& b) { return a.key_at.at < b.key_at.at; });
  out = Written<WrittenPairs>{
      std::move(pairs), {own.file, own.places.key(key)}, {own.file, own.places.value(key)}};
}

template <typename T, typename Value>
void take_value(bool given, const Value& value, const std::string& path, const ReadConfig& own,
                std::optional<Written<T>>& out) {
  if (!given) return;
  out = Written<T>{T{value}, {own.file, own.places.key(path)}, {own.file, own.places.value(path)}};
}

}  // namespace

KubeletSettings shared_settings(const ReadConfig& own) {
  const v1::Config& file = own.message;
  KubeletSettings out;
  take_pairs(file.eviction_hard(), "evictionHard", own, out.eviction_hard);
  take_pairs(file.eviction_soft(), "evictionSoft", own, out.eviction_soft);
  take_pairs(file.eviction_soft_grace_period(), "evictionSoftGracePeriod", own,
             out.eviction_soft_grace_period);
  take_pairs(file.eviction_minimum_reclaim(), "evictionMinimumReclaim", own,
             out.eviction_minimum_reclaim);
  take_pairs(file.kube_reserved(), "kubeReserved", own, out.kube_reserved);
  take_pairs(file.system_reserved(), "systemReserved", own, out.system_reserved);
  const auto take = [&](bool given, const auto& value, const char* path, auto& member) {
    take_value(given, value, path, own, member);
  };
  take(file.has_eviction_max_pod_grace_period(), file.eviction_max_pod_grace_period(),
       "evictionMaxPodGracePeriod", out.eviction_max_pod_grace_period);
  take(file.has_eviction_pressure_transition_period(), file.eviction_pressure_transition_period(),
       "evictionPressureTransitionPeriod", out.eviction_pressure_transition_period);
  take(file.has_merge_default_eviction_settings(), file.merge_default_eviction_settings(),
       "mergeDefaultEvictionSettings", out.merge_default_eviction_settings);
  take(file.has_kernel_memcg_notification(), file.kernel_memcg_notification(),
       "kernelMemcgNotification", out.kernel_memcg_notification);
  take(file.has_local_storage_capacity_isolation(), file.local_storage_capacity_isolation(),
       "localStorageCapacityIsolation", out.local_storage_capacity_isolation);
  take(file.has_cgroup_driver(), file.cgroup_driver(), "cgroupDriver", out.cgroup_driver);
  take(file.pods().has_cgroup_root(), file.pods().cgroup_root(), "pods.cgroupRoot",
       out.cgroup_root);
  const v1::ContainerPressure& pressure = file.container_pressure();
  const auto take_threshold = [&](bool given, const std::string& text, const char* path,
                                  std::optional<Written<NumberText>>& member) {
    take_value(given, text, path, own, member);
  };
  take_threshold(
      pressure.has_memory_high_eviction_threshold(), pressure.memory_high_eviction_threshold(),
      "containerPressure.memoryHighEvictionThreshold", out.memory_high_eviction_threshold);
  take_threshold(pressure.has_memory_max_eviction_threshold(),
                 pressure.memory_max_eviction_threshold(),
                 "containerPressure.memoryMaxEvictionThreshold", out.memory_max_eviction_threshold);
  take_threshold(pressure.has_memory_psi_eviction_threshold(),
                 pressure.memory_psi_eviction_threshold(),
                 "containerPressure.memoryPSIEvictionThreshold", out.memory_psi_eviction_threshold);
  take(pressure.has_memory_pressure_eviction_grace_period(),
       pressure.memory_pressure_eviction_grace_period(),
       "containerPressure.memoryPressureEvictionGracePeriod",
       out.memory_pressure_eviction_grace_period);
  const auto& enforced = file.enforce_node_allocatable();
  take(own.places.has("enforceNodeAllocatable"),
       std::vector<std::string>(enforced.begin(), enforced.end()), "enforceNodeAllocatable",
       out.enforce_node_allocatable);
  return out;
}

CheckedConfig check_config(const ReadConfig& own, const KubeletSettings& settings,
                           text::Findings& findings) {
  const v1::Config& file = own.message;
  Report report(own.file, own.places, findings);
  CheckedConfig checked;
  Config& config = checked.config;
  config.dry_run = file.dry_run();
  if (file.pods().has_enabled()) config.pods = file.pods().enabled();
  checked.kubelet_minor = check_compat(file.compat(), config.compat, report);
  // Kubelet's settings of paths first, because the file's own settings override them.
  apply_settings(settings, checked.kubelet_minor, config, checked.origins, findings);
  check_filesystems(file.filesystems(), config.filesystems, report);
  check_oom_score_adj(file, config, report);
  add_own_thresholds(file, checked, report);
  add_watch_thresholds(file, checked, report);
  add_own_limits(file, checked, report);
  config.workloads = check_workloads(file.workloads(), "workloads", report);
  config.disabled = check_features(file, report);
  check_features_against(file, config, report);
  check_times(file, config, report);
  check_ranking(file, config, report);
  check_metrics_address(file, config, report);
  check_api(file, config, report);
  check_guard(file, config, report);
  check_guard_expiry(file, config, report);
  check_kill_limit(file, config, report);
  check_watched_cgroups_max(file, config, report);
  check_pod_list_max_age(file, config, report);
  check_recording(file, config, report);
  check_memory_qos(file, config, report);
  config.container_pressure = check_container_pressure(file, settings, report, findings);
  config.pod_annotations = check_pod_annotations(file, report);
  checked.managed_oom = check_managed_oom(file, report);
  checked.rulesets = check_rulesets(file, report);
  checked.reclaim = check_reclaim(file, checked.rulesets, report);
  checked.hooks = check_prekill_hooks(file, report);
  return checked;
}

CheckedManifest check_manifest(const v1::Manifest& message, const std::string& file,
                               const messages::FieldPositions& places, text::Findings& findings) {
  Report report(file, places, findings);
  CheckedManifest manifest;
  std::map<std::string, std::string> seen;  // uid -> path of its rule
  for (int i = 0; i < message.pods_size(); ++i) {
    const v1::ManifestPod& pod = message.pods(i);
    const std::string path = at_index("pods", i);
    PodRule rule;
    take_declarations(pod, path, rule, report);
    rule.uid = pod.uid();
    if (!pod.has_uid()) {
      report.missing(path, "uid", "set it to the pod's metadata.uid");
    } else if (!is_uid(pod.uid())) {
      report.error(path + ".uid",
                   "'uid' may hold only letters, digits and '-', found '" + pod.uid() + "'");
    } else if (const auto [first, fresh] = seen.emplace(pod.uid(), path); !fresh) {
      report.error(path + ".uid", "pod '" + pod.uid() + "' was already given in line " +
                                      std::to_string(report.line(first->second + ".uid")));
    }
    manifest.pods.push_back(std::move(rule));
  }
  manifest.cgroups = check_workloads(message.cgroups(), "cgroups", report);
  return manifest;
}

void merge_manifest(const CheckedManifest& manifest, const std::string& file,
                    const messages::FieldPositions& places, Config& config,
                    text::Findings& findings) {
  Report report(file, places, findings);
  if (!config.pods && !manifest.pods.empty()) {
    report.warn_at_key("pods", "has no effect: 'pods.enabled' is false in the configuration");
  }
  config.pod_rules = manifest.pods;
  const std::size_t own = config.workloads.size();
  for (std::size_t i = 0; i < manifest.cgroups.size(); ++i) {
    const WorkloadRule& rule = manifest.cgroups[i];
    const bool hidden = std::any_of(
        config.workloads.begin(), config.workloads.begin() + static_cast<std::ptrdiff_t>(own),
        [&](const WorkloadRule& before) { return before.cgroup == rule.cgroup; });
    if (hidden) {
      report.warn(at_index("cgroups", static_cast<int>(i)) + ".cgroup",
                  "has no effect: the configuration has a rule for '" + rule.cgroup +
                      "', which takes precedence");
    }
    config.workloads.push_back(rule);
  }
}

void check_whole(const ReadConfig& own, const KubeletSettings& settings, const Config& config,
                 text::Findings& findings) {
  const v1::Config& file = own.message;
  Report report(own.file, own.places, findings);
  warn_of_memory_qos(config, report);
  check_pressed_workloads(config, report);
  if (config.thresholds.empty()) {
    findings.warnings.push_back(
        {settings.eviction_hard ? settings.eviction_hard->key : report.at_key("evictionHard"),
         "nothing is watched: there is no threshold on the node and no 'watch' rule"});
  }
  if (!config.pods && config.workloads.empty()) {
    report.warn_at_key("workloads",
                       "nothing may be killed: 'pods.enabled' is false and 'workloads' is empty");
    return;
  }
  for (int i = 0; i < file.watch_size(); ++i) {
    const std::string& glob = file.watch(i).cgroup();
    if (may_hold_workload(config, glob)) continue;
    report.warn(
        at_index("watch", i) + ".cgroup",
        "no workload can be in '" + glob + "', so nothing is killed there; add one to 'workloads'");
  }
}

}  // namespace forestall::intake
