// SPDX-License-Identifier: Apache-2.0
// `forestall plan`: computes settings from the capacity of a node and the intent, what they leave
// for pods, and the problems they have.
#include "policy/plan.h"
#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/host_capacity.h"
#include "cli/kubelet_comparison.h"
#include "forestall/internal/plan.pb.h"
#include "intake/amounts.h"
#include "messages/json.h"
#include "model/duration.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

// --- capacity -----------------------------------------------------------------------------------

// The given capacities, or those of this host if none is given. A mixture would describe neither
// node.
struct CapacityInput {
  policy::NodeCapacity capacity;
  bool of_host = false;
};

Result<CapacityInput> capacity_of(const PlanOptions& given, const std::string& nodefs) {
  policy::NodeCapacity capacity;
  bool any = false;
  const auto take = [&](const char* flag, const std::string& text, bool is_bytes,
                        std::optional<Quantity>& out) -> Result<void> {
    if (text.empty()) return {};
    any = true;
    Result<Quantity> amount = intake::parse_amount(text);
    if (!amount) return amount.error().in(flag);
    if (amount->nanos <= 0) return error(fmt::format("{}: must be positive, found {}", flag, text));
    // 32Gi is easier to read than 34359738368.
    if (is_bytes) amount->format = QuantityFormat::binary_si;
    out = *amount;
    return {};
  };
  TRY(take("--memory-capacity", given.memory, true, capacity.memory));
  TRY(take("--cpu", given.cpu, false, capacity.cpu));
  TRY(take("--storage", given.storage, true, capacity.ephemeral_storage));
  TRY(take("--pids", given.pids, false, capacity.pids));
  const bool of_host = !any;
  if (of_host) capacity = TRY(host_capacity(nodefs));
  TRY(take("--pods", given.pods, false, capacity.pods));
  std::optional<Quantity> huge;
  TRY(take("--hugepages", given.huge_pages, true, huge));
  if (huge) capacity.huge_pages = *huge;
  return CapacityInput{capacity, of_host};
}

// --- intent -------------------------------------------------------------------------------------

// The settings as written, by signal, for the output of the plan.
struct PlanSettings {
  policy::PlanInput input;
  std::vector<std::pair<std::string, std::string>> hard, soft, grace, reclaim;
  std::optional<v1::KubeletComparison> kubelet;  // with the settings as planned for the agent
};

Result<policy::Portion> parse_portion(const char* flag, std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::string_view digits = percent ? text.substr(0, text.size() - 1) : text;
  const Result<Quantity> amount = intake::parse_amount(digits);
  if (!amount) return amount.error().in(flag);
  if (amount->nanos < 0 || (percent && *amount > decimal(100))) {
    return error(fmt::format("{}: must be from 0% to 100%, or an amount, found {}", flag, text));
  }
  policy::Portion portion;
  (percent ? portion.percent : portion.amount) = *amount;
  return portion;
}

PlanSettings written_settings(const intake::LoadedConfig& loaded) {
  PlanSettings out;
  out.input.kube_reserved = loaded.config.kube_reserved;
  out.input.system_reserved = loaded.config.system_reserved;
  const auto& enforced = loaded.config.enforced;
  out.input.pods_enforced =
      std::find(enforced.begin(), enforced.end(), Enforcement::pods) != enforced.end();
  out.input.max_pod_grace_seconds = loaded.config.max_pod_grace_seconds;
  out.input.hard_given = loaded.hard_given;
  for (std::size_t i = 0; i < loaded.config.thresholds.size(); ++i) {
    const Threshold& threshold = loaded.config.thresholds[i];
    const intake::ThresholdOrigin& origin = loaded.origins[i];
    if (origin.copied || !is_kubelets(threshold.signal)) continue;
    const std::string signal(to_string(threshold.signal));
    out.input.thresholds.push_back({threshold, origin.from_hard});
    (origin.from_hard ? out.hard : out.soft).emplace_back(signal, origin.value);
    if (!origin.from_hard) out.grace.emplace_back(signal, forestall::to_string(threshold.grace));
    if (origin.minimum_reclaim &&
        std::none_of(out.reclaim.begin(), out.reclaim.end(),
                     [&](const auto& each) { return each.first == signal; })) {
      out.reclaim.emplace_back(signal, *origin.minimum_reclaim);
    }
  }
  return out;
}

