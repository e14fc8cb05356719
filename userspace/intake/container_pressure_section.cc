// SPDX-License-Identifier: Apache-2.0
#include "intake/container_pressure_section.h"

#include <charconv>
#include <cstddef>
#include <set>
#include <string>

#include "intake/amounts.h"
#include "intake/cgroup_glob.h"

namespace forestall::intake {
namespace {

using namespace std::chrono_literals;

constexpr int kPressureCgroupsMax = 256;
constexpr double kEventsMax = 1e9;

ContainerPressureRule default_rule() {
  ContainerPressureRule rule;
  rule.reclaim_time = 5s;
  rule.lift_time = 10s;
  rule.evict_time = 30s;
  rule.calm_time = 30s;
  return rule;
}

struct ThresholdKey {
  PressureSignal signal;
  const char* name;
  std::optional<Written<NumberText>> KubeletSettings::*member;
};

constexpr ThresholdKey kThresholdKeys[] = {
    {PressureSignal::high, "memoryHighEvictionThreshold",
     &KubeletSettings::memory_high_eviction_threshold},
    {PressureSignal::max, "memoryMaxEvictionThreshold",
     &KubeletSettings::memory_max_eviction_threshold},
    {PressureSignal::psi, "memoryPSIEvictionThreshold",
     &KubeletSettings::memory_psi_eviction_threshold},
};

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

void check_thresholds(const KubeletSettings& settings, PressureValues& out,
                      text::Findings& findings) {
  for (const ThresholdKey& key : kThresholdKeys) {
    const auto& setting = settings.*key.member;
    if (!setting) continue;
    const auto value = number_of(setting->value.text);
    const bool is_percent = key.signal == PressureSignal::psi;
    // Also refuses NaN.
    if (!value || !(*value >= 0 && (is_percent ? *value < 100 : *value <= kEventsMax))) {
      findings.errors.push_back(
          {setting->at,
           "'" + std::string(key.name) + "' must be a number from 0 " +
               (is_percent ? "and below 100 (percent)" : "to 1000000000 (events a second)") +
               ", found '" + setting->value.text + "'"});
    } else if (*value > 0) {
      out[static_cast<std::size_t>(key.signal)] = *value;
    }
  }
}

void check_grace(const KubeletSettings& settings, Duration& out, text::Findings& findings) {
  const auto& setting = settings.memory_pressure_eviction_grace_period;
  if (!setting) return;
  const auto grace = parse_duration_within(setting->value.text, 0s, 24h);
  if (grace) {
    out = *grace;
    return;
  }
  findings.errors.push_back(
      {setting->at, "'memoryPressureEvictionGracePeriod' " + grace.error().message});
}

void check_stages(const v1::ContainerPressure& given, PressureStages& out, Report& report) {
  if (given.stages().empty()) {
    out.insert(PressureStage::reclaim);
    out.insert(PressureStage::lift);
    return;
  }
  for (int i = 0; i < given.stages_size(); ++i) {
    const std::string path = "containerPressure.stages[" + std::to_string(i) + "]";
    const auto stage = parse_pressure_stage(given.stages(i));
    if (!stage) {
      report.error(path,
                   "a stage must be reclaim, lift, evict or kill, found '" + given.stages(i) + "'");
    } else if (out.contains(*stage)) {
      report.error(path, "'" + given.stages(i) + "' is listed twice");
    } else {
      out.insert(*stage);
    }
  }
}

void check_cgroups(const v1::ContainerPressure& given, std::vector<std::string>& out,
                   Report& report) {
  if (given.cgroups_size() > kPressureCgroupsMax) {
    report.error("containerPressure.cgroups",
                 "'cgroups' has more than " + std::to_string(kPressureCgroupsMax) + " cgroups");
    return;
  }
  std::set<std::string> seen;
  for (int i = 0; i < given.cgroups_size(); ++i) {
    const std::string& cgroup = given.cgroups(i);
    const std::string path = "containerPressure.cgroups[" + std::to_string(i) + "]";
    if (const auto checked = check_cgroup_path(cgroup); !checked) {
      report.error(path, "a cgroup " + checked.error().message);
    } else if (cgroup == "/") {
      report.error(path, "a cgroup must not be '/': the root cgroup has none of these files");
    } else if (!seen.insert(cgroup).second) {
      report.error(path, "'" + cgroup + "' is listed twice");
    }
    out.push_back(cgroup);
  }
}

void check_mode(const v1::ContainerPressure& given, ContainerPressureConfig& out, Report& report) {
  if (!given.has_mode()) return;
  out.enforces = given.mode() == "enforce";
  if (out.enforces || given.mode() == "observe") return;
  report.error("containerPressure.mode",
               "'mode' must be observe or enforce, found '" + given.mode() + "'");
}

// With memoryQoS: enforce a memory.high is the agent's own, which lifts it by itself.
void check_lift(const v1::Config& given, const ContainerPressureConfig& out, Report& report) {
  if (!out.lifts() || given.memory_qos() != "enforce") return;
  report.error("containerPressure.mode",
               "'mode: enforce' with the stage lift and 'memoryQoS: enforce' exclude each other: "
               "memory QoS lifts its own memory.high; leave lift out of 'stages'");
}

}  // namespace

ContainerPressureConfig check_container_pressure(const v1::Config& given,
                                                 const KubeletSettings& settings, Report& report,
                                                 text::Findings& findings) {
  const v1::ContainerPressure& section = given.container_pressure();
  ContainerPressureConfig out;
  check_thresholds(settings, out.rule.thresholds, findings);
  if (!given.has_container_pressure() && !out.is_on()) return {};
  const PressureValues thresholds = out.rule.thresholds;
  out.rule = default_rule();
  out.rule.thresholds = thresholds;
  check_stages(section, out.rule.stages, report);
  const auto time = [&](bool is_given, const std::string& text, const char* key, Duration& into) {
    if (!is_given) return;
    const auto taken = report.take(parse_duration_within(text, 1s, 1h),
                                   std::string("containerPressure.") + key, key);
    if (taken) into = *taken;
  };
  time(section.has_reclaim_time(), section.reclaim_time(), "reclaimTime", out.rule.reclaim_time);
  time(section.has_lift_time(), section.lift_time(), "liftTime", out.rule.lift_time);
  time(section.has_evict_time(), section.evict_time(), "evictTime", out.rule.evict_time);
  time(section.has_calm_time(), section.calm_time(), "calmTime", out.rule.calm_time);
  check_grace(settings, out.rule.grace, findings);
  check_mode(section, out, report);
  check_cgroups(section, out.cgroups, report);
  check_lift(given, out, report);
  if (out.is_on()) return out;
  report.warn_at_key("containerPressure",
                     "has no effect: no threshold is above 0; give memoryHighEvictionThreshold, "
                     "memoryMaxEvictionThreshold or memoryPSIEvictionThreshold");
  return {};
}

}  // namespace forestall::intake
