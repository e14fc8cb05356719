// SPDX-License-Identifier: Apache-2.0
#include "rulesets/reading_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "rulesets/own_detectors.h"

namespace forestall::rulesets {
namespace {

using Average = PressureOver::Average;

constexpr std::int64_t kPsiPeriod = 2;            // seconds
constexpr std::int64_t kFirstReadings = 2;        // seconds: a rate needs two
constexpr std::int64_t kAverageUsageMemory = 20;  // evaluations until an average has settled
constexpr std::int64_t kKeptLeast = 60;           // seconds
constexpr std::size_t kGateCgroupsMax = 64;

// How long what a plugin read before can change its result, in seconds. Nothing: without end, or
// it acts.
struct MemoryOf {
  using Memory = std::optional<std::int64_t>;

  Memory operator()(const PressureAbove& each) const {
    return std::max<std::int64_t>(each.duration, 0) + (each.fast_fall_ratio ? 1 : 0);
  }
  Memory operator()(const PressureOver& each) const {
    const std::int64_t window = each.measure == Average::window ? each.window : 0;
    return each.duration + window + (each.falling_at_most_to ? 1 : 0);
  }
  Memory operator()(const MemoryAbove& each) const {
    return std::max<std::int64_t>(each.duration, 0);
  }
  // What grew within D seconds counts until just before D + 1.
  Memory operator()(const MemoryReclaim& each) const {
    return std::max<std::int64_t>(each.duration, 0) + 1;
  }
  Memory operator()(const AvailableBelow& each) const { return each.duration; }
  Memory operator()(const RateAbove& each) const { return each.over; }
  Memory operator()(const Always& /*each*/) const { return 0; }
  Memory operator()(const SwapFree& /*each*/) const { return 0; }
  Memory operator()(const Exists& /*each*/) const { return 0; }
  Memory operator()(const DyingDescendants& /*each*/) const { return 0; }
  Memory operator()(const CgroupOverview& /*each*/) const { return 0; }
  Memory operator()(const LogAction& /*each*/) const { return 0; }
  Memory operator()(const Kill& each) const {
    switch (each.by) {
      case KillBy::memory_size_or_growth: return kAverageUsageMemory;
      case KillBy::io_cost: return 1;
      case KillBy::swap_usage:
      case KillBy::pressure:
      case KillBy::pg_scan: break;
    }
    return 0;  // a rate of scans has a second reading of its own
  }
  template <typename Other>
  Memory operator()(const Other& /*each*/) const {
    return std::nullopt;
  }
};

// Seconds from the update that exceeds `from` to the one that exceeds the threshold, if all tasks
// stall all the time. The averages of 60 and 300 s rise slower.
std::int64_t least_rise(double from, double threshold) {
  const double kept = std::exp(-static_cast<double>(kPsiPeriod) / 10);
  std::int64_t rise = -2 * kPsiPeriod;
  for (double average = from; average <= threshold && rise < kKeptLeast; rise += kPsiPeriod) {
    average = average * kept + 100 * (1 - kept);
  }
  return std::max<std::int64_t>(rise, 0);
}

struct GateWithLead {
  RuleGate gate;
  double threshold = 0;       // of a pressure, percent
  std::int64_t duration = 0;  // seconds

  // In seconds, if it opens as early as it can.
  [[nodiscard]] std::int64_t lead() const {
    return duration + (std::holds_alternative<PressureGate>(gate) ? least_rise(0, threshold) : 0);
  }
  // As late as this lead permits. REQUIRES: it is at most lead().
  void open_late(std::int64_t lead) {
    auto* const pressure = std::get_if<PressureGate>(&gate);
    if (pressure == nullptr) return;
    pressure->open_above = threshold;
    while (pressure->open_above > 0 &&
           duration + least_rise(pressure->open_above, threshold) < lead) {
      pressure->open_above = std::max(pressure->open_above - 1, 0.0);
    }
  }
};

struct GateOf {
  std::optional<GateWithLead> operator()(const PressureAbove& each) const {
    if (each.fast_fall_ratio || each.threshold < 0) return std::nullopt;
    return pressure({{}, each.resource, false, Average::avg10}, each.cgroups,
                    static_cast<double>(each.threshold), each.duration);
  }
  std::optional<GateWithLead> operator()(const PressureOver& each) const {
    if (each.falling_at_most_to || each.measure == Average::window || each.threshold < 0) {
      return std::nullopt;
    }
    return pressure({{}, each.resource, each.some, each.measure}, each.cgroups, each.threshold,
                    each.duration);
  }
  std::optional<GateWithLead> operator()(const AvailableBelow& each) const {
    return GateWithLead{AvailableGate{each}, 0, each.duration};
  }
  template <typename Other>
  std::optional<GateWithLead> operator()(const Other& /*each*/) const {
    return std::nullopt;
  }

