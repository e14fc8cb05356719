// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_report_builder.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "cluster/cluster_event.h"
#include "exports/amount_text.h"
#include "text/json_writer.h"

namespace forestall::cluster {
namespace {

constexpr std::string_view kNodeSubject = "node";
constexpr std::string_view kWorkingSetSignal = "memory.available";
constexpr double kNsPerSecond = 1e9;
constexpr double kPercent = 100;
// Headroom that changes by so much of the capacity has changed much.
constexpr std::int64_t kCapacityParts = 20;
constexpr std::size_t kThresholdsMax = 64;

bool evicts(const v1::Threshold& threshold) {
  return !threshold.has_response() || threshold.response() == "evict";
}

// How near a threshold is: met, within a minute, within ten, farther.
int nearness(std::int64_t headroom, const std::optional<double>& seconds) {
  constexpr double kMinute = 60;
  constexpr double kTenMinutes = 600;
  if (headroom <= 0) return 3;
  if (!seconds) return 0;
  return *seconds < kMinute ? 2 : *seconds < kTenMinutes ? 1 : 0;
}

// Percent of the time between two readings.
double share(Duration stalled, Duration passed) {
  const double part =
      static_cast<double>(stalled.count()) / static_cast<double>(passed.count()) * kPercent;
  return std::clamp(std::round(part * kPercent) / kPercent, 0.0, kPercent);
}

std::optional<std::int64_t> working_set_of(const v1::WorkloadSample& sample) {
  if (!sample.has_usage_bytes() || !sample.has_inactive_file_bytes()) return std::nullopt;
  return std::max<std::int64_t>(sample.usage_bytes() - sample.inactive_file_bytes(), 0);
}

}  // namespace

void NodeReportBuilder::answered(const v1::AgentStatus& status, MonotonicTime now) {
  if (!status.has_config()) return;  // it has not evaluated yet
  kills_.add(status, now);
  answered_at_ = now;
  read_at_ = now;
  distances_.clear();
  working_set_.reset();
  capacity_.reset();
  const int known = std::min(status.thresholds_size(), status.distances_size());
  for (int i = 0; i < known; ++i) {
    const v1::Evidence& evidence = status.thresholds(i);
    if (evidence.subject() != kNodeSubject || !evicts(evidence.threshold())) continue;
    if (evidence.threshold().signal() == kWorkingSetSignal) {
      capacity_ = evidence.capacity();
      working_set_ = evidence.capacity() - evidence.available();
    }
    read_at_ = std::min(read_at_, from_ns(evidence.at_ns()));
    if (distances_.size() == kThresholdsMax) continue;
    const v1::ThresholdDistance& distance = status.distances(i);
    Distance& added = distances_.emplace_back();
    added = {evidence.threshold().signal(), evidence.capacity(), distance.headroom(), {}};
    if (distance.has_time_to_threshold_ns()) {
      added.seconds = static_cast<double>(distance.time_to_threshold_ns()) / kNsPerSecond;
    }
  }
}

void NodeReportBuilder::ranked(const v1::RankResponse& ranking, MonotonicTime now) {
  const bool has_base = ranked_at_ && now - *ranked_at_ >= kGrowthShortest;
  const Duration passed = has_base ? now - *ranked_at_ : Duration(1);
  std::map<std::string, std::int64_t> working_sets;
  pods_.clear();
  for (const v1::Candidate& each : ranking.report().order()) {
    const v1::Pod& pod = each.sample().workload().pod();
    const auto working_set = working_set_of(each.sample());
    if (pod.name().empty() || pod.namespace_().empty() || !working_set) continue;
    PodUsage usage{pod.namespace_(), pod.name(), pod.uid(), *working_set, std::nullopt};
    if (const auto before = working_sets_.find(pod.uid());
        has_base && before != working_sets_.end()) {
      const double seconds = static_cast<double>(passed.count()) / kNsPerSecond;
      usage.growth = std::llround(static_cast<double>(*working_set - before->second) / seconds);
    }
    working_sets.emplace(pod.uid(), *working_set);
    pods_.push_back(std::move(usage));
  }
  working_sets_ = std::move(working_sets);
  ranked_at_ = now;
  const v1::NodeSample& node = ranking.signals().observation().node();
  usage_ = node.has_usage_bytes() ? std::optional(node.usage_bytes()) : std::nullopt;
}

bool NodeReportBuilder::needs_ranking(MonotonicTime now) const {
  return is_ready(now) && (!tried_at_ || now - *tried_at_ >= kInterval);
}

bool NodeReportBuilder::is_ready(MonotonicTime now) const {
  return !owner_.empty() && answered_at_ && now - *answered_at_ < kStatusAgeMax;
}

bool NodeReportBuilder::is_due(MonotonicTime now) const {
  return is_ready(now) && now >= report_due(now);
}

// A new ranking is reported before its values are old.
MonotonicTime NodeReportBuilder::report_due(MonotonicTime now) const {
  if (!built_at_) return now;
  const bool has_new_ranking = ranked_at_ && *ranked_at_ > *built_at_;
  return *built_at_ + (has_new_ranking ? kShortest : kInterval);
}

bool NodeReportBuilder::has_changed(MonotonicTime now) const {
  if (!is_ready(now) || !built_at_ || now - *built_at_ < kShortest) return false;
  if (kills_.in_window(now).evictions > built_kills_.evictions ||
      kills_.in_window(now).oom_kills > built_kills_.oom_kills) {
    return true;
  }
  if (distances_.size() != built_distances_.size()) return true;
  for (std::size_t i = 0; i < distances_.size(); ++i) {
    const Distance& before = built_distances_[i];
    const Distance& after = distances_[i];
    if (before.signal != after.signal) return true;
    if (nearness(before.headroom, before.seconds) != nearness(after.headroom, after.seconds)) {
      return true;
    }
    const std::int64_t much = std::max<std::int64_t>(after.capacity / kCapacityParts, 1);
    if (std::abs(after.headroom - before.headroom) >= much) return true;
  }
  return false;
}

std::optional<MonotonicTime> NodeReportBuilder::due(MonotonicTime now) const {
  if (!is_ready(now)) return std::nullopt;
  return std::min(report_due(now), tried_at_ ? *tried_at_ + kInterval : now);
}

std::optional<std::string> NodeReportBuilder::build(const std::optional<StallReading>& stalls,
                                                    std::int64_t wall, MonotonicTime now) {
  if (!is_ready(now)) return std::nullopt;
  std::string object = written(stalls, wall, now);
  built_at_ = now;
  built_distances_ = distances_;
  built_kills_ = kills_.in_window(now);
  built_stalls_ = stalls;
  stalls_at_ = now;
  return object;
}

std::vector<NodeReportBuilder::PodUsage> NodeReportBuilder::top_pods() const {
  std::vector<const PodUsage*> order;
  order.reserve(pods_.size());
  for (const PodUsage& each : pods_) order.push_back(&each);
  const auto name = [](const PodUsage& pod) { return std::tie(pod.pod_namespace, pod.name); };
  std::set<const PodUsage*> chosen;
  const auto choose = [&](const auto& value_of, std::size_t most, std::int64_t above) {
    std::ranges::sort(order, [&](const PodUsage* a, const PodUsage* b) {
      const std::int64_t of_a = value_of(*a);
      const std::int64_t of_b = value_of(*b);
      return of_a != of_b ? of_a > of_b : name(*a) < name(*b);
    });
    for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
      if (value_of(*order[i]) > above) chosen.insert(order[i]);
    }
  };
  choose([](const PodUsage& pod) { return pod.growth.value_or(0); }, kFastest, 0);
  choose([](const PodUsage& pod) { return pod.working_set; }, kLargest, -1);
  std::vector<PodUsage> top;
  for (const PodUsage* each : order) {
    if (chosen.contains(each)) top.push_back(*each);
  }
  return top;
}

