// SPDX-License-Identifier: Apache-2.0
// `forestall check-config`: prints the effective configuration, or its errors.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "base/trusted_file.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/ruleset_text.h"
#include "forestall/v1/config_report.pb.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "model/duration.h"
#include "model/quantity.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

// The value as written, followed by the resulting amount where it is not obvious.
std::string value_text(const v1::ThresholdReport& threshold) {
  if (threshold.has_quantity() && threshold.quantity() != threshold.value()) {
    return fmt::format("{} ({})", threshold.value(), threshold.quantity());
  }
  return threshold.value();
}

v1::ThresholdReport report_of(const Threshold& threshold, const intake::ThresholdOrigin& origin) {
  v1::ThresholdReport out;
  out.set_signal(std::string(to_string(threshold.signal)));
  if (!threshold.cgroup.empty()) out.set_cgroup(threshold.cgroup);
  out.set_operator_("LessThan");
  out.set_value(origin.value);
  if (threshold.limit.quantity) {
    out.set_quantity(threshold.limit.quantity->text());
  } else {
    // 0.15 as a 32-bit float is not exactly 0.15.
    const double percentage = static_cast<double>(*threshold.limit.fraction) * 100;
    out.set_percentage(std::round(percentage * 1e5) / 1e5);
  }
  out.set_grace(forestall::to_string(threshold.grace));
  out.set_grace_ns(threshold.grace.count());
  out.set_hard(threshold.hard());
  if (origin.minimum_reclaim) out.set_minimum_reclaim(*origin.minimum_reclaim);
  out.set_origin(text::to_string(origin.origin));
  out.set_copied(origin.copied);
  if (threshold.own_limits_of) {
    out.set_own_limits_of(std::string(to_string(*threshold.own_limits_of)));
    out.set_response(std::string(to_string(threshold.response)));
  }
  return out;
}

v1::ConfigReport report_of(const intake::LoadedConfig& loaded) {
  v1::ConfigReport report;
  for (const std::string& file : loaded.files) report.add_files(file);
  for (std::size_t i = 0; i < loaded.config.thresholds.size(); ++i) {
    *report.add_thresholds() = report_of(loaded.config.thresholds[i], loaded.origins[i]);
  }
  *report.mutable_config() = messages::to_proto(loaded.config);
  for (const std::string& warning : loaded.warnings) report.add_warnings(warning);
  report.mutable_rulesets()->Assign(loaded.written_rulesets.begin(), loaded.written_rulesets.end());
  for (const rulesets::Ruleset& each : loaded.reclaim) {
    *report.add_rulesets() = messages::to_proto(each);
  }
  for (const rulesets::PrekillHook& each : loaded.hooks) {
    *report.add_prekill_hooks() = messages::to_proto(each);
  }
  return report;
}

std::string subject_text(const v1::ThresholdReport& threshold) {
  if (threshold.has_own_limits_of()) return "own limits of " + threshold.own_limits_of();
  return threshold.has_cgroup() ? threshold.cgroup() : "-";
}

std::string kind_text(const v1::ThresholdReport& threshold) {
  if (threshold.has_response()) return threshold.response();
  return threshold.hard() ? "hard" : "soft";
}

void print_thresholds(const v1::ConfigReport& report) {
  tables::Table table({"threshold", "cgroup", "below", "kind", "grace", "minimum reclaim", "from"});
  const auto add = [&](const v1::ThresholdReport& each) {
    table.add({each.signal(), subject_text(each), value_text(each), kind_text(each),
               each.hard() ? "-" : each.grace(),
               each.has_minimum_reclaim() ? each.minimum_reclaim() : "-",
               each.origin() + (each.copied() ? " (copied)" : "")});
  };
  for (const v1::ThresholdReport& each : report.thresholds()) add(each);
  if (report.has_backstop()) add(report.backstop());
  table.print();
  if (report.thresholds().empty() && !report.has_backstop())
    fmt::print("  no thresholds: the agent would never act\n");
}

