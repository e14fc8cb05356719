// SPDX-License-Identifier: Apache-2.0
#include "picture/spans.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "text/utf8.h"

namespace forestall::picture {
namespace {

// "memory.available<100Mi", followed by the path of a cgroup.
std::string name_of(const Evidence& evidence) {
  std::string name(to_string(evidence.threshold.signal));
  name += "<" + evidence.limit.text();
  if (evidence.cgroup != CgroupId{}) name += " of " + text::to_utf8(evidence.subject);
  return name;
}

}  // namespace

void Spans::take(std::int64_t at_us, const Decision& decision) {
  for (Open& each : open_) each.still = false;
  for (const ConditionStatus& each : decision.conditions) {
    if (each.status)
      extend(internal::Span::CONDITION, std::string(to_string(each.condition)), at_us);
  }
  for (const Evidence& each : decision.evidence) {
    if (each.met)
      extend(each.driving ? internal::Span::MET : internal::Span::GRACE, name_of(each), at_us);
  }
  std::erase_if(open_, [&](const Open& each) {
    if (!each.still) spans_[each.span].set_to_us(at_us);
    return !each.still;
  });
}

void Spans::extend(internal::Span::Kind kind, std::string name, std::int64_t at_us) {
  for (Open& each : open_) {
    if (each.kind != kind || each.name != name) continue;
    each.still = true;
    spans_[each.span].set_to_us(at_us);
    return;
  }
  // Open spans cannot be dropped. With at most half of all, there is always room for a new one. A
  // node may have a threshold per workload, and the loop of a running agent waits for this.
  if (open_.size() >= spans_max_ / 2) return;
  make_room();
  internal::Span span;
  span.set_kind(kind);
  span.set_name(name);
  span.set_from_us(at_us);
  span.set_to_us(at_us);
  spans_.push_back(std::move(span));
  open_.push_back({kind, std::move(name), spans_.size() - 1, true});
}

// Drops the shorter half of the finished spans, which are the least visible.
void Spans::make_room() {
  if (spans_.size() < spans_max_) return;
  std::vector<std::int64_t> lengths;
  for (const internal::Span& each : spans_) lengths.push_back(each.to_us() - each.from_us());
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::ranges::nth_element(lengths, middle);
  std::vector<internal::Span> kept;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const auto open = std::ranges::find(open_, i, &Open::span);
    const bool is_long = spans_[i].to_us() - spans_[i].from_us() > *middle;
    if (open == open_.end() && !is_long) continue;
    // Never larger than the index before: spans after it are still found by their old index.
    if (open != open_.end()) open->span = kept.size();
    kept.push_back(std::move(spans_[i]));
  }
  spans_ = std::move(kept);
}

void Spans::lose(std::int64_t from_us, std::int64_t to_us) {
  open_.clear();
  make_room();
  internal::Span span;
  span.set_kind(internal::Span::LOST);
  span.set_from_us(from_us);
  span.set_to_us(to_us);
  spans_.push_back(std::move(span));
}

void Spans::put(internal::Picture& out, std::int64_t after_us) const {
  for (const internal::Span& each : spans_) {
    if (each.to_us() >= after_us) *out.add_spans() = each;
  }
}

void WakeTimes::take(std::int64_t at_us, WakeSource source) {
  auto found = std::ranges::find(times_, source, &Times::source);
  if (found == times_.end()) {
    times_.push_back({source, 0, {}});
    found = times_.end() - 1;
  }
  ++found->count;
  auto& times = found->at_us;
  if (times.size() >= times_max_) {
    // Keeps every second one.
    for (std::size_t i = 0; i < times.size() / 2; ++i) times[i] = times[2 * i];
    times.resize(times.size() / 2);
  }
  times.push_back(at_us);
}

void WakeTimes::put(internal::Picture& out, std::int64_t after_us, std::int64_t apart_us) const {
  for (const Times& each : times_) {
    internal::Wakes& reported = *out.add_wakes();
    reported.set_source(std::string(to_string(each.source)));
    reported.set_count(each.count);
    std::int64_t last = std::numeric_limits<std::int64_t>::min() / 2;
    for (const std::int64_t at : each.at_us) {
      if (at <= after_us || at - last < apart_us) continue;
      reported.add_at_us(at);
      last = at;
    }
  }
}

}  // namespace forestall::picture
