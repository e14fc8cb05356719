// SPDX-License-Identifier: Apache-2.0
// The counters of the BPF programs as of the last read, shared between the loop and the exports.
//
// The list of counters is fixed before the first reader starts, and each value is an atomic word:
// the loop, which runs at real time, shares no lock with a reader.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "model/bpf_counter.h"

namespace forestall::exports {

// Thread rule: set() from one thread, all else from any.
class BpfCounts {
 public:
  // Takes the values; the first call fixes the list.
  // REQUIRES: the first call is before another thread reads, and later ones have the same list.
  void set(std::span<const BpfCounter> counters) {
    if (names_.empty()) {
      names_.assign(counters.begin(), counters.end());
      values_.resize(names_.size());
    }
    for (std::size_t i = 0; i < names_.size(); ++i) values_[i] = counters[i].value;
  }

  [[nodiscard]] std::vector<BpfCounter> all() const {
    std::vector<BpfCounter> counters = names_;
    for (std::size_t i = 0; i < counters.size(); ++i) counters[i].value = values_[i];
    return counters;
  }

  // Of all objects and kinds.
  [[nodiscard]] std::uint64_t sum_of(std::string_view counter) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i].counter == counter) sum += values_[i];
    }
    return sum;
  }

 private:
  std::vector<BpfCounter> names_;
  std::deque<std::atomic<std::uint64_t>> values_;
};

}  // namespace forestall::exports