// --evict-at is about this signal alone.
policy::PlannedThreshold* memory_threshold_of(PlanSettings& settings) {
  for (policy::PlannedThreshold& each : settings.input.thresholds) {
    if (each.from_hard && each.threshold.signal == Signal::memory_available) return &each;
  }
  return nullptr;
}

void set_memory_threshold(PlanSettings& settings, const Quantity& amount) {
  const std::string signal(to_string(Signal::memory_available));
  if (auto* known = memory_threshold_of(settings)) {
    known->threshold.limit = {amount, std::nullopt};
    for (auto& [name, value] : settings.hard) {
      if (name == signal) value = policy::written(amount);
    }
    return;
  }
  Threshold threshold;
  threshold.signal = Signal::memory_available;
  threshold.limit = {amount, std::nullopt};
  settings.input.thresholds.insert(settings.input.thresholds.begin(), {threshold, true});
  settings.hard.emplace(settings.hard.begin(), signal, policy::written(amount));
}

// Applies the intent to the settings.
Result<void> apply_intent(const PlanOptions& given, const intake::LoadedConfig& loaded,
                          PlanSettings& settings) {
  if (given.reserve.empty() && given.evict_at.empty()) return {};
  const auto& capacity = settings.input.capacity.memory;
  if (!capacity) return error("--reserve and --evict-at need --memory-capacity");
  const std::string_view signal = to_string(Signal::memory_available);
  const bool threshold_given =
      loaded.hard_given && std::any_of(settings.hard.begin(), settings.hard.end(),
                                       [&](const auto& each) { return each.first == signal; });
  if (!given.evict_at.empty() && threshold_given) {
    return error(
        "--evict-at: conflicts with the given hard memory.available threshold; remove one of them");
  }
  if (!given.reserve.empty() && settings.input.system_reserved.memory) {
    return error("--reserve: conflicts with the given systemReserved memory; remove one of them");
  }
  Quantity kept;  // by the threshold, exactly
  if (!given.evict_at.empty()) {
    const policy::Portion evict_at = TRY(parse_portion("--evict-at", given.evict_at));
    const Quantity level = evict_at.of(*capacity);
    if (level >= *capacity || level <= Quantity{}) {
      return error("--evict-at: must be above 0 and below the capacity, found " + given.evict_at);
    }
    set_memory_threshold(settings, policy::memory_threshold(*capacity, evict_at));
    kept = {capacity->nanos - evict_at.of(*capacity).nanos, QuantityFormat::binary_si};
  } else if (const auto* threshold = memory_threshold_of(settings)) {
    kept = threshold->threshold.limit.of(capacity->value());
  }
  if (given.reserve.empty()) return {};
  const policy::Portion reserve = TRY(parse_portion("--reserve", given.reserve));
  settings.input.system_reserved.memory = policy::memory_reservation(*capacity, reserve, kept);
  return {};
}

// --- output -------------------------------------------------------------------------------------

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs reserved_pairs(const Reserved& reserved) {
  Pairs pairs;
  const auto add = [&](const char* name, const std::optional<Quantity>& amount) {
    if (amount) pairs.emplace_back(name, policy::written(*amount));
  };
  add("cpu", reserved.cpu);
  add("memory", reserved.memory);
  add("ephemeral-storage", reserved.ephemeral_storage);
  add("pid", reserved.pids);
  return pairs;
}

