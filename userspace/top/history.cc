// SPDX-License-Identifier: Apache-2.0
#include "top/history.h"

#include <algorithm>
#include <utility>

namespace forestall::top {
namespace {

// About a second: shorter intervals are joined, because the kernel counts memory in batches.
constexpr std::int64_t kChangeOverNs = 900'000'000;

template <typename Point>
void append(std::deque<Point>& line, Point point) {
  line.push_back(point);
  if (line.size() > History::kPointsMax) line.pop_front();
}

}  // namespace

void History::add_use(const internal::TopReport& report) {
  std::map<SignalOfSubject, double> now;
  for (const v1::Evidence& each : report.signals().signals()) {
    if (each.capacity() <= 0) continue;
    now[{each.subject(), each.threshold().signal()}] =
        1 - static_cast<double>(each.available()) / static_cast<double>(each.capacity());
  }
  for (auto& [subject, line] : use_) {
    if (!now.contains(subject)) append(line, std::optional<double>());
  }
  for (const auto& [subject, used] : now) append(use_[subject], std::optional(used));
  std::erase_if(use_, [](const auto& each) {
    return std::ranges::none_of(each.second, [](const auto& point) { return point.has_value(); });
  });
}

void History::add(const internal::TopReport& report) {
  if (report.at_ns() <= at_ns_) return;
  at_ns_ = report.at_ns();
  add_use(report);
  for (const internal::PressureShare& each : report.pressure()) {
    const auto line = std::ranges::find(lines_, each.resource(), &PressureTrend::resource);
    if (line == lines_.end()) continue;
    append(line->some, each.some());
    if (each.has_full()) append(line->full, each.full());
  }
  std::map<std::string, std::deque<Seen>> now;
  for (const internal::TopWorkload& each : report.workloads()) {
    if (!each.candidate().key().measured()) continue;
    const std::string& path = each.candidate().sample().workload().path();
    std::deque<Seen>& line = now[path];
    if (const auto before = seen_.find(path); before != seen_.end()) {
      line = std::move(before->second);
    }
    line.push_back({at_ns_, each.candidate().key().usage()});
    // Keeps one sample that is at least that old, if there is one.
    while (line.size() > 2 && at_ns_ - line[1].at_ns >= kChangeOverNs) line.pop_front();
  }
  seen_ = std::move(now);
}

const PressureTrend* History::pressure(std::string_view resource) const {
  const auto line = std::ranges::find(lines_, resource, &PressureTrend::resource);
  return line == lines_.end() || line->some.empty() ? nullptr : line;
}

const std::deque<std::optional<double>>* History::use_of(const v1::Evidence& each) const {
  const auto found = use_.find({each.subject(), each.threshold().signal()});
  return found == use_.end() ? nullptr : &found->second;
}

std::optional<double> History::change_of(const std::string& path) const {
  const auto found = seen_.find(path);
  if (found == seen_.end() || found->second.size() < 2) return std::nullopt;
  const Seen& first = found->second.front();
  const Seen& last = found->second.back();
  return static_cast<double>(last.working_set - first.working_set) /
         (static_cast<double>(last.at_ns - first.at_ns) / 1e9);
}

}  // namespace forestall::top
