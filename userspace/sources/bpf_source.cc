// SPDX-License-Identifier: Apache-2.0
#include "sources/bpf_source.h"

#include <algorithm>
#include <utility>

#include "kernel/cgroup_path.h"
#include "sources/oom_event.h"

namespace forestall::sources {
namespace {

// The wake for an event; nullopt for events that stay in the ring for other readers.
std::optional<WakeSource> wake_source(std::uint32_t kind) {
  switch (kind) {
    case ABI_EVENT_usage_timer: return WakeSource::usage_timer;
    case ABI_EVENT_charge: return WakeSource::charge;
    case ABI_EVENT_reclaim:
    case ABI_EVENT_kswapd: return WakeSource::reclaim;
    case ABI_EVENT_stall: return WakeSource::stall;
    case ABI_EVENT_oom_kill: return WakeSource::oom_kill;
    case ABI_EVENT_oom_last_call: return WakeSource::oom_last_call;
    case ABI_EVENT_workload_change: return WakeSource::workload_change;
    default: return std::nullopt;
  }
}

bool is_crossing(std::uint32_t kind) {
  return kind == ABI_EVENT_usage_timer || kind == ABI_EVENT_charge;
}

bool is_of_node(CgroupId subject) {
  return subject == CgroupId{} || subject == kernel::kNodeTaken;
}

bool is_on_meminfo(const Line& line) {
  return row_of(line.signal).watch == SignalWatch::meminfo;
}

// What memory moves between two readings right after another.
constexpr Bytes kDoubt = mib(16);

Bytes bytes_of(std::uint64_t amount) {
  return Bytes{static_cast<std::int64_t>(amount)};
}

SourceReadings::Reading reading(std::uint64_t at_ns, std::uint64_t amount) {
  return {from_ns(static_cast<std::int64_t>(at_ns)), Bytes{static_cast<std::int64_t>(amount)}};
}

}  // namespace

bool BpfSource::has_counter(const Line& line) const {
  return !line.with_swap && programs_.shows_available();
}

bool BpfSource::covers(const Line& line) const {
  return !is_on_meminfo(line) || (has_counter(line) && !doubts_taken_);
}

bool BpfSource::follows(const Line& line) const {
  return is_of_node(line.cgroup) && covers(line);
}

CgroupId BpfSource::subject_of(const Line& line) const {
  return is_on_meminfo(line) && has_counter(line) ? kernel::kNodeTaken : line.cgroup;
}

std::vector<std::string> BpfSource::take_subjects(const std::map<CgroupId, Line>& lowest) {
  std::vector<std::string> notes;
  std::erase_if(subjects_, [&](const auto& entry) { return !lowest.contains(entry.first); });
  for (const auto& [id, line] : lowest) {
    if (subjects_.contains(id)) continue;
    SubjectState subject;
    if (!is_of_node(id)) {
      Result<kernel::CgroupDir> directory = tree_.open(line.path);
      if (!directory.ok()) {
        notes.push_back(directory.error().text());
        continue;
      }
      if (directory->id() != id) {
        notes.push_back(line.path + ": removed and created again since it was observed");
        continue;
      }
      subject.directory = std::move(directory).value();
    }
    subjects_.emplace(id, std::move(subject));
  }
  return notes;
}

void BpfSource::take_observed(std::span<const Line> lines) {
  node_observed_.reset();
  for (const Line& line : lines) {
    if (line.cgroup.inode != 0) continue;
    if (row_of(line.signal).measure == Measure::working_set) {
      node_observed_ = line.floor_line - line.headroom;
    } else if (subject_of(line) == kernel::kNodeTaken) {
      taken_.shift = line.capacity - bytes_of(ABI_TAKEN_ORIGIN);
    }
  }
}

// The programs sum the node's counters, the observer reads a file, and the two differ by per-CPU
// remainders. The line is therefore placed relative to the current counter.
Result<Bytes> BpfSource::place_working_set(Bytes distance) {
  const abi_node_usage usage = TRY(programs_.node_usage());
  const Bytes counter = bytes_of(abi_node_working_set(&usage));
  working_set_.differs.reset();
  if (node_observed_) {
    working_set_.differs = std::max(counter - *node_observed_, *node_observed_ - counter);
  }
  return counter + distance;
}

// What was taken since the observation brings the line nearer. It fires at once if it is met by
// now.
Result<Bytes> BpfSource::place_taken(const Line& line, bool still_met) {
  const kernel::NodeTaken now = TRY(programs_.node_taken());
  taken_.differs = now.apart();
  doubts_taken_ = now.apart() > kDoubt;
  if (still_met) return now.counter + kGrowthStep;
  const Bytes taken = line.capacity - now.available;
  return now.counter + (line.floor_line - line.warning.value_or(Bytes{0}) - taken);
}

Result<Bytes> BpfSource::place(CgroupId id, const SubjectState& subject, const Line& line) {
  const bool met = line.headroom <= Bytes{0};
  // Already reported and still met: only further growth is reported. The step counts from the last
  // report, so that slow growth adds up.
  const bool still_met = met && subject.met && subject.line.has_value();
  if (still_met && !subject.fired) return *subject.line;
  if (id == kernel::kNodeTaken) return place_taken(line, still_met);
  if (id == CgroupId{}) return place_working_set(still_met ? kGrowthStep : line.distance());
  return still_met ? line.usage + kGrowthStep : line.usage_line - line.warning.value_or(Bytes{0});
}

Result<std::vector<std::string>> BpfSource::arm(std::span<const Line> lines, MonotonicTime) {
  std::map<CgroupId, Line> lowest;
  take_observed(lines);
  for (const Line& line : lines) {
    const auto [entry, fresh] = lowest.try_emplace(subject_of(line), line);
    if (!fresh && line.distance() < entry->second.distance()) entry->second = line;
  }
  std::vector<std::string> notes = take_subjects(lowest);
  std::vector<kernel::BpfWatch> watches;
  std::vector<const Line*> watched;
  for (auto& [id, subject] : subjects_) {
    const Line& line = lowest.at(id);
    const Result<Bytes> placed = place(id, subject, line);
    if (!placed.ok()) {
      notes.push_back(placed.error().in(line.path).text());
      continue;
    }
    subject.line = *placed;
    subject.met = line.headroom <= Bytes{0};
    subject.fired = false;
    watches.push_back({id, subject.directory ? subject.directory->fd() : -1, *placed});
    watched.push_back(&line);
  }
  for (const std::size_t index : TRY(programs_.watch(watches))) {
    notes.push_back(watched[index]->path + ": not watched by BPF: its memory cgroup was not found");
  }
  return notes;
}

void BpfSource::add_crossing(SourceReadings seen, std::vector<SourceReadings>& to) const {
  if (is_of_node(seen.cgroup)) {
    // The counter is not what the observer reads: the line was placed by the difference, which
    // includes what was charged between the two.
    const bool taken = seen.cgroup == kernel::kNodeTaken;
    const NodeCounter& node = taken ? taken_ : working_set_;
    if (!node.differs) return;
    using Measured = SourceReadings::Measured;
    seen.cgroup = CgroupId{};
    seen.measured = taken ? Measured::not_left : Measured::working_set;
    seen.before.amount += node.shift + *node.differs;
    seen.after->amount += node.shift - *node.differs;
  }
  to.push_back(seen);
}

void BpfSource::take_crossing(const abi_event& event) {
  const auto subject = subjects_.find(CgroupId{event.cgroup});
  if (subject == subjects_.end()) return;
  subject->second.fired = true;
  SourceReadings seen;
  seen.cgroup = subject->first;
  seen.by = CrossingOrigin::kernel;
  seen.before = reading(event.read_ns, event.read_usage);
  seen.after = reading(event.at_ns, event.usage);
  if (event.read_ns != 0) add_crossing(seen, crossings_);
  if (event.kind != ABI_EVENT_charge) return;
  // The hook runs within microseconds: until this charge, usage was below the line.
  seen.before = reading(event.at_ns, event.line - 1);
  seen.by = CrossingOrigin::charge;
  add_crossing(seen, crossings_);
}

std::vector<SourceReadings> BpfSource::last_readings() const {
  std::vector<SourceReadings> seen;
  for (const auto& [id, subject] : subjects_) {
    const abi_readings last = programs_.last_readings(id);
    for (const abi_reading& each : {last.below, last.reached}) {
      if (each.begin_ns == 0) continue;
      add_crossing({.cgroup = id,
                    .by = CrossingOrigin::kernel,
                    .before = reading(each.begin_ns, each.usage),
                    .after = reading(each.end_ns, each.usage)},
                   seen);
    }
  }
  return seen;
}

void BpfSource::take_kill(const abi_event& event, DrainPaths& paths) {
  OomKillEvent kill = to_event(*abi_oom_kill_of(&event));
  // The domain first: thresholds apply to it.
  kill.domain_path = paths.find(kill.domain);
  kill.path = paths.find(kill.cgroup);
  if (kills_.size() >= kKillsMax) kills_.erase(kills_.begin());
  kills_.push_back(std::move(kill));
}

void BpfSource::drain(MonotonicTime, std::vector<Wake>& wakes) {
  // The path of a removed cgroup, or of one that only privileges would show, stays unknown.
  DrainPaths paths(
      [this](CgroupId id) { return kernel::cgroup_path(tree_, id).optional().value_or(""); });
  programs_.drain([&](const abi_event& event) {
    const std::optional<WakeSource> source = wake_source(event.kind);
    if (!source) return;
    Wake wake{*source, from_ns(static_cast<std::int64_t>(event.at_ns)), std::nullopt, std::nullopt};
    if (!is_of_node(CgroupId{event.cgroup})) wake.cgroup = CgroupId{event.cgroup};
    if (is_crossing(event.kind)) {
      wake.usage = bytes_of(event.usage);
      if (event.cgroup == ABI_TAKEN_ID) wake.usage = *wake.usage + taken_.shift;
      take_crossing(event);
    }
    if (event.kind == ABI_EVENT_oom_kill) take_kill(event, paths);
    wakes.push_back(wake);
  });
}

}  // namespace forestall::sources