 private:
  static std::optional<GateWithLead> pressure(PressureGate gate, const CgroupPatterns& cgroups,
                                              double threshold, std::int64_t duration) {
    if (cgroups.size() > kGateCgroupsMax) return std::nullopt;
    for (const CgroupPattern& each : cgroups) {
      auto path = literal_path(each);
      if (!path) return std::nullopt;
      gate.cgroups.push_back(*std::move(path));
    }
    return GateWithLead{std::move(gate), threshold, std::max<std::int64_t>(duration, 0)};
  }
};

// The lead that it needs; nothing: none is long enough.
std::optional<std::int64_t> needed_lead(const Plugin& plugin) {
  const auto memory = std::visit(MemoryOf{}, plugin.arguments);
  return memory && *memory > 0 ? *memory + kFirstReadings : memory;
}

// The one with the longest lead.
std::optional<std::pair<std::size_t, GateWithLead>> best_gate(const DetectorGroup& group) {
  std::optional<std::pair<std::size_t, GateWithLead>> best;
  for (std::size_t i = 0; i < group.plugins.size(); ++i) {
    auto gate = std::visit(GateOf{}, group.plugins[i].arguments);
    if (gate && (!best || gate->lead() > best->second.lead())) best.emplace(i, *std::move(gate));
  }
  return best;
}

bool is_swap_detector(const Plugin& plugin) {
  const auto* const available = std::get_if<AvailableBelow>(&plugin.arguments);
  return available != nullptr && available->swap;
}

struct RulesetGates {
  std::vector<RuleGate> gates;  // empty: all of it is always read
  bool defers_detectors = true;
};

RulesetGates gates_of(const Ruleset& ruleset) {
  RulesetGates all;
  for (const DetectorGroup& group : ruleset.groups) {
    auto best = best_gate(group);
    if (!best) return {};
    auto& [index, gate] = *best;
    const std::int64_t lead = gate.lead();
    std::int64_t most_needed = 0;
    for (std::size_t i = 0; i < group.plugins.size(); ++i) {
      const auto needed = needed_lead(group.plugins[i]);
      if (!needed || std::holds_alternative<Kill>(group.plugins[i].arguments)) return {};
      if (i == index) continue;
      if (*needed > lead) {
        all.defers_detectors = false;
      } else {
        most_needed = std::max(most_needed, *needed);
      }
    }
    for (const Plugin& action : ruleset.actions) {
      const auto needed = needed_lead(action);
      if (!needed || *needed > lead) return {};
      most_needed = std::max(most_needed, *needed);
    }
    gate.open_late(most_needed);
    if (auto* const available = std::get_if<AvailableGate>(&gate.gate)) {
      available->needs_swap = std::ranges::any_of(group.plugins, is_swap_detector);
    }
    all.gates.push_back(std::move(gate.gate));
  }
  return all;
}

std::vector<RuleNeed> needs_of_detectors(const Ruleset& ruleset) {
  Ruleset part;
  part.groups = ruleset.groups;
  return needs_of({part});
}

// Only the cgroups of systemd's properties have readings in `status`.
std::vector<RuleNeed> overview_of(const Ruleset& ruleset) {
  const bool is_shown = std::ranges::any_of(ruleset.actions, [](const Plugin& each) {
    const auto* kill = std::get_if<Kill>(&each.arguments);
    return kill != nullptr && kill->preference == PreferenceSource::systemd;
  });
  if (!is_shown) return {};
  std::vector<RuleNeed> overview = needs_of({ruleset});
  for (RuleNeed& need : overview) need.descend = false;
  return overview;
}

}  // namespace

double average_of(const PressureGate& gate, const PressureFile& file) {
  const auto& line = gate.some ? file.some : file.full;
  if (!line) return 0;
  switch (gate.average) {
    case Average::avg60: return static_cast<double>(line->avg60);
    case Average::avg300: return static_cast<double>(line->avg300);
    case Average::avg10:
    case Average::window: break;
  }
  return static_cast<double>(line->avg10);
}

bool is_open(const AvailableGate& gate, const Host& host) {
  return !lacks_swap(gate, host) && is_below(gate.available, host);
}

std::chrono::seconds shut_for(const PressureGate& gate, double average) {
  return std::chrono::seconds(least_rise(average, gate.open_above));
}

ReadingPlan reading_plan(const std::vector<Ruleset>& rulesets) {
  std::map<std::string, int> names;
  for (const Ruleset& each : rulesets) ++names[each.name];
  ReadingPlan plan;
  for (const Ruleset& each : rulesets) {
    RulesetReading& reading = plan.emplace_back();
    reading.ruleset = each.name;
    reading.needs = needs_of({each});
    // An observation names those that are deferred.
    if (names[each.name] > 1) continue;
    RulesetGates found = gates_of(each);
    if (found.gates.empty()) continue;
    reading.gates = std::move(found.gates);
    if (!found.defers_detectors) reading.always = needs_of_detectors(each);
    reading.kept = std::chrono::seconds(std::max(kKeptLeast, 2 * each.prekill_hook_timeout));
    reading.overview = overview_of(each);
  }
  return plan;
}

std::optional<std::string> literal_path(const CgroupPattern& pattern) {
  std::string path;
  for (const std::string& component : pattern.components) {
    path += '/';
    for (std::size_t i = 0; i < component.size(); ++i) {
      if (std::string_view("*?[]{}").find(component[i]) != std::string_view::npos) {
        return std::nullopt;
      }
      if (component[i] == '\\' && ++i == component.size()) return std::nullopt;
      path += component[i];
    }
  }
  return path.empty() ? "/" : path;
}

}  // namespace forestall::rulesets
