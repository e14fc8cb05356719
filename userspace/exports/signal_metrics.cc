// SPDX-License-Identifier: Apache-2.0
#include "exports/signal_metrics.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "exports/metric_labels.h"

namespace forestall::exports {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Part of a metric's name.
std::string_view unit_in_metric(Unit unit) {
  switch (unit) {
    case Unit::bytes: return "bytes";
    case Unit::inodes: return "inodes";
    case Unit::tasks: return "processes";
  }
  return "";
}

// One family per unit that occurs: a metric has one unit.
class UnitFamilies {
 public:
  UnitFamilies(std::string name, std::string help)
      : name_(std::move(name)), help_(std::move(help)) {}

  MetricFamily& operator[](Unit unit) {
    const auto [found, is_new] = families_.try_emplace(unit);
    MetricFamily& family = found->second;
    if (!is_new) return family;
    const std::string of_unit(unit_in_metric(unit));
    family.name = "forestall_signal_" + name_ + "_" + of_unit;
    family.help = help_ + ", in " + of_unit + ".";
    family.type = MetricType::Gauge;
    return family;
  }

  void move_to(std::vector<MetricFamily>& all) {
    for (auto& [unit, family] : families_) all.push_back(std::move(family));
  }

 private:
  const std::string name_;
  const std::string help_;
  std::map<Unit, MetricFamily> families_;
};

ClientMetric* find(MetricFamily& family, const Labels& labels) {
  const auto found = std::ranges::find(family.metric, labels, &ClientMetric::label);
  return found == family.metric.end() ? nullptr : &*found;
}

void add(MetricFamily& family, const Labels& labels, double value) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = labels;
  metric.gauge.value = value;
}

// A new series, or the smaller value of two.
void add_least(MetricFamily& family, const Labels& labels, double value) {
  ClientMetric* same = find(family, labels);
  if (same == nullptr) return add(family, labels, value);
  same->gauge.value = std::min(same->gauge.value, value);
}

}  // namespace

struct SignalMetrics::Families {
  UnitFamilies available{"available",
                         "Amount of the signal available to the subject at the last evaluation"};
  UnitFamilies capacity{"capacity",
                        "Capacity of the subject for the signal at the last evaluation"};
  UnitFamilies threshold{"threshold",
                         "Threshold on the available amount, by kind: hard and soft evict, warn "
                         "reports, slow throttles"};
  UnitFamilies headroom{
      "headroom", "Available amount minus the threshold at the last evaluation, negative below it"};
  MetricFamily time{"forestall_signal_time_to_threshold_seconds",
                    "Time until the available amount reaches the threshold at the present growth, "
                    "in seconds; 0 below the threshold, absent if the growth is unknown or there "
                    "is none.",
                    MetricType::Gauge,
                    {}};

  // Several thresholds of one signal on one subject share available amount and capacity. Of several
  // of one kind, the one that is reached first is exported.
  void put(const SubjectAmounts& amount) {
    const Unit unit = unit_of(amount.signal);
    const Labels subject{{"signal", std::string(to_string(amount.signal))},
                         {"subject", plain(amount.subject)}};
    if (find(available[unit], subject) == nullptr) {
      add(available[unit], subject, static_cast<double>(amount.available));
      add(capacity[unit], subject, static_cast<double>(amount.capacity));
    }
    Labels limit{{"kind", std::string(amount.kind)}};
    limit.insert(limit.end(), subject.begin(), subject.end());
    const auto threshold_amount = static_cast<double>(amount.threshold);
    const double left = static_cast<double>(amount.available) - threshold_amount;
    ClientMetric* same = find(headroom[unit], limit);
    if (same == nullptr || left < same->gauge.value) {
      std::erase_if(threshold[unit].metric,
                    [&](const ClientMetric& each) { return each.label == limit; });
      add(threshold[unit], limit, threshold_amount);
    }
    add_least(headroom[unit], limit, left);
    if (amount.seconds) add_least(time, limit, *amount.seconds);
  }

  std::vector<MetricFamily> take() {
    std::vector<MetricFamily> all;
    for (auto* each : {&available, &capacity, &threshold, &headroom}) each->move_to(all);
    if (!time.metric.empty()) all.push_back(std::move(time));
    return all;
  }
};

SignalMetrics::SignalMetrics(std::size_t reported_max)
    : reported_max_(reported_max), history_(reported_max) {
  for (std::vector<SubjectAmounts>* each : {&shared_, &copied_}) each->reserve(reported_max);
  seconds_.reserve(reported_max);
}

void SignalMetrics::put(const std::vector<Evidence>& evidence) {
  const std::size_t reported = std::min(evidence.size(), reported_max_);
  seconds_.resize(reported);
  // Also while a reader holds the lock: the history must not have gaps.
  for (std::size_t i = 0; i < reported; ++i) {
    seconds_[i] = history_.seconds_to_threshold(evidence[i]);
  }
  history_.drop_unseen();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  shared_.resize(reported);
  for (std::size_t i = 0; i < reported; ++i) {
    SubjectAmounts& amount = shared_[i];
    amount.signal = evidence[i].threshold.signal;
    amount.subject = evidence[i].subject;
    amount.kind = kind_of(evidence[i].threshold);
    amount.available = evidence[i].available;
    amount.capacity = evidence[i].capacity;
    amount.threshold = evidence[i].limit.value();
    amount.seconds = seconds_[i];
  }
  left_out_ = evidence.size() - reported;
}

std::vector<MetricFamily> SignalMetrics::Collect() const {
  const std::lock_guard reading(reading_);
  std::size_t left_out = 0;
  {
    // Copies into strings of the reader's own, so that this neither allocates nor frees the loop's
    // memory.
    const std::lock_guard lock(mutex_);
    copied_ = shared_;
    left_out = left_out_;
  }
  Families families;
  for (const SubjectAmounts& each : copied_) families.put(each);
  std::vector<MetricFamily> all = families.take();
  MetricFamily rest{"forestall_signal_subjects_left_out",
                    "Thresholds without amounts because there are too many subjects.",
                    MetricType::Gauge,
                    {}};
  rest.metric.emplace_back().gauge.value = static_cast<double>(left_out);
  all.push_back(std::move(rest));
  return all;
}

}  // namespace forestall::exports
