// SPDX-License-Identifier: Apache-2.0
#include "intake/own_thresholds.h"

#include <array>
#include <optional>
#include <string>

#include "intake/amounts.h"
#include "intake/backstop.h"

namespace forestall::intake {
namespace {

constexpr const char* kDefaultMargin = "5%";

ThresholdOrigin origin_at(const std::string& value, const std::string& path, const Report& report) {
  return {value, std::nullopt, report.at_key(path), report.at_value(path)};
}

// The threshold is clear once half the margin more is available, so that usage near the line is
// reported only once.
Limit half_of(const Limit& margin) {
  if (margin.fraction) return Limit::share(*margin.fraction / 2);
  return {Quantity{margin.quantity->nanos / 2, margin.quantity->format}, std::nullopt};
}

// Nothing after an error.
std::optional<Limit> check_margin(const v1::OwnLimit& given, Report& report) {
  const std::string text = given.has_margin() ? given.margin() : kDefaultMargin;
  const auto margin = report.take(parse_threshold_limit(text), "ownLimit.margin", "margin");
  if (!margin) return std::nullopt;
  report.doubt(text, "ownLimit.margin");
  if (!*margin || (*margin)->fraction == 0.0F) {
    report.error("ownLimit.margin",
                 "'margin' must be more than 0 and less than the limit, found '" + text +
                     "'; to disable a class, set it to 'off'");
    return std::nullopt;
  }
  return *margin;
}

struct ClassRule {
  WorkloadClass of;
  bool given;
  std::string word;
};

std::array<ClassRule, 4> class_rules(const v1::OwnLimit& given) {
  return {{{WorkloadClass::guaranteed, given.has_guaranteed(), given.guaranteed()},
           {WorkloadClass::burstable, given.has_burstable(), given.burstable()},
           {WorkloadClass::best_effort, given.has_best_effort(), given.best_effort()},
           {WorkloadClass::other, given.has_other(), given.other()}}};
}

// One of the keys that the table of signals names.
void add_own_threshold(const SignalRow& row, const v1::OwnThreshold& given, CheckedConfig& checked,
                       Report& report) {
  const std::string key(row.own_key);
  if (!given.has_available()) {
    report.missing(key, "available", "set it to a quantity or percentage, e.g. 64Mi or 2%");
    return;
  }
  const std::string path = key + ".available";
  const auto limit = report.take(parse_threshold_limit(given.available()), path, "available");
  report.doubt(given.available(), path);
  Threshold threshold;
  threshold.signal = row.signal;
  ThresholdOrigin origin = origin_at(given.available(), path, report);
  if (given.has_minimum_reclaim()) {
    const std::string place = key + ".minimumReclaim";
    const auto reclaim =
        report.take(parse_minimum_reclaim(given.minimum_reclaim()), place, "minimumReclaim");
    report.doubt(given.minimum_reclaim(), place);
    if (reclaim != Limit::bytes(Bytes{0})) threshold.min_reclaim = reclaim;
    origin.minimum_reclaim = given.minimum_reclaim();
  }
  if (!limit) return;
  if (!*limit) {
    if (row.signal == kBackstopSignal) return;  // this is how it is switched off
    report.warn(path, "'" + given.available() + "' disables this threshold, as in kubelet");
    return;
  }
  threshold.limit = **limit;
  checked.config.thresholds.push_back(std::move(threshold));
  checked.origins.push_back(std::move(origin));
}

}  // namespace

void add_own_thresholds(const v1::Config& file, CheckedConfig& checked, Report& report) {
  for (const SignalRow& row : kSignalTable) {
    if (row.own_key.empty() || row.subject != SubjectKind::node) continue;
    const auto* field =
        v1::Config::descriptor()->FindFieldByCamelcaseName(std::string(row.own_key));
    if (!file.GetReflection()->HasField(file, field)) continue;
    const auto& given = file.GetReflection()->GetMessage(file, field);
    add_own_threshold(row, dynamic_cast<const v1::OwnThreshold&>(given), checked, report);
  }
}

void add_own_limits(const v1::Config& file, CheckedConfig& checked, Report& report) {
  if (!file.has_own_limit()) return;
  const v1::OwnLimit& given = file.own_limit();
  const auto margin = check_margin(given, report);
  for (const ClassRule& rule : class_rules(given)) {
    if (!rule.given || rule.word == "off") continue;
    const std::string key(to_string(rule.of));
    const std::string path = "ownLimit." + key;
    const auto response = parse_response(rule.word);
    if (!response) {
      report.error(path,
                   "'" + key + "' must be off, warn, slow or evict, found '" + rule.word + "'");
      continue;
    }
    if (!margin) continue;
    Threshold threshold;
    threshold.signal = Signal::cgroup_memory_available;
    threshold.limit = *margin;
    threshold.own_limits_of = rule.of;
    threshold.response = *response;
    if (*response != Response::evict) threshold.min_reclaim = half_of(*margin);
    checked.config.thresholds.push_back(std::move(threshold));
    checked.origins.push_back(
        origin_at(given.has_margin() ? given.margin() : kDefaultMargin, path, report));
  }
}

}  // namespace forestall::intake
