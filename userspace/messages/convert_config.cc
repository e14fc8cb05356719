// SPDX-License-Identifier: Apache-2.0
// The configuration in force: thresholds and all other settings.
#include <utility>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

v1::EffectiveWorkloadRule to_proto(const WorkloadRule& rule) {
  v1::EffectiveWorkloadRule out;
  out.set_cgroup(text::to_utf8(rule.cgroup));
  if (rule.name) out.set_name(text::to_utf8(*rule.name));
  if (rule.priority) out.set_priority(*rule.priority);
  if (rule.memory_request) out.set_memory_request_bytes(rule.memory_request->count);
  out.set_protected_(rule.is_protected);
  return out;
}

v1::EffectivePodRule to_proto(const PodRule& rule) {
  v1::EffectivePodRule out;
  out.set_uid(text::to_utf8(rule.uid));
  if (rule.name) out.set_name(text::to_utf8(*rule.name));
  if (rule.priority) out.set_priority(*rule.priority);
  if (rule.memory_request) out.set_memory_request_bytes(rule.memory_request->count);
  out.set_protected_(rule.is_protected);
  return out;
}

Result<Limit> from_proto(const v1::Limit& message) {
  switch (message.amount_case()) {
    case v1::Limit::kQuantity:
      return Limit{TRY(inside("quantity", parse_quantity(message.quantity()))), std::nullopt};
    case v1::Limit::kFraction: return Limit::share(message.fraction());
    case v1::Limit::AMOUNT_NOT_SET: break;
  }
  return error("neither quantity nor fraction");
}

v1::Reserved to_proto(const Reserved& reserved) {
  v1::Reserved out;
  if (reserved.cpu) out.set_cpu(reserved.cpu->text());
  if (reserved.memory) out.set_memory(reserved.memory->text());
  if (reserved.ephemeral_storage) out.set_ephemeral_storage(reserved.ephemeral_storage->text());
  if (reserved.pids) out.set_pid(reserved.pids->text());
  return out;
}

Result<Reserved> from_proto(const v1::Reserved& message) {
  Reserved reserved;
  if (message.has_cpu()) reserved.cpu = TRY(inside("cpu", parse_quantity(message.cpu())));
  if (message.has_memory()) {
    reserved.memory = TRY(inside("memory", parse_quantity(message.memory())));
  }
  if (message.has_ephemeral_storage()) {
    reserved.ephemeral_storage =
        TRY(inside("ephemeralStorage", parse_quantity(message.ephemeral_storage())));
  }
  if (message.has_pid()) reserved.pids = TRY(inside("pid", parse_quantity(message.pid())));
  return reserved;
}

v1::EffectiveFilesystems to_proto(const FilesystemPlaces& places) {
  v1::EffectiveFilesystems out;
  out.set_nodefs(text::to_utf8(places.nodefs));
  out.set_pod_logs(text::to_utf8(places.pod_logs));
  out.set_imagefs(text::to_utf8(places.imagefs));
  out.set_containerfs(text::to_utf8(places.containerfs));
  out.set_runtime(text::to_utf8(places.runtime));
  return out;
}

v1::EffectiveCompat to_proto(const Compat& compat) {
  v1::EffectiveCompat out;
  out.set_hard_grace_ns(compat.hard_grace.count());
  out.set_soft_grace_is_lesser(compat.soft_grace_is_lesser);
  out.set_negative_grace_as_given(compat.negative_grace_as_given);
  out.set_hard_at_once(compat.hard_at_once);
  out.set_inode_rank_subtracts_bytes(compat.inode_rank_subtracts_bytes);
  out.set_containerfs_from_second_pass(compat.containerfs_from_second_pass);
  out.set_one_kill_until_cleanup(compat.one_kill_until_cleanup);
  out.set_reclaim_need_not_clear_all(!compat.reclaim_must_clear_all);
  return out;
}

Compat from_proto(const v1::EffectiveCompat& message) {
  Compat compat;
  compat.hard_grace = Duration(message.hard_grace_ns());
  compat.soft_grace_is_lesser = message.soft_grace_is_lesser();
  compat.negative_grace_as_given = message.negative_grace_as_given();
  compat.hard_at_once = message.hard_at_once();
  compat.inode_rank_subtracts_bytes = message.inode_rank_subtracts_bytes();
  compat.containerfs_from_second_pass = message.containerfs_from_second_pass();
  compat.one_kill_until_cleanup = message.one_kill_until_cleanup();
  compat.reclaim_must_clear_all = !message.reclaim_need_not_clear_all();
  return compat;
}