std::string joined(const Pairs& pairs, char separator) {
  std::string text;
  for (const auto& [key, value] : pairs) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ",", key, separator, value);
  }
  return text;
}

struct Setting {
  const char* flag;
  const char* key;
  char separator;
  Pairs pairs;
};

std::vector<Setting> settings_of(const PlanSettings& written) {
  return {{"eviction-hard", "evictionHard", '<', written.hard},
          {"eviction-soft", "evictionSoft", '<', written.soft},
          {"eviction-soft-grace-period", "evictionSoftGracePeriod", '=', written.grace},
          {"eviction-minimum-reclaim", "evictionMinimumReclaim", '=', written.reclaim},
          {"system-reserved", "systemReserved", '=', reserved_pairs(written.input.system_reserved)},
          {"kube-reserved", "kubeReserved", '=', reserved_pairs(written.input.kube_reserved)}};
}

std::string yaml_of(const std::vector<Setting>& settings) {
  std::string yaml;
  for (const Setting& each : settings) {
    const bool hard = each.separator == '<' && yaml.empty();
    if (each.pairs.empty()) {
      // If it is omitted, kubelet's defaults apply.
      if (hard) yaml += fmt::format("{}: {{}}\n", each.key);
      continue;
    }
    yaml += fmt::format("{}:\n", each.key);
    for (const auto& [key, value] : each.pairs) yaml += fmt::format("  {}: \"{}\"\n", key, value);
  }
  return yaml;
}

