// SPDX-License-Identifier: Apache-2.0
#include "exports/available_history.h"

#include <algorithm>

namespace forestall::exports {

std::optional<double> AvailableHistory::fall_per_second(const Evidence& evidence) {
  Series* series = series_of(evidence);
  if (series == nullptr) return std::nullopt;
  series->seen = true;
  if (evidence.pending_release > 0) {
    series->count = 0;
    return std::nullopt;
  }
  const Point now{evidence.at, evidence.available};
  std::optional<Point> before;
  for (std::size_t i = 0; i < series->count; ++i) {
    before = series->points[i];
    if (now.at - before->at <= kWindow) break;
  }
  keep(*series, now);
  if (!before || now.at - before->at < kSpanMin) return std::nullopt;
  const double span = std::chrono::duration<double>(now.at - before->at).count();
  return (static_cast<double>(before->available) - static_cast<double>(now.available)) / span;
}

std::optional<double> AvailableHistory::seconds_to_threshold(const Evidence& evidence) {
  const auto fall = fall_per_second(evidence);
  const double headroom =
      static_cast<double>(evidence.available) - static_cast<double>(evidence.limit.value());
  if (headroom < 0) return 0;
  if (!fall || *fall <= 0) return std::nullopt;
  return headroom / *fall;
}

void AvailableHistory::drop_unseen() {
  std::erase_if(series_, [](const Series& each) { return !each.seen; });
  for (Series& each : series_) each.seen = false;
}

AvailableHistory::Series* AvailableHistory::series_of(const Evidence& evidence) {
  const auto found = std::ranges::find_if(series_, [&](const Series& each) {
    return each.signal == evidence.threshold.signal && each.cgroup == evidence.cgroup &&
           each.capacity == evidence.capacity;
  });
  if (found != series_.end()) return &*found;
  if (series_.size() == series_.capacity()) return nullptr;
  Series& added = series_.emplace_back();
  added.signal = evidence.threshold.signal;
  added.cgroup = evidence.cgroup;
  added.capacity = evidence.capacity;
  return &added;
}

void AvailableHistory::keep(Series& series, const Point& point) {
  const bool first = series.count == 0;
  if (!first && point.at - series.points[series.count - 1].at < kSpacing) return;
  if (series.count == kPointsMax) {
    std::shift_left(series.points.begin(), series.points.end(), 1);
    --series.count;
  }
  series.points[series.count++] = point;
}

}  // namespace forestall::exports
