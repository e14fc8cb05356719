// SPDX-License-Identifier: Apache-2.0
// What `compat: fixed` changes against the descheduler, each by name. Without corrections every
// decision is the descheduler's.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace forestall::rebalance {

enum class Correction : std::uint8_t {
  evict_annotation,
  priority_threshold,
  min_replicas,
  anti_affinity,
  destination_taints,
  exact_caps,
  node_order,
  unlisted_resources,
  preferred_node,
  metric_rounding,
  scheduler_filters,
  room_first,
  leaving_pods,
  hidden_usage,
  destinations_below_target,
  unknown_usage,
  useful_moves,
  underutilized_destinations,
  waiting_moves,
  whole_drains,
};

struct CorrectionRow {
  Correction correction;
  std::string_view name;
  std::string_view effect;  // a sentence without its full stop
};

// In the order of the enumerators.
[[nodiscard]] std::span<const CorrectionRow> correction_table();

class Corrections {
 public:
  [[nodiscard]] static Corrections none() { return {}; }
  [[nodiscard]] static Corrections all();

  void add(Correction each) { set_.set(static_cast<std::size_t>(each)); }
  [[nodiscard]] bool has(Correction each) const {
    return set_.test(static_cast<std::size_t>(each));
  }
  [[nodiscard]] bool empty() const { return set_.none(); }

  friend bool operator==(const Corrections&, const Corrections&) = default;

 private:
  std::bitset<static_cast<std::size_t>(Correction::whole_drains) + 1> set_;
};

}  // namespace forestall::rebalance
