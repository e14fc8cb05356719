// SPDX-License-Identifier: Apache-2.0
#include "cli/kubelet_comparison.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <unistd.h>

#include <utility>

#include "base/printable.h"
#include "intake/kubelet_own_config.h"
#include "messages/json.h"
#include "policy/kubelet_overlap.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

v1::ComparedThreshold::First to_proto(policy::ActsFirst first) {
  switch (first) {
    case policy::ActsFirst::agent: return v1::ComparedThreshold::AGENT;
    case policy::ActsFirst::kubelet: return v1::ComparedThreshold::KUBELET;
    case policy::ActsFirst::either: return v1::ComparedThreshold::EITHER;
    case policy::ActsFirst::unknown: break;
  }
  return v1::ComparedThreshold::UNKNOWN;
}

// As in JSON.
std::string word(v1::ComparedThreshold::First first) {
  const auto* value = v1::ComparedThreshold::First_descriptor()->FindValueByNumber(first);
  return value == nullptr ? "unknown" : messages::enum_word(*value);
}

// As kubeadm and most distributions name it.
std::string usual_file(const Config& agent) {
  return agent.filesystems.nodefs + "/config.yaml";
}

void put(const policy::OverlapReport& overlap, v1::KubeletComparison& comparison) {
  for (const policy::ComparedThreshold& each : overlap.thresholds) {
    v1::ComparedThreshold& out = *comparison.add_thresholds();
    out.set_signal(std::string(to_string(each.signal)));
    if (each.agent) out.set_agent(*each.agent);
    if (each.kubelet) out.set_kubelet(*each.kubelet);
    out.set_first(to_proto(each.first));
    out.set_reason(each.reason);
  }
  for (const policy::Advice& each : overlap.advice) {
    v1::KubeletAdvice& out = *comparison.add_advice();
    out.set_severity(std::string(policy::severity_word(each.severity)));
    out.set_topic(each.topic);
    out.set_text(each.text);
  }
}

}  // namespace

std::optional<v1::KubeletComparison> compare_with_kubelet(const ComparisonInput& input) {
  v1::KubeletComparison comparison;
  std::string file = input.agent.kubelet_config;
  if (file.empty()) {
    if (!input.of_this_host) return std::nullopt;
    file = usual_file(input.agent.config);
    if (::access(file.c_str(), F_OK) != 0) {
      if (!input.has_pods) return std::nullopt;
      comparison.set_unknown(fmt::format(
          "no configuration of the kubelet is given, and {} does not exist; set kubeletConfig",
          file));
      return comparison;
    }
  }
  comparison.set_file(file);
  const auto kubelet = intake::read_kubelet_own_config(file, input.agent.kubelet_minor);
  if (!kubelet) {
    comparison.set_unknown("the kubelet's configuration is invalid or cannot be read: " +
                           kubelet.error().text());
    return comparison;
  }
  Config agent = input.agent.config;
  if (!input.agent.rulesets.empty()) agent.rules = input.agent.rulesets;
  put(policy::kubelet_overlap({.agent = agent,
                               .kubelet = kubelet->config,
                               .capacity = input.capacity,
                               .cgroup_v2 = input.cgroup_v2,
                               .kubelet_writes_memory_high = kubelet->writes_memory_high,
                               .throttling_factor = kubelet->throttling_factor}),
      comparison);
  return comparison;
}

std::string comparison_text(const v1::KubeletComparison& comparison) {
  std::string text = "Agent and kubelet";
  if (!comparison.file().empty()) {
    text += fmt::format(" ({}; its flags and drop-in files are not read)",
                        printable(comparison.file()));
  }
  text += '\n';
  if (comparison.has_unknown()) {
    return text + fmt::format("  unknown: {}\n", printable_lines(comparison.unknown()));
  }
  tables::Table table({"signal", "agent", "kubelet", "first", "reason"});
  for (const v1::ComparedThreshold& each : comparison.thresholds()) {
    table.add({each.signal(), each.has_agent() ? each.agent() : "-",
               each.has_kubelet() ? each.kubelet() : "-", word(each.first()), each.reason()});
  }
  text += table.text();
  for (const v1::KubeletAdvice& each : comparison.advice()) {
    text += fmt::format("  {} ({}): {}\n", each.severity(), each.topic(), each.text());
  }
  return text;
}

}  // namespace forestall::cli