void NodeReportBuilder::write_memory(text::JsonWriter& out,
                                     const std::optional<StallReading>& stalls,
                                     MonotonicTime now) const {
  const auto member = [&out](std::string_view key, const std::optional<std::int64_t>& value) {
    if (value) out.member(key, *value);
  };
  // It is read with the pods.
  const bool has_usage = usage_ && ranked_at_ && now - *ranked_at_ < kUsageAgeMax;
  // API servers of 1.20 take an applied {} for null, and refuse the report.
  if (capacity_ || working_set_ || has_usage) {
    out.key("memory");
    out.begin_object();
    member("capacity", capacity_);
    if (has_usage) member("usage", usage_);
    member("workingSet", working_set_);
    out.end_object();
  }
  if (!stalls || !built_stalls_ || now <= stalls_at_) return;
  if (stalls->some < built_stalls_->some || stalls->full < built_stalls_->full) return;
  out.key("memoryStallPercent");
  out.begin_object();
  out.member("some", share(stalls->some - built_stalls_->some, now - stalls_at_));
  out.member("full", share(stalls->full - built_stalls_->full, now - stalls_at_));
  out.end_object();
}

void NodeReportBuilder::write_thresholds(text::JsonWriter& out) const {
  out.key("thresholds");
  out.begin_list();
  for (const Distance& each : distances_) {
    out.begin_object();
    out.member("signal", each.signal);
    out.member("headroom", each.headroom);
    if (each.seconds) {
      // Amounts that do not fit are of a threshold that is crossed at any moment.
      const double growth = static_cast<double>(each.headroom) / *each.seconds;
      if (growth > 0 && growth < static_cast<double>(each.capacity)) {
        out.member("growthPerSecond", static_cast<std::int64_t>(std::llround(growth)));
      }
      out.member("secondsToCrossing", *each.seconds);
    }
    out.end_object();
  }
  out.end_list();
}

