// SPDX-License-Identifier: Apache-2.0
#include "agent/line_armer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "policy/capacity_lines.h"
#include "policy/damage_limit.h"
#include "policy/lines.h"
#include "policy/warning.h"

namespace forestall::agent {
namespace {

// A line nearer than this to the present usage would fire before the loop is back in epoll: memcg
// charges come in batches of 64 pages per CPU (mm/memcontrol.c MEMCG_CHARGE_BATCH), so usage itself
// is no finer.
constexpr Bytes kNearestLine = kib(256);

// Lines that are not met are moved far enough away not to fire at once. Sources get those that are
// met unchanged, and do not report a line twice.
std::vector<Line> armable(std::vector<Line> lines) {
  for (Line& line : lines) {
    if (line.headroom.count <= 0) continue;
    line.headroom = std::max(line.headroom, kNearestLine);
    line.usage_line = std::max(line.usage_line, line.usage + kNearestLine);
  }
  return lines;
}

// While a kill is held back, the line of its threshold is where that is decided again.
void move_past_threshold(const Decision& decision, std::vector<Line>& lines) {
  if (!policy::is_held_back(decision.reason)) return;
  const Evidence& driving = decision.evidence[*decision.driving];
  const Bytes further = driving.limit.bytes() - policy::decided_again_at(driving);
  for (Line& line : lines) {
    if (line.cgroup != driving.cgroup || line.signal != driving.threshold.signal) continue;
    if (line.headroom.count > 0 || line.headroom + further <= Bytes{0}) continue;
    line.headroom += further;
    line.usage_line += further;
    line.floor_line += further;
  }
}

// Headroom where no line is armed.
constexpr Bytes kFar = gib(1024);

// Above the first warning line, which wakes the loop long before the threshold.
bool is_far(const Line& line) {
  return !policy::in_warning_zone(line.headroom, policy::warning_margin(line.capacity));
}

// A threshold on the node or on the pods without a line is met, or a reading is missing. A host
// without pods has no line of theirs.
bool has_all_lines(const Config& config, const Observation& observation,
                   const std::vector<Line>& lines) {
  return std::ranges::all_of(config.thresholds, [&](const Threshold& threshold) {
    if (!has_usage_line(threshold.signal)) return true;
    const bool on_node = row_of(threshold.signal).subject == SubjectKind::node;
    if (!on_node && !observation.pods) return true;
    const auto found = std::ranges::count_if(lines, [&](const Line& line) {
      return line.signal == threshold.signal && (line.cgroup == CgroupId{}) == on_node;
    });
    return found >= std::ranges::count(config.thresholds, threshold.signal, &Threshold::signal);
  });
}

// `followed`: the lines that the kernel reports however the memory moves.
std::optional<Bytes> hint_headroom(const Config& config, const Observation& observation,
                                   const std::vector<Line>& lines,
                                   const std::vector<Line>& followed) {
  const bool needs_none = followed.size() == lines.size() && std::ranges::all_of(lines, is_far) &&
                          has_all_lines(config, observation, lines);
  if (needs_none) return std::nullopt;
  Bytes nearest = kFar;
  for (const Line& line : lines) {
    if (line.headroom > Bytes{0}) nearest = std::min(nearest, line.headroom);
  }
  return nearest;
}

}  // namespace

ArmedLines LineArmer::arm(const Config& config, const Observation& observation,
                          const Decision& decision, MonotonicTime now) {
  std::vector<Line> lines = policy::lines(config, observation);
  move_past_threshold(decision, lines);
  lines = armable(std::move(lines));
  std::vector<std::string> problems;
  for (const SourceNote& note : observation.notes) problems.push_back(ProblemLog::text_of(note));
  bool watched = false;      // every line, by the kernel
  std::vector<Line> unseen;  // by the BPF programs
  std::vector<Line> followed;
  const auto capacity_lines = policy::capacity_lines(decision);
  for (sources::Source* source : sources_) {
    source->watch(capacity_lines, now);
    const bool polls = source->feature() == Feature::poll;
    auto armed = source->arm(polls && watched ? unseen : lines, now);
    if (source->feature() == Feature::bpf) {
      watched = has_usage_events_ && armed && armed->empty();
      std::ranges::copy_if(lines, std::back_inserter(unseen),
                           [&](const Line& line) { return !source->covers(line); });
      if (watched) {
        std::ranges::copy_if(lines, std::back_inserter(followed),
                             [&](const Line& line) { return source->follows(line); });
      }
    }
    if (!armed) {
      problems.push_back(std::string(to_string(source->feature())) + ": " + armed.error().text());
      continue;
    }
    for (std::string& problem : *armed) problems.push_back(std::move(problem));
  }
  problems_.report(std::move(problems));
  const auto headroom = hint_headroom(config, observation, lines, followed);
  return {std::move(lines), headroom};
}

}  // namespace forestall::agent
