// SPDX-License-Identifier: Apache-2.0
#include "policy/plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "policy/plan_advice.h"
#include "policy/quantity_sum.h"

namespace forestall::policy {
namespace {

constexpr __int128 kUnit = 1'000'000'000;  // nanos of one
constexpr __int128 kMi = kUnit << 20;
constexpr __int128 kGi = kUnit << 30;

Quantity difference(const Quantity& a, const Quantity& b) {
  return sum(a, Quantity{-b.nanos, b.format});
}

Quantity floored(const Quantity& quantity) {
  return quantity.nanos < 0 ? Quantity{0, quantity.format} : quantity;
}

// The amount kept free by the hard threshold of `signal`. The last one counts, since kubelet does
// not subtract repeatedly (hardEvictionReservation).
Quantity hard_amount(const PlanInput& input, Signal signal, const Quantity& capacity) {
  Quantity amount{0, capacity.format};
  for (const PlannedThreshold& each : input.thresholds) {
    if (each.from_hard && each.threshold.signal == signal) {
      amount = each.threshold.limit.of(capacity.value());
    }
  }
  return amount;
}

struct Row {
  const char* name;
  std::optional<Quantity> NodeCapacity::*capacity;
  std::optional<Quantity> Reserved::*reserved;
  std::optional<Signal> eviction;
  bool limits_pods;  // whether the pods cgroup has a limit on it
};

constexpr std::array kRows{
    Row{"cpu", &NodeCapacity::cpu, &Reserved::cpu, std::nullopt, true},
    Row{"memory", &NodeCapacity::memory, &Reserved::memory, Signal::memory_available, true},
    Row{"ephemeral-storage", &NodeCapacity::ephemeral_storage, &Reserved::ephemeral_storage,
        Signal::nodefs_available, false},
    Row{"pid", &NodeCapacity::pids, &Reserved::pids, std::nullopt, true},
    Row{"pods", &NodeCapacity::pods, nullptr, std::nullopt, false}};

ResourcePlan resource_plan(const PlanInput& input, const Row& row, std::vector<Advice>& errors) {
  ResourcePlan out;
  out.name = row.name;
  out.capacity = *(input.capacity.*row.capacity);
  const Quantity nothing{0, out.capacity.format};
  out.kube_reserved = out.system_reserved = out.eviction = nothing;
  if (row.reserved != nullptr) {
    out.kube_reserved = (input.kube_reserved.*row.reserved).value_or(nothing);
    out.system_reserved = (input.system_reserved.*row.reserved).value_or(nothing);
  }
  if (row.eviction) out.eviction = hard_amount(input, *row.eviction, out.capacity);
  if (out.name == "memory") out.huge_pages = input.capacity.huge_pages;
  const Quantity kept = sum(out.kube_reserved, out.system_reserved);
  const Quantity reservation = sum(kept, out.eviction);
  const Quantity left = difference(difference(out.capacity, reservation), out.huge_pages);
  out.allocatable = floored(left);
  if (row.limits_pods) {
    out.pods_limit = input.pods_enforced ? floored(difference(out.capacity, kept)) : out.capacity;
  }
  if (reservation > out.capacity) {
    errors.push_back({Severity::error, "reservation-exceeds-capacity",
                      "resource \"" + out.name + "\" has a reservation of " + written(reservation) +
                          " (kube-reserved, system-reserved and the hard threshold) but a capacity "
                          "of " +
                          written(out.capacity) + "; kubelet does not start"});
  }
  return out;
}

// Rounded down to a multiple of 100Mi; of 10Mi or 1Mi if that would remove too much.
__int128 people_size_below(__int128 nanos) {
  for (const __int128 step : {100 * kMi, 10 * kMi, kMi}) {
    if (nanos >= 5 * step) return nanos / step * step;
  }
  return nanos;
}

// Rounded up to a tenth of a gibibyte; below one to 10Mi.
__int128 people_size_above(__int128 nanos) {
  // Tenths of 2^30 are not whole numbers of bytes; only their written form matters.
  if (nanos >= kGi) return (nanos * 10 + kGi - 1) / kGi * kGi / 10;
  return (nanos + 10 * kMi - 1) / (10 * kMi) * (10 * kMi);
}

std::string decimal_tenths(__int128 tenths) {
  const auto count = static_cast<long long>(tenths);
  const std::string whole = std::to_string(count / 10);
  return count % 10 == 0 ? whole : whole + "." + std::to_string(count % 10);
}

}  // namespace

Plan plan(const PlanInput& input) {
  Plan out;
  for (const Row& row : kRows) {
    if (!(input.capacity.*row.capacity)) continue;
    out.resources.push_back(resource_plan(input, row, out.advice));
    if (row.capacity != &NodeCapacity::memory) continue;
    const ResourcePlan& memory = out.resources.back();
    if (memory.eviction.nanos == 0) continue;
    out.node_evicts_above = floored(difference(memory.capacity, memory.eviction));
    if (input.pods_enforced) {
      out.pods_evicted_above = floored(difference(*memory.pods_limit, memory.eviction));
    }
  }
  const std::vector<Advice> more = plan_advice(input, out);
  for (const Severity severity : {Severity::warning, Severity::note}) {
    std::copy_if(more.begin(), more.end(), std::back_inserter(out.advice),
                 [&](const Advice& each) { return each.severity == severity; });
  }
  return out;
}

Quantity Portion::of(const Quantity& capacity) const {
  if (amount) return *amount;
  // In whole units first: both are far below 10^19, so their product fits.
  const __int128 whole = capacity.nanos / kUnit * (percent->nanos / 1000);
  return {whole / 100 * 1000, capacity.format};
}

Quantity memory_threshold(const Quantity& capacity, const Portion& evict_at) {
  const Quantity kept = difference(capacity, evict_at.of(capacity));
  return {people_size_below(kept.nanos), QuantityFormat::binary_si};
}

Quantity memory_reservation(const Quantity& capacity, const Portion& reserve,
                            const Quantity& kept) {
  const Quantity both = sum(reserve.of(capacity), kept);
  return {people_size_above(both.nanos), QuantityFormat::binary_si};
}

std::string written(const Quantity& quantity) {
  if (quantity.format == QuantityFormat::binary_si && quantity.nanos >= kGi &&
      quantity.nanos * 10 / kGi < 1'000'000'000) {
    const __int128 tenths = (quantity.nanos * 10 + kGi / 2) / kGi;
    if (tenths * kGi / 10 == quantity.nanos) return decimal_tenths(tenths) + "Gi";
  }
  return quantity.text();
}

std::string limit_text(const Limit& limit) {
  if (limit.quantity) return written(*limit.quantity);
  // Six digits: a 32-bit 0.15 times 100 is not quite 15.
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                 *limit.fraction * 100, std::chars_format::general, 6);
  return std::string(digits.data(), end.ptr) + "%";
}

std::string_view severity_word(Severity severity) {
  switch (severity) {
    case Severity::error: return "error";
    case Severity::warning: return "warning";
    case Severity::note: break;
  }
  return "note";
}

std::string rounded(const Quantity& quantity) {
  // "14.5" of CPUs rather than "14500m".
  if (quantity.format == QuantityFormat::decimal_si && quantity.nanos > kUnit &&
      quantity.nanos < 1000 * kUnit && quantity.nanos % (kUnit / 10) == 0) {
    return decimal_tenths(quantity.nanos / (kUnit / 10));
  }
  if (quantity.format != QuantityFormat::binary_si || quantity.nanos < kMi) {
    return written(quantity);
  }
  const __int128 unit = quantity.nanos >= kGi ? kGi : kMi;
  const __int128 tenths =
      (quantity.nanos / unit * 10) + (quantity.nanos % unit * 10 + unit / 2) / unit;
  return decimal_tenths(tenths) + (unit == kGi ? "Gi" : "Mi");
}

}  // namespace forestall::policy