void NodeReportBuilder::write_pods(text::JsonWriter& out) const {
  out.key("pods");
  out.begin_list();
  for (const PodUsage& each : top_pods()) {
    out.begin_object();
    out.member("namespace", each.pod_namespace);
    out.member("name", each.name);
    out.member("uid", each.uid);
    out.member("workingSet", each.working_set);
    if (each.growth) out.member("growthPerSecond", *each.growth);
    out.end_object();
  }
  out.end_list();
}

std::string NodeReportBuilder::written(const std::optional<StallReading>& stalls, std::int64_t wall,
                                       MonotonicTime now) const {
  text::JsonWriter out(text::JsonLayout::one_line);
  out.begin_object();
  out.member("apiVersion", "forestall.dev/v1alpha1");
  out.member("kind", "NodeReport");
  out.key("metadata");
  out.begin_object();
  out.member("name", node_);
  // The column of `kubectl get`: a printer column cannot convert bytes. It is an annotation because
  // an API server with an older CRD refuses a report with a field that its CRD does not have.
  if (working_set_) {
    out.key("annotations");
    out.begin_object();
    out.member("forestall.dev/working-set", exports::amount_text(*working_set_));
    out.end_object();
  }
  // The report is deleted with the node.
  out.key("ownerReferences");
  out.begin_list();
  out.begin_object();
  out.member("apiVersion", "v1");
  out.member("kind", "Node");
  out.member("name", node_);
  out.member("uid", owner_);
  out.end_object();
  out.end_list();
  out.end_object();
  out.key("status");
  out.begin_object();
  const auto age = std::chrono::ceil<std::chrono::seconds>(now - read_at_);
  out.member("time", api_time(wall - age.count()));
  write_memory(out, stalls, now);
  write_thresholds(out);
  const KillCounts kills = kills_.in_window(now);
  out.key("lastHour");
  out.begin_object();
  out.member("evictions", kills.evictions);
  out.member("oomKills", kills.oom_kills);
  out.end_object();
  if (ranked_at_ && now - *ranked_at_ < kPodsAgeMax) write_pods(out);
  out.end_object();
  out.end_object();
  return std::move(out).take();
}

}  // namespace forestall::cluster
