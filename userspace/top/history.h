// SPDX-License-Identifier: Apache-2.0
// What the pictures so far leave behind: lines of pressure, and how fast each workload grows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "forestall/v1/top.pb.h"

namespace forestall::top {

// Pressure of one resource, oldest first, shares of 0 to 1.
struct PressureLine {
  std::string resource;
  std::deque<double> some = {};
  std::deque<double> full = {};  // empty: the kernel does not tell
};

class History {
 public:
  // More points than any terminal is wide.
  static constexpr std::size_t kPointsMax = 512;

  // REQUIRES: not earlier than the one before. The same one again changes nothing.
  void add(const v1::TopReport& report);

  // Null: never told.
  [[nodiscard]] const PressureLine* pressure(std::string_view resource) const;
  // By how much its working set changed over the last five seconds, or as long as it is known,
  // bytes per second; nothing: seen once only.
  [[nodiscard]] std::optional<double> change_of(const std::string& path) const;

 private:
  struct Seen {
    std::int64_t at_ns = 0;
    std::int64_t working_set = 0;
  };
  std::array<PressureLine, 3> lines_{PressureLine{"memory"}, PressureLine{"io"},
                                     PressureLine{"cpu"}};
  std::map<std::string, std::deque<Seen>> seen_;  // by path, oldest first
  std::int64_t at_ns_ = 0;
};

}  // namespace forestall::top
