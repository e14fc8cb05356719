// SPDX-License-Identifier: Apache-2.0
#include "exports/stage_histograms.h"

#include <algorithm>
#include <limits>

namespace forestall::exports {
namespace {

constexpr std::array<int, 10> kDecade{10, 12, 15, 20, 25, 30, 40, 50, 60, 80};

// `percent` percent of `all`, rounded up.
std::uint64_t share_of(std::uint64_t all, std::uint64_t percent) {
  return all / 100 * percent + (all % 100 * percent + 99) / 100;
}

}  // namespace

const std::array<Duration, StageHistograms::kBounds>& StageHistograms::bounds() {
  static const auto kAll = [] {
    std::array<Duration, kBounds> all{};
    std::int64_t unit_ns = 1000;
    for (std::size_t i = 0; i < kBounds; ++i) {
      all[i] = Duration(kDecade[i % kDecade.size()] * unit_ns);
      if (i % kDecade.size() == kDecade.size() - 1) unit_ns *= 10;
    }
    return all;
  }();
  return kAll;
}

void StageHistograms::write(const Record& record) {
  if (!record.outcome) return;
  const auto known = std::ranges::find(stuck_, record.sequence, &Stuck::record);
  std::array<bool, kStageCount> counted{};
  if (known != stuck_.end()) counted = known->counted;
  const StageLengths lengths = stage_lengths(record);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    if (!lengths[i] || counted[i]) continue;
    count(static_cast<Stage>(i), *lengths[i]);
    counted[i] = true;
  }
  if (known != stuck_.end()) stuck_.erase(known);
  if (record.outcome->state != KillState::stuck) return;
  if (stuck_.size() == kStuckMax) stuck_.erase(stuck_.begin());
  stuck_.push_back({record.sequence, counted});
}

void StageHistograms::count(Stage stage, Duration length) {
  Counts& counts = stages_[static_cast<std::size_t>(stage)];
  const auto bound = std::ranges::lower_bound(bounds(), length);
  counts.within[static_cast<std::size_t>(bound - bounds().begin())].fetch_add(1);
  const std::int64_t ns = std::max<std::int64_t>(length.count(), 0);
  // Only the loop adds. A sum that would overflow stays unchanged.
  const std::int64_t sum = counts.sum_ns;
  counts.sum_ns = sum > std::numeric_limits<std::int64_t>::max() - ns ? sum : sum + ns;
  if (ns > counts.max_ns) counts.max_ns = ns;
}

std::uint64_t StageHistograms::within(Stage stage, Duration bound) const {
  const Counts& counts = stages_[static_cast<std::size_t>(stage)];
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBounds && bounds()[i] <= bound; ++i) sum += counts.within[i];
  return sum;
}

StageSummary StageHistograms::summary(Stage stage) const {
  const Counts& counts = stages_[static_cast<std::size_t>(stage)];
  std::array<std::uint64_t, kBounds + 1> within{};
  StageSummary reported;
  reported.stage = stage;
  for (std::size_t i = 0; i < within.size(); ++i) {
    within[i] = counts.within[i];
    reported.count += within[i];
  }
  reported.sum = Duration(counts.sum_ns.load());
  reported.max = Duration(counts.max_ns.load());
  const auto quantile = [&](std::uint64_t percent) {
    std::uint64_t left = share_of(reported.count, percent);
    for (std::size_t i = 0; i < kBounds; ++i) {
      if (within[i] >= left) return std::min(bounds()[i], reported.max);
      left -= within[i];
    }
    return reported.max;
  };
  if (reported.count == 0) return reported;
  reported.p50 = quantile(50);
  reported.p90 = quantile(90);
  reported.p99 = quantile(99);
  return reported;
}

}  // namespace forestall::exports
