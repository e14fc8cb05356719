// SPDX-License-Identifier: Apache-2.0
// The evaluations that later records of a recording may refer to. The parts that are shown are
// kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "model/record.h"

namespace forestall::picture {

// Thread rule: one thread.
class RecentEvaluations {
 public:
  // `candidates`: kept of each decision; more up to the victim.
  explicit RecentEvaluations(std::size_t candidates) : candidates_(candidates) {}

  // `number` ascends until forget().
  void add(std::uint64_t number, const Record& evaluated);
  // Another run of the agent numbers its evaluations anew: no record refers to earlier ones.
  void forget();
  // Whether a record that refers to this evaluation can be completed. 0: it refers to none.
  [[nodiscard]] bool has(std::uint64_t number) const {
    return number == 0 || find(number) != nullptr;
  }
  // The shown parts of a record, with the observation and the decision of the evaluation that it
  // refers to, if that one is kept. Counts candidates that are left out.
  [[nodiscard]] Record completed(std::uint64_t number, const Record& record,
                                 std::uint64_t& left_out) const;

 private:
  struct Seen {
    std::uint64_t number = 0;
    Record evaluated;  // the parts that are shown
    std::uint64_t left_out = 0;
  };

  [[nodiscard]] const Seen* find(std::uint64_t number) const;
  [[nodiscard]] Record trimmed(const Record& record, std::uint64_t& left_out) const;

  std::size_t candidates_;
  std::deque<Seen> kills_;   // evaluations that killed
  std::deque<Seen> others_;  // the last other evaluations
};

}  // namespace forestall::picture
