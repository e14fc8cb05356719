// SPDX-License-Identifier: Apache-2.0
// History of the samples: lines of pressure, the use of what each threshold limits, and the growth
// of each workload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "forestall/internal/top.pb.h"

namespace forestall::top {

// Pressure of one resource, oldest first, as shares from 0 to 1.
struct PressureTrend {
  std::string resource;
  std::deque<double> some = {};
  std::deque<double> full = {};  // empty: the kernel does not report it
};

class History {
 public:
  // Wider than any terminal.
  static constexpr std::size_t kPointsMax = 512;

  // REQUIRES: not earlier than the last one. The same sample again has no effect.
  void add(const internal::TopReport& report);

  // Null: never reported.
  [[nodiscard]] const PressureTrend* pressure(std::string_view resource) const;
  // The used part of the capacity of its subject and signal, oldest first, usually from 0 to 1. A
  // sample without a value has none. Null: never known.
  [[nodiscard]] const std::deque<std::optional<double>>* use_of(const v1::Evidence& each) const;
  // Change of its working set over the last interval, or over the last few if they are shorter than
  // a second, in bytes per second. Nothing: sampled only once.
  [[nodiscard]] std::optional<double> change_of(const std::string& path) const;

 private:
  struct Seen {
    std::int64_t at_ns = 0;
    std::int64_t working_set = 0;
  };
  std::array<PressureTrend, 3> lines_{PressureTrend{"memory"}, PressureTrend{"io"},
                                      PressureTrend{"cpu"}};
  using SignalOfSubject = std::pair<std::string, std::string>;  // with a signal
  void add_use(const internal::TopReport& report);

  std::map<SignalOfSubject, std::deque<std::optional<double>>> use_;
  std::map<std::string, std::deque<Seen>> seen_;  // by path, oldest first
  std::int64_t at_ns_ = 0;
};

}  // namespace forestall::top
