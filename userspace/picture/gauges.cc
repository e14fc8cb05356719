// SPDX-License-Identifier: Apache-2.0
#include "picture/gauges.h"

#include <algorithm>
#include <tuple>

#include "text/utf8.h"

namespace forestall::picture {
namespace {

// If the capacity changes, a threshold's amount may change with every evaluation (tmpfs, hotplug).
constexpr int kThresholdsMax = 64;

internal::Gauge::Unit gauge_unit(Signal signal) {
  switch (unit_of(signal)) {
    case Unit::bytes: return internal::Gauge::BYTES;
    case Unit::inodes: return internal::Gauge::INODES;
    case Unit::tasks: return internal::Gauge::TASKS;
  }
  return internal::Gauge::UNIT_UNSPECIFIED;
}

bool is_same(const internal::GaugeThreshold& reported, const Evidence& evidence) {
  return reported.limit() == evidence.limit.value() &&
         reported.grace_ns() == evidence.threshold.grace.count() &&
         reported.response() == to_string(evidence.threshold.response);
}

}  // namespace

Gauges::Gauge* Gauges::find(const Evidence& evidence) {
  Key key{evidence.threshold.signal, evidence.subject};
  const auto known = gauges_.find(key);
  if (known != gauges_.end()) return &known->second;
  if (gauges_.size() >= gauges_max_) return nullptr;
  Gauge& gauge = gauges_.emplace(std::move(key), Gauge(rows_max_)).first->second;
  gauge.facts.set_signal(std::string(to_string(evidence.threshold.signal)));
  gauge.facts.set_subject(text::to_utf8(evidence.subject));
  gauge.facts.set_unit(gauge_unit(evidence.threshold.signal));
  return &gauge;
}

void Gauges::take(std::int64_t at_us, const std::vector<Evidence>& evidence) {
  std::uint64_t refused = 0;
  for (const Evidence& each : evidence) {
    Gauge* gauge = find(each);
    if (gauge == nullptr) {
      ++refused;
      continue;
    }
    take_threshold(*gauge, at_us, each);
    // The other thresholds of the subject have the same value.
    const std::size_t rows = gauge->table.rows();
    if (rows > 0 && gauge->table.at_us(rows - 1) == at_us) continue;
    gauge->table.add_row(at_us);
    gauge->table.set(0, each.available);
    gauge->facts.set_capacity(each.capacity);
    if (rows == 0 || each.available < gauge->facts.least()) {
      gauge->facts.set_least(each.available);
      gauge->facts.set_least_at_us(at_us);
    }
  }
  refused_ = std::max(refused_, refused);
}

void Gauges::take_threshold(Gauge& gauge, std::int64_t at_us, const Evidence& evidence) {
  const std::int64_t limit = evidence.limit.value();
  if (limit > 0) {
    const double ratio = static_cast<double>(evidence.available) / static_cast<double>(limit);
    gauge.nearest = std::min(gauge.nearest, ratio);
  }
  auto& reported = *gauge.facts.mutable_thresholds();
  for (auto each = reported.rbegin(); each != reported.rend(); ++each) {
    if (!is_same(*each, evidence)) continue;
    each->set_to_us(at_us);
    return;
  }
  if (reported.size() == kThresholdsMax) return;
  internal::GaugeThreshold& added = *reported.Add();
  added.set_limit(limit);
  added.set_quantity(evidence.limit.text());
  added.set_grace_ns(evidence.threshold.grace.count());
  added.set_response(std::string(to_string(evidence.threshold.response)));
  added.set_from_us(at_us);
  added.set_to_us(at_us);
}

void Gauges::lose(std::int64_t at_us) {
  for (auto& [key, gauge] : gauges_) gauge.table.break_lines(at_us);
}

void Gauges::thin(std::size_t rows_wanted, const std::vector<std::int64_t>& moments,
                  std::int64_t around_us) {
  for (auto& [key, gauge] : gauges_) gauge.table.thin(rows_wanted, moments, around_us);
}

void Gauges::put(internal::Picture& out, std::size_t drawn, std::int64_t after_us) const {
  // What crossed a threshold comes first, then memory, and within each what came nearest: the first
  // one is the page's headline.
  struct OrderedGauge {
    bool crossed = false;
    bool is_memory = false;
    double nearest = 0;
    const Gauge* gauge = nullptr;
  };
  std::vector<OrderedGauge> order;
  for (const auto& [key, gauge] : gauges_) {
    const bool is_memory = resource_of(key.first) == Resource::memory;
    order.push_back({gauge.nearest < 1, is_memory, gauge.nearest, &gauge});
  }
  std::ranges::stable_sort(order, {}, [](const OrderedGauge& place) {
    return std::tuple(!place.crossed, !place.is_memory, place.nearest);
  });
  const std::size_t reported = std::min(drawn, order.size());
  for (std::size_t i = 0; i < reported; ++i) {
    internal::Gauge& gauge = *out.add_gauges();
    gauge = order[i].gauge->facts;
    order[i].gauge->table.put(*gauge.mutable_table(), after_us);
  }
  out.set_gauges_left_out(order.size() - reported + refused_);
}

}  // namespace forestall::picture