v1::PodAnnotationPolicy to_proto(const PodAnnotationPolicy& policy) {
  v1::PodAnnotationPolicy out;
  for (const std::string& each : policy.is_protected) out.add_protected_(text::to_utf8(each));
  for (const std::string& each : policy.prefer) out.add_prefer(text::to_utf8(each));
  for (const std::string& each : policy.avoid) out.add_avoid(text::to_utf8(each));
  return out;
}

PodAnnotationPolicy from_proto(const v1::PodAnnotationPolicy& message) {
  return {{message.protected_().begin(), message.protected_().end()},
          {message.prefer().begin(), message.prefer().end()},
          {message.avoid().begin(), message.avoid().end()}};
}

// Kubelet's settings in EffectiveConfig, except thresholds.
void add_kubelet_part(const Config& config, v1::EffectiveConfig& out) {
  out.set_max_pod_grace_seconds(config.max_pod_grace_seconds);
  out.set_pressure_transition_ns(config.pressure_transition.count());
  out.set_local_storage_isolation(config.local_storage_isolation);
  out.set_kernel_memcg_notification(config.kernel_memcg_notification);
  *out.mutable_kube_reserved() = to_proto(config.kube_reserved);
  *out.mutable_system_reserved() = to_proto(config.system_reserved);
  for (const Enforcement each : config.enforced) {
    out.add_enforce_node_allocatable(std::string(to_string(each)));
  }
  if (config.cgroup_driver) out.set_cgroup_driver(std::string(to_string(*config.cgroup_driver)));
  out.set_oom_score_adj(config.oom_score_adj == OomScoreAdj::enforce ? "enforce" : "observe");
  *out.mutable_filesystems() = to_proto(config.filesystems);
  *out.mutable_compat() = to_proto(config.compat);
  out.set_ranking(std::string(ranking_word(config.ranking)));
  for (const auto& pod : config.known_pods) *out.add_known_pods() = messages::to_proto(*pod);
  if (config.pod_annotations != PodAnnotationPolicy{}) {
    *out.mutable_pod_annotations() = to_proto(config.pod_annotations);
  }
}

Result<void> take_kubelet_part(const v1::EffectiveConfig& message, Config& config) {
  config.max_pod_grace_seconds = message.max_pod_grace_seconds();
  config.pressure_transition = Duration(message.pressure_transition_ns());
  config.local_storage_isolation = message.local_storage_isolation();
  config.kernel_memcg_notification = message.kernel_memcg_notification();
  config.kube_reserved = TRY(inside("kubeReserved", from_proto(message.kube_reserved())));
  config.system_reserved = TRY(inside("systemReserved", from_proto(message.system_reserved())));
  config.enforced.clear();
  for (const std::string& word : message.enforce_node_allocatable()) {
    const auto enforcement = parse_enforcement(word);
    if (!enforcement) return error("enforceNodeAllocatable: unknown '" + word + "'");
    config.enforced.push_back(*enforcement);
  }
  if (message.has_cgroup_driver()) {
    config.cgroup_driver = parse_cgroup_driver(message.cgroup_driver());
    if (!config.cgroup_driver) {
      return error("cgroupDriver: unknown '" + message.cgroup_driver() + "'");
    }
  }
  const bool enforce = message.oom_score_adj() == "enforce";
  if (!enforce && message.oom_score_adj() != "observe") {
    return error("oomScoreAdj: unknown '" + message.oom_score_adj() + "'");
  }
  config.oom_score_adj = enforce ? OomScoreAdj::enforce : OomScoreAdj::observe;
  const v1::EffectiveFilesystems& places = message.filesystems();
  config.filesystems = {places.nodefs(), places.pod_logs(), places.imagefs(), places.containerfs(),
                        places.runtime()};
  config.compat = from_proto(message.compat());
  const auto ranking = parse_ranking(message.ranking());
  if (!ranking) return error("ranking: unknown '" + message.ranking() + "'");
  config.ranking = *ranking;
  for (int i = 0; i < message.known_pods_size(); ++i) {
    Pod pod = TRY(inside("knownPods[" + std::to_string(i) + "]",
                         messages::from_proto(message.known_pods(i))));
    config.known_pods.push_back(std::make_shared<const Pod>(std::move(pod)));
  }
  config.pod_annotations = from_proto(message.pod_annotations());
  return {};
}

// EffectiveWorkloadRule and EffectivePodRule, which differ only in the field that identifies their
// subject.
template <typename Rule, typename Message>
Rule rule_of(const Message& message, Rule rule) {
  if (message.has_name()) rule.name = message.name();
  if (message.has_priority()) rule.priority = message.priority();
  if (message.has_memory_request_bytes()) {
    rule.memory_request = Bytes{message.memory_request_bytes()};
  }
  rule.is_protected = message.protected_();
  return rule;
}

}  // namespace

