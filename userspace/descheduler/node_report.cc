// SPDX-License-Identifier: Apache-2.0
// NodeReport (forestall.dev/v1alpha1), as scripts/deploy/kubernetes/crd/node-reports.yaml describes
// it.
#include "rebalance/node_report.h"

#include <fmt/format.h>

#include <charconv>

#include "descheduler/cluster_objects.h"

namespace forestall::descheduler {
namespace {

using text::JsonValue;

constexpr std::string_view kReportVersion = "forestall.dev/v1alpha1";

// Seconds or percent.
Result<std::optional<double>> number_in(const JsonValue& object, std::string_view key, double most,
                                        const char* expected) {
  const auto found = TRY(object.find(key));
  if (!found) return std::optional<double>();
  const std::string number = TRY(found->string_or_number());
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == number.data() + number.size();
  if (!whole || !(value >= 0 && value <= most)) {
    return found->wrong(fmt::format("expected {}, found '{}'", expected, number));
  }
  return std::optional<double>(value);
}

Result<std::optional<std::int64_t>> count_in(const JsonValue& object, std::string_view key) {
  const auto found = TRY(object.find(key));
  if (!found) return std::optional<std::int64_t>();
  const std::int64_t value = TRY(found->integer());
  if (value < 0) return found->wrong(fmt::format("expected a count, found {}", value));
  return std::optional<std::int64_t>(value);
}

}  // namespace

Result<std::optional<rebalance::Nanos>> ObjectReader::quantity_in(const Value& object,
                                                                  std::string_view key) {
  const auto found = TRY(object.find(key));
  if (!found) return std::optional<rebalance::Nanos>();
  return std::optional<rebalance::Nanos>(TRY(quantity(*found)));
}

Result<rebalance::ReportedThreshold> ObjectReader::reported_threshold(const Value& value) {
  constexpr double kSecondsMax = 1e15;
  rebalance::ReportedThreshold out;
  out.signal = TRY(required_text(value, "signal"));
  const Value headroom = TRY(value.at("headroom"));
  out.headroom = TRY(quantity(headroom));
  out.growth = TRY(quantity_in(value, "growthPerSecond"));
  out.seconds = TRY(number_in(value, "secondsToCrossing", kSecondsMax, "seconds"));
  return out;
}

Result<rebalance::ReportedPod> ObjectReader::reported_pod(const Value& value) {
  rebalance::ReportedPod out;
  out.pod_namespace = TRY(required_text(value, "namespace"));
  out.name = TRY(required_text(value, "name"));
  if (const auto uid = TRY(value.find("uid"))) out.uid = TRY(text(*uid));
  const Value working_set = TRY(value.at("workingSet"));
  out.working_set = TRY(quantity(working_set));
  out.growth = TRY(quantity_in(value, "growthPerSecond"));
  return out;
}

Result<void> ObjectReader::add_node_report(const Value& object) {
  constexpr double kAllOfTheTime = 100;
  const std::string version = TRY(object.text("apiVersion"));
  if (!version.empty() && version != kReportVersion) {
    return object.wrong(
        fmt::format("apiVersion: expected {}, found '{}'", kReportVersion, version));
  }
  rebalance::NodeReport out;
  const Value metadata = TRY(object.at("metadata"));
  out.node = TRY(required_text(metadata, "name"));
  const Value status = TRY(object.at("status"));
  const Value taken = TRY(status.at("time"));
  out.time_ns = TRY(time(taken));
  if (const auto memory = TRY(status.find("memory"))) {
    out.capacity = TRY(quantity_in(*memory, "capacity"));
    out.usage = TRY(quantity_in(*memory, "usage"));
    out.working_set = TRY(quantity_in(*memory, "workingSet"));
  }
  if (const auto stall = TRY(status.find("memoryStallPercent"))) {
    out.some = TRY(number_in(*stall, "some", kAllOfTheTime, "percent from 0 to 100"));
    out.full = TRY(number_in(*stall, "full", kAllOfTheTime, "percent from 0 to 100"));
  }
  if (const auto hour = TRY(status.find("lastHour"))) {
    out.evictions = TRY(count_in(*hour, "evictions"));
    out.oom_kills = TRY(count_in(*hour, "oomKills"));
  }
  const auto add_threshold = [&](const Value& item) -> Result<void> {
    out.thresholds.push_back(TRY(reported_threshold(item)));
    return {};
  };
  TRY(status.each_in("thresholds", add_threshold));
  const auto add_reported = [&](const Value& item) -> Result<void> {
    out.pods.push_back(TRY(reported_pod(item)));
    return {};
  };
  TRY(status.each_in("pods", add_reported));
  snapshot_.reports.push_back(std::move(out));
  return {};
}

}  // namespace forestall::descheduler
