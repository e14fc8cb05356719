// SPDX-License-Identifier: Apache-2.0
// The configuration in force: thresholds and everything around them.
#include <utility>

#include "api/convert.h"
#include "api/convert_fields.h"
#include "api/utf8.h"

namespace forestall::api {
namespace {

v1::EffectiveWorkloadRule to_proto(const WorkloadRule& rule) {
  v1::EffectiveWorkloadRule out;
  out.set_cgroup(to_utf8(rule.cgroup));
  if (rule.name) out.set_name(to_utf8(*rule.name));
  if (rule.priority) out.set_priority(*rule.priority);
  if (rule.memory_request) out.set_memory_request_bytes(rule.memory_request->count);
  out.set_protected_(rule.is_protected);
  return out;
}

v1::EffectivePodRule to_proto(const PodRule& rule) {
  v1::EffectivePodRule out;
  out.set_uid(to_utf8(rule.uid));
  if (rule.name) out.set_name(to_utf8(*rule.name));
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

// EffectiveWorkloadRule and EffectivePodRule, which differ only in how they name their subject.
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
  if (threshold.signal == Signal::cgroup_memory_available) {
    out.set_cgroup(to_utf8(threshold.cgroup));
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
  out.set_cgroup_root(to_utf8(config.cgroup_root));
  for (const WorkloadRule& rule : config.workloads) *out.add_workloads() = to_proto(rule);
  for (const PodRule& rule : config.pod_rules) *out.add_pod_rules() = to_proto(rule);
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    if (config.disabled.test(i)) out.add_disable_features(std::string(to_string(feature_at(i))));
  }
  out.set_release_timeout_ns(config.release_timeout.count());
  out.set_recheck_interval_ns(config.recheck_interval.count());
  return out;
}

Result<Threshold> from_proto(const v1::Threshold& message) {
  Threshold threshold;
  const std::optional<Signal> signal = parse_signal(message.signal());
  if (!signal) return error("signal: unknown '" + message.signal() + "'");
  threshold.signal = *signal;
  if (message.has_cgroup() != (*signal == Signal::cgroup_memory_available)) {
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
  return config;
}

}  // namespace forestall::api
