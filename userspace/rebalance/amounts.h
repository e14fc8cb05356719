// SPDX-License-Identifier: Apache-2.0
// Amounts of Kubernetes resources, exact: billionths of a unit in 128 bits, as in model/quantity.h
// without the format of the text.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace forestall::rebalance {

using Nanos = __int128;

inline constexpr std::int64_t kNanosPerUnit = 1'000'000'000;
inline constexpr std::int64_t kNanosPerMilli = 1'000'000;

inline constexpr std::string_view kCpu = "cpu";
inline constexpr std::string_view kMemory = "memory";
inline constexpr std::string_view kPods = "pods";
// Bytes per second by which a measured use of memory grows.
inline constexpr std::string_view kGrowth = "growth";
// The resource of a usage that Prometheus reports.
inline constexpr std::string_view kMetricResource = "MetricResource";

// Names that a StringPool keeps are mostly the same bytes.
[[nodiscard]] inline bool is_same_resource(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.data() == b.data() || a == b);
}

// `nanos` in steps of `step` nanos, rounded away from zero, as apimachinery's Value() and
// MilliValue(); saturates.
[[nodiscard]] constexpr std::int64_t rounded(Nanos nanos, std::int64_t step) {
  const bool negative = nanos < 0;
  const Nanos size = negative ? -nanos : nanos;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const auto signed_of = [negative](std::int64_t value) { return negative ? -value : value; };
  // A division of 128 bits takes long. The powers of two in the step shorten nearly all amounts to
  // 64 bits.
  const int shift = std::countr_zero(static_cast<std::uint64_t>(step));
  if (const Nanos shortened = size >> shift; shortened < kMax) {
    const auto whole = static_cast<std::int64_t>(shortened);
    const std::int64_t odd = step >> shift;
    const bool exact = whole % odd == 0 && (shortened << shift) == size;
    return signed_of(whole / odd + (exact ? 0 : 1));
  }
  const Nanos steps = size / step + (size % step != 0 ? 1 : 0);
  return signed_of(steps > kMax ? kMax : static_cast<std::int64_t>(steps));
}

// As the cast, which takes long for 128 bits.
[[nodiscard]] constexpr double to_double(Nanos nanos) {
  // Nearly all amounts are multiples of a power of two, of which 64 bits are exact.
  constexpr int kShift = 11;
  const auto shortened = static_cast<std::int64_t>(nanos >> kShift);
  if (Nanos{shortened} * (1 << kShift) != nanos) return static_cast<double>(nanos);
  return static_cast<double>(shortened) * (1 << kShift);
}

// The number in which the descheduler computes with this resource: cpu in thousandths, all others
// in units.
[[nodiscard]] constexpr std::int64_t counted(std::string_view resource, Nanos nanos) {
  return rounded(nanos, resource == kCpu ? kNanosPerMilli : kNanosPerUnit);
}

// The inverse of counted().
[[nodiscard]] constexpr Nanos nanos_of(std::string_view resource, std::int64_t count) {
  return static_cast<Nanos>(count) * (resource == kCpu ? kNanosPerMilli : kNanosPerUnit);
}

struct Amount {
  std::string_view resource;
  Nanos nanos = 0;

  friend bool operator==(const Amount&, const Amount&) = default;
};

// A few resources with their amounts, in no particular order.
class Amounts {
 public:
  [[nodiscard]] const Amount* find(std::string_view resource) const {
    for (const Amount& each : list_) {
      if (is_same_resource(each.resource, resource)) return &each;
    }
    return nullptr;
  }
  // 0 if the resource is not listed.
  [[nodiscard]] Nanos of(std::string_view resource) const {
    const Amount* const found = find(resource);
    return found == nullptr ? 0 : found->nanos;
  }
  // The amount of `resource`, which is added with 0 if it is not listed.
  [[nodiscard]] Nanos& at(std::string_view resource) {
    for (Amount& each : list_) {
      if (is_same_resource(each.resource, resource)) return each.nanos;
    }
    list_.push_back({resource, 0});
    return list_.back().nanos;
  }
  void add(const Amounts& more) {
    for (const Amount& each : more.list_) at(each.resource) += each.nanos;
  }
  // Of each resource the larger amount.
  void raise_to(const Amounts& other) {
    for (const Amount& each : other.list_) {
      Nanos& mine = at(each.resource);
      mine = std::max(mine, each.nanos);
    }
  }
  void reserve(std::size_t resources) { list_.reserve(resources); }
  [[nodiscard]] bool empty() const { return list_.empty(); }
  [[nodiscard]] std::size_t size() const { return list_.size(); }
  [[nodiscard]] auto begin() const { return list_.begin(); }
  [[nodiscard]] auto end() const { return list_.end(); }

  friend bool operator==(const Amounts&, const Amounts&) = default;

 private:
  std::vector<Amount> list_;
};

}  // namespace forestall::rebalance
