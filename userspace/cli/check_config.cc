// SPDX-License-Identifier: Apache-2.0
// `forestall check-config`: the configuration as it would be in force, or what is wrong with it.
#include <fmt/format.h>

#include "api/convert.h"
#include "api/json.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/table.h"
#include "model/duration.h"
#include "model/quantity.h"

namespace forestall::cli {
namespace {

std::string limit_text(const Limit& limit) {
  if (limit.quantity) return binary_quantity(*limit.quantity);
  return fmt::format("{:g}%", static_cast<double>(*limit.fraction) * 100);
}

void print_thresholds(const Config& config) {
  Table table({"threshold", "cgroup", "below", "minimum reclaim", "capacity", "grace"});
  for (const Threshold& each : config.thresholds) {
    table.add({std::string(to_string(each.signal)), each.cgroup.empty() ? "-" : each.cgroup,
               limit_text(each.limit), each.min_reclaim ? limit_text(*each.min_reclaim) : "-",
               each.capacity ? binary_quantity(*each.capacity) : "its own",
               each.hard() ? "none (hard)" : to_string(each.grace)});
  }
  table.print();
  if (config.thresholds.empty()) fmt::print("  no thresholds: the agent would never act\n");
}

void print_workloads(const Config& config) {
  Table table({"may be killed", "name", "priority", "memory request", "protected"});
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

void print_text(const Options& options, const Config& config) {
  fmt::print("{}: good{}\n\n", config_origin(options), config.dry_run ? " (dry run)" : "");
  print_thresholds(config);
  fmt::print("\n");
  print_workloads(config);
  fmt::print("\n  release timeout {}, recheck interval {}\n", to_string(config.release_timeout),
             to_string(config.recheck_interval));
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    if (config.disabled.test(i)) fmt::print("  disabled: {}\n", to_string(feature_at(i)));
  }
}

}  // namespace

int run_check_config(const Options& options) {
  std::vector<std::string> warnings;
  const auto config = effective_config(options, warnings);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().text());
    return kExitUsage;
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "{}\n", warning);
  if (options.output == OutputFormat::json) {
    fmt::print("{}", api::to_json(api::to_proto(*config), api::JsonStyle::pretty));
  } else {
    print_text(options, *config);
  }
  return kExitOk;
}

}  // namespace forestall::cli
