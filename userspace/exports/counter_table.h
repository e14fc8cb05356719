// SPDX-License-Identifier: Apache-2.0
// A family of counters with one counter per combination of label values, all created at start.
// Counting is one atomic addition, without the lock that a family takes to create a counter.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>

#include <cstddef>
#include <initializer_list>
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

// Thread rule: count() from any thread.
class CounterTable {
 public:
  // `family` must outlive the table.
  CounterTable(prometheus::Family<prometheus::Counter>& family, const std::vector<Label>& labels) {
    std::size_t all = 1;
    for (const Label& label : labels) {
      sizes_.push_back(label.values.size());
      all *= label.values.size();
    }
    for (std::size_t i = 0; i < all; ++i) {
      prometheus::Labels pairs;
      std::size_t rest = i;
      for (std::size_t k = labels.size(); k-- > 0; rest /= sizes_[k]) {
        pairs.emplace(labels[k].name, labels[k].values[rest % sizes_[k]]);
      }
      counters_.push_back(&family.Add(pairs));
    }
  }

  // Increments the counter at these indices, one per label in label order. REQUIRES: each is the
  // index of a value of its label.
  void count(std::initializer_list<std::size_t> places) const {
    std::size_t index = 0;
    std::size_t k = 0;
    for (const std::size_t place : places) index = index * sizes_[k++] + place;
    counters_[index]->Increment();
  }

 private:
  std::vector<std::size_t> sizes_;
  std::vector<prometheus::Counter*> counters_;
};

}  // namespace forestall::exports
