// SPDX-License-Identifier: Apache-2.0
#include "intake/memory_qos_section.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>

#include "intake/amounts.h"
#include "intake/cgroup_glob.h"

namespace forestall::intake {
namespace {

constexpr int kQosCgroupsMax = 256;

void check_factor(const v1::Config& given, MemoryQosConfig& out, Report& report) {
  if (!given.has_memory_throttling_factor()) return;
  const std::string& text = given.memory_throttling_factor();
  double factor = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, factor);
  // Also refuses NaN.
  if (read.ec != std::errc() || read.ptr != end || !(factor > 0 && factor <= 1)) {
    report.error(
        "memoryThrottlingFactor",
        "'memoryThrottlingFactor' must be a number above 0, at most 1, found '" + text + "'");
    return;
  }
  out.throttling_factor = factor;
}

void check_policy(const v1::Config& given, MemoryQosConfig& out, Report& report) {
  if (!given.has_memory_reservation_policy()) return;
  const auto policy = parse_memory_reservation(given.memory_reservation_policy());
  if (policy) {
    out.reservation = *policy;
  } else {
    report.error("memoryReservationPolicy",
                 "'memoryReservationPolicy' must be None or TieredReservation, found '" +
                     given.memory_reservation_policy() + "'");
  }
}

bool check_path(const std::string& cgroup, const std::string& path, Report& report) {
  const auto checked = check_cgroup_path(cgroup);
  if (!checked) {
    report.error(path, "'cgroup' " + checked.error().message);
  } else if (cgroup == "/") {
    report.error(path, "'cgroup' must not be '/': the root cgroup has none of these files");
  }
  return checked.ok() && cgroup != "/";
}

void check_cgroup(const v1::MemoryQosCgroup& given, const std::string& path, MemoryQosCgroup& out,
                  Report& report) {
  const auto amount = [&](bool is_given, const std::string& text, const char* key,
                          std::optional<Bytes>& into) {
    if (!is_given) return;
    into = report.take(parse_bytes(text), path + "." + key, key);
    if (into && into->count == 0) {
      report.error(path + "." + key, std::string("'") + key + "' must be above 0");
    }
    report.doubt(text, path + "." + key);
  };
  amount(given.has_min(), given.min(), "min", out.min);
  amount(given.has_low(), given.low(), "low", out.low);
  amount(given.has_high(), given.high(), "high", out.high);
  if (!given.has_min() && !given.has_low() && !given.has_high()) {
    report.error(path, "nothing is set: give 'min', 'low' or 'high'");
  }
  const auto& protection = out.min && (!out.low || *out.min > *out.low) ? out.min : out.low;
  if (protection && out.high && *out.high <= *protection) {
    report.error(path + ".high",
                 "'high' must be above 'min' and 'low': memory would be reclaimed that is "
                 "protected, found '" +
                     given.high() + "'");
  }
}

void check_cgroups(const v1::Config& given, MemoryQosConfig& out, Report& report) {
  if (given.memory_qos_cgroups_size() > kQosCgroupsMax) {
    report.error("memoryQoSCgroups",
                 "'memoryQoSCgroups' has more than " + std::to_string(kQosCgroupsMax) + " cgroups");
    return;
  }
  std::set<std::string> seen;
  for (int i = 0; i < given.memory_qos_cgroups_size(); ++i) {
    const v1::MemoryQosCgroup& each = given.memory_qos_cgroups(i);
    const std::string path = "memoryQoSCgroups[" + std::to_string(i) + "]";
    MemoryQosCgroup cgroup;
    check_cgroup(each, path, cgroup, report);
    if (!each.has_cgroup()) {
      report.missing(path, "cgroup", "set it to the path of a cgroup");
      continue;
    }
    cgroup.path = each.cgroup();
    if (!check_path(cgroup.path, path + ".cgroup", report)) continue;
    if (!seen.insert(cgroup.path).second) {
      report.error(path + ".cgroup", "'" + cgroup.path + "' is listed twice");
    }
    out.cgroups.push_back(std::move(cgroup));
  }
}

bool plans_high(const MemoryQosConfig& qos) {
  return qos.throttling_factor ||
         std::ranges::any_of(qos.cgroups, [](const auto& each) { return each.high.has_value(); });
}

// Of two settings of one cgroup's memory.high the first one applies.
void warn_of_two_throttles(const Config& config, Report& report) {
  const MemoryQosConfig& qos = config.memory_qos;
  if (qos.mode != MemoryQosMode::enforce || !plans_high(qos)) return;
  const bool other = std::ranges::any_of(config.thresholds, [](const Threshold& each) {
    return each.tune || each.response == Response::slow;
  });
  if (!other) return;
  report.warn_at_key(
      "memoryQoS",
      "'tuneMemoryHigh' and the response slow write memory.high too: a cgroup has the "
      "value that was written first, until that is restored");
}

}  // namespace

void check_memory_qos(const v1::Config& given, Config& out, Report& report) {
  MemoryQosConfig& qos = out.memory_qos;
  if (given.has_memory_qos()) {
    const auto mode = parse_memory_qos_mode(given.memory_qos());
    if (mode) {
      qos.mode = *mode;
    } else {
      report.error("memoryQoS", "'memoryQoS' must be off, observe or enforce, found '" +
                                    given.memory_qos() + "'");
    }
  }
  check_factor(given, qos, report);
  check_policy(given, qos, report);
  check_cgroups(given, qos, report);
  if (qos.mode != MemoryQosMode::off) return;
  for (const char* key :
       {"memoryThrottlingFactor", "memoryReservationPolicy", "memoryQoSCgroups"}) {
    if (report.has(key)) report.warn_at_key(key, "has no effect: 'memoryQoS' is off");
  }
}

void warn_of_memory_qos(const Config& config, Report& report) {
  const MemoryQosConfig& qos = config.memory_qos;
  if (qos.mode == MemoryQosMode::off) return;
  warn_of_two_throttles(config, report);
  const bool reserves = qos.reservation == MemoryReservation::tiered;
  if (!reserves && !qos.throttling_factor) {
    if (qos.cgroups.empty()) {
      report.warn_at_key("memoryQoS",
                         "has no effect: give 'memoryReservationPolicy', "
                         "'memoryThrottlingFactor' or 'memoryQoSCgroups'");
    }
    return;
  }
  if ((reserves && !qos.kubelet_reserves) || (qos.throttling_factor && !qos.kubelet_throttles)) {
    report.warn_at_key("memoryQoS",
                       "it is unknown whether the kubelet writes the values of pods itself, and "
                       "they are left to it; give 'kubeletConfig' and 'compat.kubeletVersion'");
  }
}

}  // namespace forestall::intake