// Kubernetes' facts of a pod decide whether it is critical and what it may use.
constexpr const char* kInferredWarning =
    "pods may be killed, and neither podList nor manifest declares their priorities: the "
    "agent infers what it can from oom_score_adj, protects every pod that may be "
    "system-node-critical, and cannot recognize a system-cluster-critical one; set podList";

bool infers_pods(const intake::LoadedConfig& loaded) {
  return loaded.config.pods && loaded.pod_list.empty() && loaded.config.pod_rules.empty();
}

// As root, what the agent as root would find. Other users may check files of their own.
void add_trust_warnings(intake::LoadedConfig& loaded) {
  if (::geteuid() != 0) return;
  for (const std::string& file : loaded.files) {
    const auto opened = open_trusted(file);
    if (opened) continue;
    loaded.warnings.push_back("the agent refuses a file: " + opened.error().text());
  }
}

void print_workloads(const Config& config) {
  tables::Table table({"may be killed", "name", "priority", "memory request", "protected"});
  if (config.pods) {
    table.add({fmt::format("pods below {}", config.cgroup_root), "-", "-", "-", "no"});
  }
  for (const WorkloadRule& each : config.workloads) {
    table.add({each.cgroup, each.name.value_or("-"),
               each.priority ? fmt::format("{}", *each.priority) : "-",
               each.memory_request ? binary_quantity(*each.memory_request) : "-",
               each.is_protected ? "yes" : "no"});
  }
  for (const PodRule& each : config.pod_rules) {
    table.add({"pod " + each.uid, each.name.value_or("-"),
               each.priority ? fmt::format("{}", *each.priority) : "-",
               each.memory_request ? binary_quantity(*each.memory_request) : "-",
               each.is_protected ? "yes" : "no"});
  }
  table.print();
}

std::string reserved_text(const Reserved& reserved) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<Quantity>& amount) {
    if (amount) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, amount->text());
  };
  add("cpu", reserved.cpu);
  add("memory", reserved.memory);
  add("ephemeral-storage", reserved.ephemeral_storage);
  add("pid", reserved.pids);
  return text.empty() ? "nothing" : text;
}

std::string enforced_text(const Config& config) {
  std::string text;
  for (const Enforcement each : config.enforced) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(each));
  }
  return text.empty() ? "none" : text;
}

std::string socket_text(const Config& config) {
  if (!config.api_socket) return "in the run directory";
  return config.api_socket->empty() ? "off" : printable(*config.api_socket);
}

std::string recording_text(const Config& config) {
  if (!config.recording) return "off";
  return fmt::format("in {}, at most {}", printable(config.recording->directory),
                     binary_quantity(config.recording->max_size));
}

std::string guard_text(const Config& config) {
  if (!config.guard) return "off";
  return fmt::format("on, for {} without the agent", forestall::to_string(config.guard_expiry));
}

void print_agent_settings(const Config& config) {
  fmt::print("  pods are {}candidates; ranking {}; guard in the kernel {}\n",
             config.pods ? "" : "no ", messages::ranking_word(config.ranking), guard_text(config));
  fmt::print("  metrics {}; gRPC socket {}; recording {}\n",
             config.metrics_address.empty() ? "off" : "at " + printable(config.metrics_address),
             socket_text(config), recording_text(config));
  const std::string& runtime = config.filesystems.runtime;
  fmt::print("  container runtime {}\n", runtime.empty() ? "not used" : printable(runtime));
}

void print_annotations(const PodAnnotationPolicy& policy) {
  if (policy == PodAnnotationPolicy{}) {
    return fmt::print("  annotations of pods: not honoured\n");
  }
  const auto namespaces = [](const std::vector<std::string>& list) {
    return list.empty() ? std::string("none") : fmt::format("{}", fmt::join(list, ", "));
  };
  fmt::print("  annotations of pods, by namespace: protected {}; prefer {}; avoid {}\n",
             namespaces(policy.is_protected), namespaces(policy.prefer), namespaces(policy.avoid));
}