std::string_view ranking_word(Ranking ranking) {
  switch (ranking) {
    case Ranking::kubelet: return "kubelet";
    case Ranking::kernel: return "kernel";
    case Ranking::kubelet_growth: return "kubelet+growth";
  }
  return "";
}

std::optional<Ranking> parse_ranking(std::string_view word) {
  for (const Ranking ranking : {Ranking::kubelet, Ranking::kernel, Ranking::kubelet_growth}) {
    if (ranking_word(ranking) == word) return ranking;
  }
  return std::nullopt;
}

v1::Limit to_proto(const Limit& limit) {
  v1::Limit out;
  if (limit.quantity) {
    out.set_quantity(limit.quantity->text());
  } else if (limit.fraction) {
    out.set_fraction(*limit.fraction);
  }
  return out;
}

v1::Threshold to_proto(const Threshold& threshold) {
  v1::Threshold out;
  out.set_signal(std::string(to_string(threshold.signal)));
  if (threshold.own_limits_of) {
    out.set_own_limits_of(std::string(to_string(*threshold.own_limits_of)));
  } else if (is_of_watched_cgroup(threshold.signal)) {
    out.set_cgroup(text::to_utf8(threshold.cgroup));
  }
  if (threshold.response != Response::evict) {
    out.set_response(std::string(to_string(threshold.response)));
  }
  *out.mutable_limit() = to_proto(threshold.limit);
  out.set_grace_ns(threshold.grace.count());
  if (threshold.min_reclaim) *out.mutable_minimum_reclaim() = to_proto(*threshold.min_reclaim);
  if (threshold.capacity) out.set_capacity_bytes(threshold.capacity->count);
  out.set_tune_memory_high(threshold.tune);
  return out;
}

v1::EffectiveConfig to_proto(const Config& config) {
  v1::EffectiveConfig out;
  out.set_dry_run(config.dry_run);
  for (const Threshold& threshold : config.thresholds) *out.add_thresholds() = to_proto(threshold);
  out.set_pods(config.pods);
  out.set_cgroup_root(text::to_utf8(config.cgroup_root));
  for (const WorkloadRule& rule : config.workloads) *out.add_workloads() = to_proto(rule);
  for (const PodRule& rule : config.pod_rules) *out.add_pod_rules() = to_proto(rule);
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    if (config.disabled.test(i)) out.add_disable_features(std::string(to_string(feature_at(i))));
  }
  out.set_release_timeout_ns(config.release_timeout.count());
  out.set_recheck_interval_ns(config.recheck_interval.count());
  out.set_metrics_address(text::to_utf8(config.metrics_address));
  out.set_guard(config.guard);
  out.set_guard_expiry_ns(config.guard_expiry.count());
  if (config.api_socket) out.set_api_socket(text::to_utf8(*config.api_socket));
  for (const std::uint32_t uid : config.api_uids) out.mutable_api_users()->add_uids(uid);
  for (const std::uint32_t gid : config.api_gids) out.mutable_api_users()->add_gids(gid);
  for (const std::uint32_t uid : config.api_pod_writers) {
    out.mutable_api_users()->add_pod_writers(uid);
  }
  if (config.recording) {
    out.mutable_recording()->set_directory(text::to_utf8(config.recording->directory));
    out.mutable_recording()->set_max_size_bytes(config.recording->max_size.count);
  }
  *out.mutable_kill_limit() = messages::to_proto(config.kill_limit);
  if (config.watched_cgroups_max) out.set_watched_cgroups_max(*config.watched_cgroups_max);
  out.set_pod_list_max_age_ns(config.pod_list_max_age.count());
  if (config.rules) {
    for (const rulesets::Ruleset& each : *config.rules) {
      *out.add_rulesets() = messages::to_proto(each);
    }
  }
  // Every configuration without it has the same form as before there was one.
  if (config.memory_qos != MemoryQosConfig()) {
    *out.mutable_memory_qos() = messages::to_proto(config.memory_qos);
  }
  if (config.container_pressure != ContainerPressureConfig()) {
    *out.mutable_container_pressure() = messages::to_proto(config.container_pressure);
  }
  if (config.hooks) {
    for (const rulesets::PrekillHook& each : *config.hooks) {
      *out.add_prekill_hooks() = messages::to_proto(each);
    }
  }
  add_kubelet_part(config, out);
  return out;
}

namespace {

Result<void> read_response(const v1::Threshold& message, Threshold& threshold) {
  if (message.has_own_limits_of()) {
    threshold.own_limits_of = parse_workload_class(message.own_limits_of());
    if (!threshold.own_limits_of) {
      return error("ownLimitsOf: unknown '" + message.own_limits_of() + "'");
    }
  }
  if (!message.has_response()) return {};
  const auto response = parse_response(message.response());
  if (!response) return error("response: unknown '" + message.response() + "'");
  threshold.response = *response;
  return {};
}

}  // namespace

