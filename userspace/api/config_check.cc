// SPDX-License-Identifier: Apache-2.0
#include "api/config_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "api/amounts.h"
#include "api/cgroup_glob.h"

namespace forestall::api {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kWatchMax = 256;
constexpr std::size_t kWorkloadRulesMax = 4096;

// Kubelet's default of evictionHard for memory (pkg/kubelet/eviction/defaults_linux.go).
constexpr Bytes kDefaultHardMemory = mib(100);

// Priorities Kubernetes gives (pkg/apis/scheduling/types.go): users' classes end at
// HighestUserDefinablePriority, the two system classes lie above.
constexpr std::int32_t kUserPriorityMax = 1'000'000'000;
constexpr std::int32_t kSystemPriorityMin = 2'000'000'000;
constexpr std::int32_t kSystemPriorityMax = 2'000'001'000;

// Kubelet's other signals: known, but not about memory.
constexpr std::array<std::string_view, 7> kOtherKubeletSignals{
    "nodefs.available",      "nodefs.inodesFree",      "imagefs.available", "imagefs.inodesFree",
    "containerfs.available", "containerfs.inodesFree", "pid.available"};

constexpr std::array kWakeFeatures{Feature::bpf, Feature::usage_eventfd, Feature::memory_high,
                                   Feature::psi_trigger, Feature::poll};

std::string name_of(Signal signal) {
  return std::string(to_string(signal));
}

std::string at_index(std::string_view list, int i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

// Collects what is wrong with one file; every check names the field by its path.
class Report {
 public:
  Report(const Places& places, Findings& findings) : places_(places), findings_(findings) {}

  void error(std::string_view path, std::string message) {
    findings_.errors.push_back({places_.value(path), std::move(message)});
  }
  void error_at_key(std::string_view path, std::string message) {
    findings_.errors.push_back({places_.key(path), std::move(message)});
  }
  void warn(std::string_view path, std::string message) {
    findings_.warnings.push_back({places_.value(path), std::move(message)});
  }
  void warn_at_key(std::string_view path, std::string message) {
    findings_.warnings.push_back({places_.key(path), std::move(message)});
  }

  // The value of `result`, or nothing after an error "'<key>' <what is wrong>".
  template <typename T>
  std::optional<T> take(Result<T> result, const std::string& path, const std::string& key) {
    if (result) return std::move(result).value();
    // Some messages begin with the value in quotes; a colon keeps it apart from the key.
    const bool begins_with_value = result.error().message.starts_with('\'');
    error(path, "'" + key + "'" + (begins_with_value ? ": " : " ") + result.error().message);
    return std::nullopt;
  }

  void doubt(const std::string& amount, const std::string& path) {
    if (const auto doubt = doubt_amount(amount)) warn(path, *doubt);
  }

  [[nodiscard]] bool has(std::string_view path) const { return places_.has(path); }
  [[nodiscard]] std::uint32_t line(std::string_view path) const { return places_.key(path).line; }

 private:
  const Places& places_;
  Findings& findings_;
};

// --- thresholds of the node -----------------------------------------------------------------

// The signals evictionHard and evictionMinimumReclaim take; cgroupMemory.available belongs to
// `watch`, which says for which cgroups.
std::optional<Signal> node_signal(const std::string& text, const std::string& path,
                                  Report& report) {
  const std::optional<Signal> signal = parse_signal(text);
  if (signal && *signal != Signal::cgroup_memory_available) return signal;
  const std::vector<std::string> allowed{name_of(Signal::memory_available),
                                         name_of(Signal::allocatable_memory_available)};
  if (signal) {
    report.error_at_key(
        path, "'" + text + "' cannot be set here; use 'watch'" + allowed_words("", allowed));
  } else if (std::find(kOtherKubeletSignals.begin(), kOtherKubeletSignals.end(), text) !=
             kOtherKubeletSignals.end()) {
    report.error_at_key(path, "kubelet's signal '" + text + "' is not watched by this version" +
                                  allowed_words("", allowed));
  } else {
    report.error_at_key(path, "unknown signal '" + text + "'" + allowed_words(text, allowed));
  }
  return std::nullopt;
}

// Nothing for 0, which asks for nothing.
std::optional<Limit> take_reclaim(const std::string& value, const std::string& path,
                                  const std::string& key, Report& report) {
  const auto limit = report.take(parse_minimum_reclaim(value), path, key);
  report.doubt(value, path);
  return limit == Limit::bytes(Bytes{0}) ? std::nullopt : limit;
}

struct NodeAmounts {
  std::map<Signal, Limit> hard;
  std::map<Signal, Limit> reclaim;
};

NodeAmounts read_node_amounts(const v1::Config& file, Report& report) {
  NodeAmounts amounts;
  for (const auto& [text, value] : file.eviction_hard()) {
    const std::string path = "evictionHard[" + text + "]";
    const auto signal = node_signal(text, path, report);
    if (!signal) continue;
    const auto limit = report.take(parse_threshold_limit(value), path, text);
    if (limit && *limit) amounts.hard.emplace(*signal, **limit);
    report.doubt(value, path);
  }
  if (!report.has("evictionHard")) {
    amounts.hard.emplace(Signal::memory_available, Limit::bytes(kDefaultHardMemory));
  }
  for (const auto& [text, value] : file.eviction_minimum_reclaim()) {
    const std::string path = "evictionMinimumReclaim[" + text + "]";
    const auto signal = node_signal(text, path, report);
    if (!signal) continue;
    const auto limit = take_reclaim(value, path, text, report);
    if (limit) amounts.reclaim.emplace(*signal, *limit);
  }
  return amounts;
}

// Kubelet's rule (ParseThresholdConfig, addAllocatableThresholds): with pods enforced, each hard
// memory.available threshold holds for allocatableMemory.available too, with its minimum reclaim,
// beside one that was given. Given and copied alike is one threshold, not two.
std::vector<Threshold> node_thresholds(const NodeAmounts& amounts, bool pods) {
  std::vector<Threshold> thresholds;
  for (const auto& [signal, limit] : amounts.hard) {
    Threshold threshold;
    threshold.signal = signal;
    threshold.limit = limit;
    const auto reclaim = amounts.reclaim.find(signal);
    if (reclaim != amounts.reclaim.end()) threshold.min_reclaim = reclaim->second;
    thresholds.push_back(threshold);
  }
  if (!pods || !amounts.hard.contains(Signal::memory_available)) return thresholds;
  Threshold copy = thresholds.front();  // memory.available is the first of the signals
  copy.signal = Signal::allocatable_memory_available;
  if (std::find(thresholds.begin(), thresholds.end(), copy) == thresholds.end()) {
    thresholds.push_back(copy);
  }
  return thresholds;
}

void check_node_amounts(const NodeAmounts& amounts, bool pods, Report& report) {
  const std::string allocatable = name_of(Signal::allocatable_memory_available);
  if (!pods && amounts.hard.contains(Signal::allocatable_memory_available)) {
    report.error_at_key(
        "evictionHard[" + allocatable + "]",
        "'" + allocatable + "' watches the pods cgroup, but 'pods.enabled' is false");
  }
  for (const auto& [signal, limit] : amounts.reclaim) {
    const bool copied = signal == Signal::allocatable_memory_available && pods &&
                        amounts.hard.contains(Signal::memory_available);
    if (amounts.hard.contains(signal)) continue;
    report.warn_at_key(
        "evictionMinimumReclaim[" + name_of(signal) + "]",
        copied ? "has no effect: the threshold copied from 'memory.available' "
                 "takes that one's minimum reclaim"
               : "has no effect: 'evictionHard' has no threshold for '" + name_of(signal) + "'");
  }
}

// --- watch rules ----------------------------------------------------------------------------

std::optional<std::string> take_glob(bool given, const std::string& glob, const std::string& path,
                                     Report& report) {
  if (!given) {
    report.error(path, "'cgroup' is missing; it says which cgroups are meant");
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
      *threshold.limit.quantity >= *threshold.capacity) {
    report.error(path + ".available",
                 "'available' must be below 'capacity', or the threshold would always be met");
  }
}

// One rule; nothing when it is refused or switched off.
std::optional<Threshold> check_watch(const v1::Watch& watch, const std::string& path,
                                     Report& report) {
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.tune = watch.tune_memory_high();
  const auto glob = take_glob(watch.has_cgroup(), watch.cgroup(), path, report);
  if (!watch.has_available()) {
    report.error(path, "'available' is missing; it says when to act, e.g. 64Mi or 5%");
    return std::nullopt;
  }
  const auto limit =
      report.take(parse_threshold_limit(watch.available()), path + ".available", "available");
  report.doubt(watch.available(), path + ".available");
  if (watch.has_minimum_reclaim()) {
    threshold.min_reclaim =
        take_reclaim(watch.minimum_reclaim(), path + ".minimumReclaim", "minimumReclaim", report);
  }
  if (watch.has_capacity()) {
    threshold.capacity =
        report.take(parse_positive_bytes(watch.capacity()), path + ".capacity", "capacity");
    report.doubt(watch.capacity(), path + ".capacity");
  }
  if (!glob || !limit) return std::nullopt;
  if (!*limit) {
    report.warn(path + ".available",
                "'" + watch.available() + "' switches this rule off, as it does in kubelet");
    return std::nullopt;
  }
  threshold.cgroup = *glob;
  threshold.limit = **limit;
  check_watch_amounts(threshold, path, report);
  return threshold;
}

void add_watch_thresholds(const v1::Config& file, Config& config, Report& report) {
  if (static_cast<std::size_t>(file.watch_size()) > kWatchMax) {
    report.error("watch", "'watch' has more than " + std::to_string(kWatchMax) +
                              " rules; use wildcards to say the same with fewer");
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
    config.thresholds.push_back(*threshold);
  }
}

// --- workloads and pods ---------------------------------------------------------------------

// The declarations a rule about a cgroup and a rule about a pod have in common.
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
                   "what is critical to the system, found " +
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

template <typename Messages>
std::vector<WorkloadRule> check_workloads(const Messages& messages, const std::string& list,
                                          Report& report) {
  std::vector<WorkloadRule> rules;
  if (static_cast<std::size_t>(messages.size()) > kWorkloadRulesMax) {
    report.error(list, "'" + list + "' has more than " + std::to_string(kWorkloadRulesMax) +
                           " rules; use wildcards to say the same with fewer");
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
                   "end everything");
    }
    const auto [first, fresh] = seen.emplace(rule.cgroup, path);
    if (!fresh) {
      report.error(path + ".cgroup", "'" + rule.cgroup + "' already has a rule in line " +
                                         std::to_string(report.line(first->second + ".cgroup")) +
                                         "; the first match counts, so this one never would");
    }
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
      report.error(path, "unknown feature '" + name + "'" + allowed_words(name, allowed));
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
                 "that is meant");
  }
  if (std::all_of(kWakeFeatures.begin(), kWakeFeatures.end(),
                  [&](Feature f) { return has(disabled, f); })) {
    report.warn("disableFeatures",
                "every source that could wake the agent is disabled: it will only look every "
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

void check_pods(const v1::Config& file, Config& config, Report& report) {
  if (file.pods().has_enabled()) config.pods = file.pods().enabled();
  if (!file.pods().has_cgroup_root()) return;
  config.cgroup_root = file.pods().cgroup_root();
  const Result<void> checked = check_cgroup_path(config.cgroup_root);
  if (!checked) report.error("pods.cgroupRoot", "'cgroupRoot' " + checked.error().message);
}

// Globs of the cgroups pods lie in, by both cgroup drivers.
std::vector<std::string> pod_globs(const Config& config) {
  if (!config.pods) return {};
  const std::string root = config.cgroup_root == "/" ? "" : config.cgroup_root;
  return {root + "/kubepods", root + "/kubepods.slice"};
}

// Whether workloads could lie in a watched cgroup. Pods lie at unknown depth below kubepods, so it
// is enough that one of the two may contain the other.
bool may_hold_workload(const Config& config, const std::string& watched) {
  const auto rules =
      std::any_of(config.workloads.begin(), config.workloads.end(),
                  [&](const WorkloadRule& rule) { return may_lie_within(rule.cgroup, watched); });
  const auto globs = pod_globs(config);
  return rules || std::any_of(globs.begin(), globs.end(), [&](const std::string& pods) {
           return may_lie_within(pods, watched) || may_lie_within(watched, pods);
         });
}

}  // namespace

Config check_config(const v1::Config& file, const Places& places, Findings& findings) {
  Report report(places, findings);
  Config config;
  config.dry_run = file.dry_run();
  check_pods(file, config, report);
  const NodeAmounts amounts = read_node_amounts(file, report);
  check_node_amounts(amounts, config.pods, report);
  config.thresholds = node_thresholds(amounts, config.pods);
  add_watch_thresholds(file, config, report);
  config.workloads = check_workloads(file.workloads(), "workloads", report);
  config.disabled = check_features(file, report);
  check_features_against(file, config, report);
  check_times(file, config, report);
  return config;
}

CheckedManifest check_manifest(const v1::Manifest& file, const Places& places, Findings& findings) {
  Report report(places, findings);
  CheckedManifest manifest;
  std::map<std::string, std::string> seen;  // uid -> path of its rule
  for (int i = 0; i < file.pods_size(); ++i) {
    const v1::ManifestPod& pod = file.pods(i);
    const std::string path = at_index("pods", i);
    PodRule rule;
    take_declarations(pod, path, rule, report);
    rule.uid = pod.uid();
    if (!pod.has_uid()) {
      report.error(path, "'uid' is missing; it says which pod is meant");
    } else if (!is_uid(pod.uid())) {
      report.error(path + ".uid",
                   "'uid' may hold only letters, digits and '-', found '" + pod.uid() + "'");
    } else if (const auto [first, fresh] = seen.emplace(pod.uid(), path); !fresh) {
      report.error(path + ".uid", "pod '" + pod.uid() + "' was already given in line " +
                                      std::to_string(report.line(first->second + ".uid")));
    }
    manifest.pods.push_back(std::move(rule));
  }
  manifest.cgroups = check_workloads(file.cgroups(), "cgroups", report);
  return manifest;
}

void merge_manifest(const CheckedManifest& manifest, const Places& places, Config& config,
                    Findings& findings) {
  Report report(places, findings);
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
                      "', which comes first");
    }
    config.workloads.push_back(rule);
  }
}

void check_whole(const v1::Config& file, const Config& config, const Places& places,
                 Findings& findings) {
  Report report(places, findings);
  if (config.thresholds.empty()) {
    report.warn_at_key("evictionHard",
                       "nothing is watched: there is no threshold on the node and no 'watch' rule");
  }
  if (!config.pods && config.workloads.empty()) {
    report.warn_at_key("workloads",
                       "nothing may be killed: 'pods.enabled' is false and no workload is named");
    return;
  }
  for (int i = 0; i < file.watch_size(); ++i) {
    const std::string& glob = file.watch(i).cgroup();
    if (may_hold_workload(config, glob)) continue;
    report.warn(at_index("watch", i) + ".cgroup",
                "no workload can lie in '" + glob +
                    "': name some under 'workloads', or nothing will be killed there");
  }
}

}  // namespace forestall::api