internal::PlannedSettings settings_report(const PlanSettings& written) {
  internal::PlannedSettings out;
  const std::vector<Setting> settings = settings_of(written);
  out.set_eviction_hard(joined(written.hard, '<'));
  out.set_system_reserved(joined(reserved_pairs(written.input.system_reserved), '='));
  out.set_kube_reserved(joined(reserved_pairs(written.input.kube_reserved), '='));
  for (const Setting& each : settings) {
    if (each.pairs.empty() && each.key != std::string_view("evictionHard")) continue;
    out.add_flags(fmt::format("--{}={}", each.flag, joined(each.pairs, each.separator)));
  }
  std::string yaml = yaml_of(settings);
  std::string grace;
  if (!written.soft.empty()) {
    grace = fmt::format("evictionMaxPodGracePeriod: {}\n", written.input.max_pod_grace_seconds);
    out.add_flags(
        fmt::format("--eviction-max-pod-grace-period={}", written.input.max_pod_grace_seconds));
  }
  out.set_kubelet_configuration(
      "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + yaml + grace);
  out.set_forestall_configuration(yaml + grace);
  return out;
}

internal::PlanReport report_of(const policy::Plan& plan, const PlanSettings& written) {
  internal::PlanReport report;
  for (const policy::ResourcePlan& each : plan.resources) {
    internal::PlannedResource& out = *report.add_resources();
    out.set_name(each.name);
    out.set_capacity(each.capacity.text());
    out.set_kube_reserved(each.kube_reserved.text());
    out.set_system_reserved(each.system_reserved.text());
    out.set_eviction(each.eviction.text());
    out.set_huge_pages(each.huge_pages.text());
    out.set_allocatable(each.allocatable.text());
    out.set_allocatable_rounded(policy::rounded(each.allocatable));
    if (each.pods_limit) out.set_pods_limit(each.pods_limit->text());
  }
  if (plan.pods_evicted_above) report.set_pods_evicted_above(plan.pods_evicted_above->text());
  if (plan.node_evicts_above) report.set_node_evicts_above(plan.node_evicts_above->text());
  *report.mutable_settings() = settings_report(written);
  for (const policy::Advice& each : plan.advice) {
    internal::PlanAdvice& out = *report.add_advice();
    out.set_severity(std::string(policy::severity_word(each.severity)));
    out.set_topic(each.topic);
    out.set_text(each.text);
  }
  if (written.kubelet) *report.mutable_kubelet() = *written.kubelet;
  return report;
}

void print_text(const policy::Plan& plan, const internal::PlanReport& report) {
  tables::Table table({"resource", "capacity", "kube-reserved", "system-reserved", "eviction",
                       "allocatable", "pods cgroup"});
  for (const policy::ResourcePlan& each : plan.resources) {
    table.add({each.name, policy::rounded(each.capacity), policy::written(each.kube_reserved),
               policy::written(each.system_reserved), policy::rounded(each.eviction),
               policy::rounded(each.allocatable),
               each.pods_limit ? policy::rounded(*each.pods_limit) : "-"});
  }
  table.print();
  fmt::print("\n");
  if (plan.pods_evicted_above) {
    fmt::print("  pods are evicted when together they use more than {}\n",
               policy::rounded(*plan.pods_evicted_above));
  }
  if (plan.node_evicts_above) {
    fmt::print("  pods are evicted when the whole node uses more than {}\n",
               policy::rounded(*plan.node_evicts_above));
  }
  for (const policy::Advice& each : plan.advice) {
    fmt::print("  {} ({}): {}\n", policy::severity_word(each.severity), each.topic, each.text);
  }
  if (report.has_kubelet()) fmt::print("\n{}", comparison_text(report.kubelet()));
  fmt::print("\nKubelet flags\n");
  for (const std::string& flag : report.settings().flags()) fmt::print("  {}\n", flag);
  fmt::print("\nKubeletConfiguration\n{}\nForestall's configuration\n{}",
             report.settings().kubelet_configuration(),
             report.settings().forestall_configuration());
}

// The agent's configuration with the planned thresholds in place of the kubelet's.
intake::LoadedConfig planned_agent(intake::LoadedConfig loaded, const policy::PlanInput& planned) {
  std::vector<Threshold>& thresholds = loaded.config.thresholds;
  std::erase_if(thresholds, [](const Threshold& each) { return is_kubelets(each.signal); });
  for (const policy::PlannedThreshold& each : planned.thresholds) {
    thresholds.push_back(each.threshold);
  }
  return loaded;
}

Result<PlanSettings> intake(const Options& options, const PlanOptions& given,
                            std::vector<std::string>& warnings) {
  const intake::LoadedConfig loaded = TRY(loaded_config(options));
  warnings = loaded.warnings;
  PlanSettings settings = written_settings(loaded);
  const Result<CapacityInput> capacity = capacity_of(given, loaded.config.filesystems.nodefs);
  if (!capacity) return capacity.error().in("forestall plan");
  settings.input.capacity = capacity->capacity;
  const Result<void> applied = apply_intent(given, loaded, settings);
  if (!applied) return applied.error().in("forestall plan");
  settings.kubelet = compare_with_kubelet({.agent = planned_agent(loaded, settings.input),
                                           .capacity = settings.input.capacity,
                                           .of_this_host = capacity->of_host});
  return settings;
}

}  // namespace

int run_plan(const Options& options, const PlanOptions& given) {
  std::vector<std::string> warnings;
  const auto settings = intake(options, given, warnings);
  if (!settings) {
    fmt::print(stderr, "{}\n", printable_lines(settings.error().text()));
    return kExitUsage;
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "{}\n", warning);
  const policy::Plan plan = policy::plan(settings->input);
  const internal::PlanReport report = report_of(plan, *settings);
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(report, messages::JsonStyle::pretty));
  } else {
    print_text(plan, report);
  }
  const bool refused = std::any_of(plan.advice.begin(), plan.advice.end(), [](const auto& each) {
    return each.severity == policy::Severity::error;
  });
  if (!refused) return kExitOk;
  for (const policy::Advice& each : plan.advice) {
    if (each.severity == policy::Severity::error) {
      fmt::print(stderr, "forestall plan: {}\n", printable(each.text));
    }
  }
  return kExitUsage;
}

}  // namespace forestall::cli