void print_settings(const Config& config) {
  fmt::print("  soft evictions: at most {} s of grace; conditions last {}\n",
             config.max_pod_grace_seconds, forestall::to_string(config.pressure_transition));
  fmt::print("  kube-reserved {}; system-reserved {}; enforced: {}\n",
             reserved_text(config.kube_reserved), reserved_text(config.system_reserved),
             enforced_text(config));
  fmt::print("  local storage limits {}, oom_score_adj {}, cgroup driver {}\n",
             config.local_storage_isolation ? "kept" : "ignored",
             config.oom_score_adj == OomScoreAdj::enforce ? "enforced" : "observed",
             config.cgroup_driver ? to_string(*config.cgroup_driver) : "detected");
  fmt::print("  {} pods known in advance\n", config.known_pods.size());
  print_annotations(config.pod_annotations);
  fmt::print("  release timeout {}, recheck interval {}\n",
             forestall::to_string(config.release_timeout),
             forestall::to_string(config.recheck_interval));
  const KillLimit& limit = config.kill_limit;
  fmt::print(
      "  kill limit in {}: {} on the node; guaranteed {}, burstable {}, bestEffort {}, other "
      "{}\n",
      forestall::to_string(limit.window), limit.node, limit.classes[0], limit.classes[1],
      limit.classes[2], limit.classes[3]);
  fmt::print("  watched cgroups: {}; podList stale after {}\n",
             config.watched_cgroups_max ? fmt::format("at most {}", *config.watched_cgroups_max)
                                        : "as many as the limit of open files permits",
             forestall::to_string(config.pod_list_max_age));
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    if (config.disabled.test(i)) fmt::print("  disabled: {}\n", to_string(feature_at(i)));
  }
}

void print_text(const Options& options, const intake::LoadedConfig& loaded,
                const v1::ConfigReport& report) {
  const Config& config = loaded.config;
  fmt::print("{}: valid{}\n\n", config_origin(options), config.dry_run ? " (dry run)" : "");
  print_thresholds(report);
  fmt::print("\n");
  print_workloads(config);
  fmt::print("\n");
  print_settings(config);
  print_agent_settings(config);
  if (!loaded.rulesets.empty() || !loaded.reclaim.empty()) fmt::print("\n");
  for (const auto* rulesets : {&loaded.rulesets, &loaded.reclaim}) {
    for (const rulesets::Ruleset& each : *rulesets) {
      fmt::print("{}", ruleset_text(each, RulesetSource::own));
    }
  }
  for (const rulesets::PrekillHook& each : loaded.hooks) fmt::print("{}", hook_text(each));
  if (!std::ranges::all_of(loaded.hooks, &rulesets::PrekillHook::only_logs)) {
    fmt::print("{}", kills_after_hooks_text(loaded.rulesets));
  }
}

}  // namespace

int run_check_config(const Options& options) {
  auto loaded = loaded_config(options);
  if (!loaded) {
    fmt::print(stderr, "{}\n", printable_lines(loaded.error().text()));
    return kExitUsage;
  }
  add_trust_warnings(*loaded);
  intake::LoadedConfig on_host = *loaded;
  add_backstop_of_host(on_host);
  loaded->warnings = on_host.warnings;
  if (infers_pods(*loaded)) loaded->warnings.emplace_back(kInferredWarning);
  for (const std::string& warning : loaded->warnings) {
    fmt::print(stderr, "warning: {}\n", warning);
  }
  v1::ConfigReport report = report_of(*loaded);
  if (on_host.config.thresholds.size() > loaded->config.thresholds.size()) {
    *report.mutable_backstop() =
        report_of(on_host.config.thresholds.back(), on_host.origins.back());
  }
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(report, messages::JsonStyle::pretty));
  } else {
    print_text(options, *loaded, report);
  }
  return kExitOk;
}

}  // namespace forestall::cli
