// SPDX-License-Identifier: Apache-2.0
// A family of counters with one counter per combination of label values, all created at start.
// Counting is one atomic addition, without a lock.
#pragma once

#include <prometheus/metric_family.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forestall::exports {

struct Label {
  std::string name;
  std::vector<std::string> values;
};

// A label whose values are those of an enumeration with contiguous enumerators, in their order;
// to_string() is empty after the last one.
template <typename Enum>
Label label_of(std::string name) {
  Label label{std::move(name), {}};
  for (std::size_t i = 0; !to_string(static_cast<Enum>(i)).empty(); ++i) {
    label.values.emplace_back(to_string(static_cast<Enum>(i)));
  }
  return label;
}

template <typename Enum>
constexpr std::size_t place_of(Enum value) {
  return static_cast<std::size_t>(value);
}

// Thread rule: all members from any thread.
class CounterTable {
 public:
  // The index of a value for each label, in label order.
  using Places = std::span<const std::size_t>;
  // Whether a combination can occur. One that cannot is exported only once it was counted.
  using Possible = bool (*)(Places places);

  CounterTable(
      std::string name, std::string help, std::vector<Label> labels,
      Possible possible = [](Places) { return true; })
      : name_(std::move(name)),
        help_(std::move(help)),
        labels_(std::move(labels)),
        possible_(possible),
        counts_(combinations(labels_)) {}

  // REQUIRES: each is the index of a value of its label.
  void count(std::initializer_list<std::size_t> places) {
    std::size_t index = 0;
    std::size_t k = 0;
    for (const std::size_t place : places) index = index * labels_[k++].values.size() + place;
    counts_[index].fetch_add(1, std::memory_order_relaxed);
  }

  [[nodiscard]] prometheus::MetricFamily collect() const {
    prometheus::MetricFamily family{name_, help_, prometheus::MetricType::Counter, {}};
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const auto places = places_of(i);
      const std::uint64_t count = counts_[i].load(std::memory_order_relaxed);
      if (count == 0 && !possible_(places)) continue;
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.counter.value = static_cast<double>(count);
      for (std::size_t k = 0; k < labels_.size(); ++k) {
        metric.label.push_back({labels_[k].name, labels_[k].values[places[k]]});
      }
      std::ranges::sort(metric.label, {}, &prometheus::ClientMetric::Label::name);
    }
    return family;
  }

 private:
  static std::size_t combinations(const std::vector<Label>& labels) {
    std::size_t all = 1;
    for (const Label& label : labels) all *= label.values.size();
    return all;
  }

  [[nodiscard]] std::vector<std::size_t> places_of(std::size_t index) const {
    std::vector<std::size_t> places(labels_.size());
    for (std::size_t k = labels_.size(); k-- > 0; index /= labels_[k].values.size()) {
      places[k] = index % labels_[k].values.size();
    }
    return places;
  }

  const std::string name_;
  const std::string help_;
  const std::vector<Label> labels_;
  const Possible possible_;
  std::vector<std::atomic<std::uint64_t>> counts_;
};

}  // namespace forestall::exports
