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

SourceReadings::Reading reading(std::uint64_t at_ns, std::uint64_t amount) {
  return {from_ns(static_cast<std::int64_t>(at_ns)), Bytes{static_cast<std::int64_t>(amount)}};
}

}  // namespace

std::vector<std::string> BpfSource::take_subjects(const std::map<CgroupId, Line>& lowest) {
  std::vector<std::string> notes;
  std::erase_if(subjects_, [&](const auto& entry) { return !lowest.contains(entry.first); });
  for (const auto& [id, line] : lowest) {
    if (subjects_.contains(id)) continue;
    SubjectState subject;
    if (id.inode != 0) {
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

Result<Bytes> BpfSource::place(const SubjectState& subject, const Line& line) {
  const bool met = line.headroom <= Bytes{0};
  // Already reported and still met: only further growth is reported. The step counts from the last
  // report, so that slow growth adds up.
  const bool still_met = met && subject.met && subject.line.has_value();
  if (still_met && !subject.fired) return *subject.line;
  if (line.cgroup.inode != 0) {
    return still_met ? line.usage + kGrowthStep : line.usage_line - line.warning.value_or(Bytes{0});
  }
  // The BPF programs sum the node's counters, the observer reads a file, and the two differ by
  // per-CPU remainders. The line is therefore placed relative to the current counter.
  const abi_node_usage usage = TRY(programs_.node_usage());
  const Bytes counter{static_cast<std::int64_t>(abi_node_working_set(&usage))};
  node_differs_.reset();
  if (node_observed_)
    node_differs_ = std::max(counter - *node_observed_, *node_observed_ - counter);
  return counter + (still_met ? kGrowthStep : line.distance());
}

Result<std::vector<std::string>> BpfSource::arm(std::span<const Line> lines, MonotonicTime) {
  std::map<CgroupId, Line> lowest;
  node_observed_.reset();
  for (const Line& line : lines) {
    if (line.cgroup.inode == 0 && row_of(line.signal).measure == Measure::working_set) {
      node_observed_ = line.floor_line - line.headroom;
    }
    const auto [entry, fresh] = lowest.try_emplace(line.cgroup, line);
    if (!fresh && line.distance() < entry->second.distance()) entry->second = line;
  }
  std::vector<std::string> notes = take_subjects(lowest);
  std::vector<kernel::BpfWatch> watches;
  std::vector<const Line*> watched;
  for (auto& [id, subject] : subjects_) {
    const Line& line = lowest.at(id);
    const Result<Bytes> placed = place(subject, line);
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
  if (seen.cgroup.inode == 0) {
    // The counter is not what the observer reads: the line was placed by the difference, which
    // includes what was charged between the two.
    if (!node_differs_) return;
    seen.measured = SourceReadings::Measured::working_set;
    seen.before.amount += *node_differs_;
    seen.after->amount -= *node_differs_;
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
    if (event.cgroup != 0) wake.cgroup = CgroupId{event.cgroup};
    if (is_crossing(event.kind)) {
      wake.usage = Bytes{static_cast<std::int64_t>(event.usage)};
      take_crossing(event);
    }
    if (event.kind == ABI_EVENT_oom_kill) take_kill(event, paths);
    wakes.push_back(wake);
  });
}

}  // namespace forestall::sources