Result<Threshold> from_proto(const v1::Threshold& message) {
  Threshold threshold;
  TRY(read_response(message, threshold));
  const std::optional<Signal> signal = parse_signal(message.signal());
  if (!signal) return error("signal: unknown '" + message.signal() + "'");
  threshold.signal = *signal;
  const bool of_cgroups = is_of_watched_cgroup(*signal);
  if (message.has_own_limits_of() && (!of_cgroups || message.has_cgroup())) {
    return error("ownLimitsOf: allowed only with signal cgroupMemory.available and without cgroup");
  }
  if (message.has_cgroup() != (of_cgroups && !message.has_own_limits_of())) {
    return error("cgroup: must be set exactly when the signal is cgroupMemory.available");
  }
  threshold.cgroup = message.cgroup();
  Result<Limit> limit = from_proto(message.limit());
  if (!limit) return limit.error().in("limit");
  threshold.limit = *limit;
  threshold.grace = Duration(message.grace_ns());
  if (message.has_minimum_reclaim()) {
    Result<Limit> reclaim = from_proto(message.minimum_reclaim());
    if (!reclaim) return reclaim.error().in("minimumReclaim");
    threshold.min_reclaim = *reclaim;
  }
  if (message.has_capacity_bytes()) threshold.capacity = Bytes{message.capacity_bytes()};
  threshold.tune = message.tune_memory_high();
  return threshold;
}

Result<Config> from_proto(const v1::EffectiveConfig& message) {
  Config config;
  config.dry_run = message.dry_run();
  TRY(read_each(message.thresholds(), config.thresholds, "thresholds",
                [](const v1::Threshold& each) { return from_proto(each); }));
  config.pods = message.pods();
  config.cgroup_root = message.cgroup_root();
  for (const v1::EffectiveWorkloadRule& rule : message.workloads()) {
    WorkloadRule subject;
    subject.cgroup = rule.cgroup();
    config.workloads.push_back(rule_of(rule, subject));
  }
  for (const v1::EffectivePodRule& rule : message.pod_rules()) {
    PodRule subject;
    subject.uid = rule.uid();
    config.pod_rules.push_back(rule_of(rule, subject));
  }
  for (const std::string& name : message.disable_features()) {
    const std::optional<Feature> feature = parse_feature(name);
    if (!feature) return error("disableFeatures: unknown '" + name + "'");
    config.disabled.set(static_cast<std::size_t>(*feature));
  }
  config.release_timeout = Duration(message.release_timeout_ns());
  config.recheck_interval = Duration(message.recheck_interval_ns());
  config.metrics_address = message.metrics_address();
  config.guard = message.guard();
  config.guard_expiry = Duration(message.guard_expiry_ns());
  if (message.has_api_socket()) config.api_socket = message.api_socket();
  config.api_uids.assign(message.api_users().uids().begin(), message.api_users().uids().end());
  config.api_gids.assign(message.api_users().gids().begin(), message.api_users().gids().end());
  config.api_pod_writers.assign(message.api_users().pod_writers().begin(),
                                message.api_users().pod_writers().end());
  if (message.has_recording()) {
    const v1::EffectiveRecordingPlace& place = message.recording();
    config.recording = {place.directory(), Bytes{place.max_size_bytes()}};
  }
  if (message.has_kill_limit()) config.kill_limit = messages::from_proto(message.kill_limit());
  if (message.has_watched_cgroups_max()) config.watched_cgroups_max = message.watched_cgroups_max();
  if (message.has_pod_list_max_age_ns()) {
    config.pod_list_max_age = Duration(message.pod_list_max_age_ns());
  }
  if (message.rulesets_size() > 0) {
    std::vector<rulesets::Ruleset> rules;
    TRY(read_each(message.rulesets(), rules, "rulesets",
                  [](const v1::Ruleset& each) { return messages::from_proto(each); }));
    config.rules = std::move(rules);
  }
  if (message.prekill_hooks_size() > 0) {
    std::vector<rulesets::PrekillHook> hooks;
    for (const v1::PrekillHook& each : message.prekill_hooks()) {
      hooks.push_back(messages::from_proto(each));
    }
    config.hooks = std::move(hooks);
  }
  TRY(take_kubelet_part(message, config));
  if (message.has_memory_qos()) {
    config.memory_qos = TRY(inside("memoryQoS", from_proto(message.memory_qos())));
  }
  if (message.has_container_pressure()) {
    config.container_pressure =
        TRY(inside("containerPressure", from_proto(message.container_pressure())));
  }
  return config;
}

}  // namespace forestall::messages
