// SPDX-License-Identifier: Apache-2.0
#include "intake/config_override.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "intake/config_file.h"
#include "intake/eviction_settings.h"
#include "intake/kubelet_config.h"
#include "text/diagnostic.h"

namespace forestall::intake {
namespace {

// The origin of settings that are taken from the configuration in force.
const text::Origin kInForce{"the configuration", std::nullopt};

// A percentage that parse_threshold_limit() reads as the same 32-bit fraction. "100%" and "0%"
// would remove a threshold, so the decimal point is always written.
std::string text_of(const Limit& limit) {
  if (limit.quantity) return limit.quantity->text();
  return fmt::format("{:#.17g}%", static_cast<double>(limit.fraction.value_or(0)) * 100);
}

bool has_key(const WrittenPairs& pairs, std::string_view key) {
  return std::ranges::any_of(pairs, [&](const WrittenPair& pair) { return pair.key == key; });
}

void add(Written<WrittenPairs>& to, const Threshold& threshold, std::string value) {
  to.value.push_back(
      {std::string(row_of(threshold.signal).name), std::move(value), kInForce, kInForce});
}

// apply_settings() copies hard memory.available thresholds to the pods cgroup.
bool is_copy(const Threshold& threshold, const Config& config) {
  if (threshold.signal != Signal::allocatable_memory_available) return false;
  return std::ranges::any_of(config.thresholds, [&](Threshold each) {
    if (each.signal != Signal::memory_available || !each.hard()) return false;
    each.signal = threshold.signal;
    return each == threshold;
  });
}

// The settings that result in the kubelet's thresholds of `config`.
KubeletSettings settings_of_thresholds(const Config& config) {
  KubeletSettings settings;
  auto& hard = settings.eviction_hard.emplace();
  auto& soft = settings.eviction_soft.emplace();
  auto& graces = settings.eviction_soft_grace_period.emplace();
  auto& reclaims = settings.eviction_minimum_reclaim.emplace();
  settings.hard_by_flag = true;  // kubelet's defaults are not merged into them again
  for (const Threshold& each : config.thresholds) {
    if (!is_kubelets(each.signal) || is_copy(each, config)) continue;
    // Soft thresholds follow the hard ones. A grace period may be 0.
    const bool is_soft = !each.hard() || !soft.value.empty();
    add(is_soft ? soft : hard, each, text_of(each.limit));
    const std::string_view name = row_of(each.signal).name;
    if (is_soft && !has_key(graces.value, name))
      add(graces, each, fmt::format("{}ns", each.grace.count()));
    if (each.min_reclaim && !has_key(reclaims.value, name)) {
      add(reclaims, each, text_of(*each.min_reclaim));
    }
  }
  return settings;
}

}  // namespace

Result<KubeletSettings> read_settings(const std::string& kubelet_config, const GivenFlags& flags) {
  KubeletSettings settings;
  std::vector<text::Finding> errors;
  if (!kubelet_config.empty()) {
    settings = read_kubelet_config(TRY(read_text_file(kubelet_config)), kubelet_config, errors);
  }
  put_over(settings, read_kubelet_flags(flags, errors), nullptr);
  if (!errors.empty()) return error(text::format(errors));
  return settings;
}

Result<OverriddenConfig> override_settings(const Config& config, const KubeletSettings& settings) {
  KubeletSettings all = settings_of_thresholds(config);
  put_over(all, settings, nullptr);
  OverriddenConfig result{config, {}};
  Config& changed = result.config;
  changed.thresholds.clear();
  if (settings.kube_reserved) changed.kube_reserved = {};
  if (settings.system_reserved) changed.system_reserved = {};
  std::vector<ThresholdOrigin> origins;
  text::Findings findings;
  apply_settings(all, std::nullopt, changed, origins, findings);
  if (!findings.errors.empty()) return error(text::format(findings.errors));
  for (const Threshold& each : config.thresholds) {
    if (!is_kubelets(each.signal)) changed.thresholds.push_back(each);
  }
  std::erase_if(findings.warnings,
                [](const text::Finding& each) { return each.origin == kInForce; });
  result.warnings = text::format_each(findings.warnings);
  return result;
}

}  // namespace forestall::intake
