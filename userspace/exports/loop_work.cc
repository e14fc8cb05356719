// SPDX-License-Identifier: Apache-2.0
#include "exports/loop_work.h"

#include <utility>

namespace forestall::exports {
namespace {

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace

std::string_view to_string(LoopWork work) {
  switch (work) {
    case LoopWork::other: return "other";
    case LoopWork::events: return "events";
    case LoopWork::observe: return "observe";
    case LoopWork::candidates: return "candidates";
    case LoopWork::after_kill: return "after-kill";
    case LoopWork::rescan: return "rescan";
    case LoopWork::sample: return "sample";
    case LoopWork::rank: return "rank";
    case LoopWork::pin: return "pin";
    case LoopWork::arm: return "arm";
    case LoopWork::kill: return "kill";
    case LoopWork::ladder: return "ladder";
    case LoopWork::guard: return "guard";
    case LoopWork::report: return "report";
  }
  return "";
}

LoopWorkTally::LoopWorkTally() : LoopWorkTally(system_clock()) {}

void LoopWorkTally::begin(MonotonicTime now) {
  works_ = true;
  work_ = LoopWork::other;
  spent_.fill(Duration::zero());
  since_ = now;
}

LoopWork LoopWorkTally::turn_to(LoopWork work) {
  if (!works_ || work == work_) return work_;
  const MonotonicTime now = clock_.now();
  spent_[static_cast<std::size_t>(work_)] += now - since_;
  since_ = now;
  return std::exchange(work_, work);
}

LoopWorkTally::Stretch LoopWorkTally::end() {
  if (!works_) return {};
  spent_[static_cast<std::size_t>(work_)] += clock_.now() - since_;
  works_ = false;
  Stretch stretch;
  for (std::size_t i = 0; i < kLoopWorkCount; ++i) {
    stretch.length += spent_[i];
    if (spent_[i] <= stretch.of_most) continue;
    stretch.most = static_cast<LoopWork>(i);
    stretch.of_most = spent_[i];
  }
  const bool longest = stretch.length.count() > longest_ns_;
  for (std::size_t i = 0; i < kLoopWorkCount; ++i) {
    const std::int64_t ns = spent_[i].count();
    // Only this thread writes.
    if (ns > 0) counts_[i].total_ns = counts_[i].total_ns + ns;
    if (ns > counts_[i].longest_ns) counts_[i].longest_ns = ns;
    if (longest) counts_[i].in_longest_ns = ns;
  }
  if (longest) longest_ns_ = stretch.length.count();
  stretches_ = stretches_ + 1;
  return stretch;
}

LoopWorkTally::Summary LoopWorkTally::summary(LoopWork work) const {
  const Counts& counts = counts_[static_cast<std::size_t>(work)];
  return {Duration(counts.longest_ns.load()), Duration(counts.in_longest_ns.load()),
          Duration(counts.total_ns.load())};
}

std::optional<LogLine> long_stretch_line(const LoopWorkTally::Stretch& stretch) {
  if (stretch.length < LoopWorkTally::kLongStretch) return std::nullopt;
  LogLine line("long-stretch");
  line.field("took_us", stretch.length)
      .field("most", to_string(stretch.most))
      .field("most_us", stretch.of_most)
      .field("effect", "no other crossing was evaluated meanwhile");
  return line;
}

}  // namespace forestall::exports
