// SPDX-License-Identifier: Apache-2.0
#include "sources/held_workloads.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <utility>

#include "sources/workload_rules.h"

namespace forestall::sources {
namespace {

// Larger than any file read here on known hosts. read_whole() can grow it, but should not under
// pressure.
constexpr std::size_t kBufferSize = std::size_t{64} << 10;

// As kubelet used it for oom_score_adj.
Bytes memory_total() {
  return Bytes{static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE)};
}

// If a workload's usage is stable, its inactive file pages are not read again. memory.stat costs
// twenty times as much as usage. A workload to evict has grown, or all of it was read before.
constexpr Bytes kStandsStill = kib(256);

// A cgroup costs at least so many times less in a pass than by its files (tests/bench/memcg_bench).
constexpr std::size_t kPassGain = 20;

// Cgroups of a pass that only counts of processes need.
constexpr std::size_t kCountsPassMax = 500;

// Without a pass after one that failed: what it met, such as too many cgroups, lasts.
constexpr Duration kPassRest = std::chrono::minutes(1);

// Cgroups of a pass that only a record needs: about a millisecond of the loop's thread.
constexpr std::size_t kKindsPassMax = 1000;

// How old a pass may be for a sample. Sampling in parts takes less.
constexpr Duration kPassAge = std::chrono::milliseconds(10);

bool has_moved(const std::optional<Bytes>& before, const std::optional<Bytes>& now) {
  if (!before || !now) return true;
  const Bytes moved = *now - *before;
  return moved > kStandsStill || Bytes{0} - moved > kStandsStill;
}

}  // namespace

HeldWorkloads::HeldWorkloads(const kernel::CgroupTree& tree, const std::string& proc)
    : tree_(tree),
      self_(proc + "/self/cgroup", ::getpid()),
      init_(proc + "/1/cgroup", 1),
      inference_host_{tree, proc, memory_total()} {
  buffer_.resize(kBufferSize);
}

void HeldWorkloads::refresh(const Config& config, const std::string& pods_path,
                            const std::atomic<bool>& stop, std::vector<SourceNote>& notes) {
  const ProtectedPlaces places{self_.paths(tree_), init_.paths(tree_)};
  const std::size_t notes_before = notes.size();
  auto found = find_workloads(tree_, config, pods_path, places, list(), notes);
  complete_ = notes.size() == notes_before;
  pass_size_ /= 2;
  dropped_.clear();
  // Both are sorted by path.
  auto old = std::exchange(workloads_, {});
  descriptors_ = 0;
  auto known = old.begin();
  std::size_t kept = 0;
  Loss loss;
  workloads_.reserve(found.size());
  for (auto& workload : found) {
    if (stop) break;
    while (known != old.end() && known->workload.path < workload.path) ++known;
    const bool was_there = known != old.end() && known->workload.path == workload.path;
    if (was_there && known->readers &&
        known->readers->cgroup.cgroup().still_at_path(tree_.memory_fd())) {
      known->workload = std::move(workload);
      known->inference.refresh(inference_host_, known->workload);
      known->workload.cgroup = known->readers->cgroup.cgroup().id();
      descriptors_ += known->readers->descriptors();
      workloads_.push_back(std::move(*known));
      ++kept;
      continue;
    }
    const CgroupId before = was_there ? known->workload.cgroup : CgroupId{};
    const std::size_t size = workloads_.size();
    add(std::move(workload), was_there ? &*known : nullptr, loss, notes);
    if (was_there && workloads_.size() > size && workloads_.back().workload.cgroup == before) {
      ++kept;
    }
  }
  complete_ = complete_ && !stop;
  if (kept != old.size() || kept != workloads_.size()) ++changes_;
  if (loss.workloads == 0) return;
  unread_ += loss.workloads;
  // A power of two, so that a tenant that creates cgroups does not fill the log.
  notes.push_back({"workloads", fmt::format("at least {} cannot be opened and keep the values last "
                                            "read: {}",
                                            std::bit_floor(loss.workloads), loss.problem)});
}

void HeldWorkloads::add(Workload workload, HeldWorkload* before, Loss& loss,
                        std::vector<SourceNote>& notes) {
  const auto id = tree_.id_at(workload.path);
  if (!id) {
    if (!kernel::is_removed(id.error())) notes.push_back({workload.path, id.error().text()});
    return;
  }
  workload.cgroup = *id;
  std::optional<WorkloadReaders> readers;
  if (descriptors_ < descriptors_max_) {
    auto opened = open_readers(tree_, workload.path);
    if (opened) {
      workload.cgroup = opened->cgroup.cgroup().id();
      descriptors_ += opened->descriptors();
      readers = std::move(opened).value();
    } else if (kernel::is_removed(opened.error())) {
      // If the cgroup still exists, its memory controller is off.
      if (tree_.id_at(workload.path)) notes.push_back({workload.path, opened.error().text()});
      return;
    } else if (loss.workloads++ == 0) {
      loss.problem = opened.error().text();
    }
  }
  workloads_.push_back({std::move(workload), std::move(readers), false});
  HeldWorkload& added = workloads_.back();
  if (before != nullptr && before->workload.cgroup == added.workload.cgroup) {
    added.inference = std::move(before->inference);
    added.last = before->last;
  }
  added.inference.refresh(inference_host_, added.workload);
}

// The held readers, or `opened` ones for this read. If the cgroup is another one by now, returns
// null and marks the workload as removed. Null otherwise: it cannot be opened.
WorkloadReaders* HeldWorkloads::readers_of(HeldWorkload& held,
                                           std::optional<WorkloadReaders>& opened,
                                           std::vector<SourceNote>& notes) {
  if (held.readers) return &*held.readers;
  auto readers = open_readers(tree_, held.workload.path);
  if (readers) {
    held.removed = readers->cgroup.cgroup().id() != held.workload.cgroup;
    if (held.removed) return nullptr;
    opened = std::move(readers).value();
    return &*opened;
  }
  held.removed = kernel::is_removed(readers.error()) ||
                 tree_.id_at(held.workload.path).optional() != std::optional(held.workload.cgroup);
  if (!held.removed) {
    ++unread_;
    notes.push_back({held.workload.path, readers.error().text()});
  }
  return nullptr;
}

void HeldWorkloads::set_scan(kernel::MemcgScan* scan) {
  scan_ = scan;
  passed_at_.reset();
  pass_again_ = {};
  pass_size_ = 0;
  pass_failed_ = false;
}

bool HeldWorkloads::pass_is_cheaper(std::size_t wanted, bool urgent) const {
  if (urgent && pass_failed_) return false;
  const std::size_t size = urgent ? scan_->all().size() : pass_size_;
  // On cgroup v1 files that count processes are opened for each count (process_counter.h), and so
  // wait for locks that any tenant takes.
  const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
  return wanted * kPassGain >= size || (v1 && size <= kCountsPassMax);
}

void HeldWorkloads::begin_samples(std::size_t wanted, bool urgent, std::vector<SourceNote>& notes) {
  if (!pass_for(wanted, urgent, notes)) passed_at_.reset();
}

bool HeldWorkloads::pass_for(std::size_t wanted, bool urgent, std::vector<SourceNote>& notes) {
  if (scan_ == nullptr || wanted == 0 || !pass_is_cheaper(wanted, urgent)) return false;
  if (!urgent) scan_->renew();
  return pass({}, notes);
}

bool HeldWorkloads::pass(const kernel::MemcgQuery& query, std::vector<SourceNote>& notes) {
  const MonotonicTime begin = SystemClock().now();
  passed_at_.reset();
  if (scan_ == nullptr || begin < pass_again_) return false;
  const auto passed = scan_->scan(query);
  pass_size_ = scan_->all().size();
  pass_failed_ = !passed.ok();
  if (passed) {
    passed_at_ = begin;
  } else {
    pass_again_ = begin + kPassRest;
    notes.push_back({"workloads", passed.error().text()});
  }
  return passed_at_.has_value();
}

MemoryKinds HeldWorkloads::read_kinds(CgroupId cgroup, std::vector<SourceNote>& notes) {
  if (scan_ == nullptr || scan_->all().size() > kKindsPassMax) return {};
  const bool passed = pass({.counters = true}, notes);
  const kernel::MemcgUsage* found = passed ? scan_->find(cgroup) : nullptr;
  return found == nullptr ? MemoryKinds() : kinds_of(*found);
}

const kernel::MemcgUsage* HeldWorkloads::passed(CgroupId cgroup) const {
  const kernel::MemcgUsage* found = passed_at_ ? scan_->find(cgroup) : nullptr;
  return found == nullptr || found->removed || !found->inactive_file ? nullptr : found;
}

std::optional<kernel::HeldCgroup> HeldWorkloads::held(CgroupId cgroup) const {
  const auto found = std::ranges::find(
      workloads_, cgroup, [](const HeldWorkload& each) { return each.workload.cgroup; });
  if (found == workloads_.end() || !found->readers) return std::nullopt;
  return found->readers->cgroup.held();
}

bool HeldWorkloads::pass_expired() const {
  return passed_at_ && SystemClock().now() - *passed_at_ > kPassAge;
}

std::optional<LastReading> HeldWorkloads::take_from_pass(HeldWorkload& held,
                                                         std::vector<SourceNote>& notes) {
  const kernel::MemcgUsage* found = passed_at_ ? scan_->find(held.workload.cgroup) : nullptr;
  if (found == nullptr) return std::nullopt;
  auto reading = reading_of(*found);
  if (!reading || reading->processes) return reading;
  std::optional<WorkloadReaders> opened;
  WorkloadReaders* readers = readers_of(held, opened, notes);
  if (readers != nullptr) reading->processes = count_processes(*readers, held.workload.path, notes);
  return reading;
}

void HeldWorkloads::sample(std::size_t index, std::vector<WorkloadSample>& samples,
                           std::vector<SourceNote>& notes) {
  HeldWorkload& held = workloads_[index];
  const auto passed = take_from_pass(held, notes);
  std::optional<WorkloadReaders> opened;
  WorkloadReaders* readers = passed ? nullptr : readers_of(held, opened, notes);
  if (held.removed) return;
  if (passed) {
    held.last = passed;
    held.inference.complete(inference_host_, held.workload);
  } else if (readers != nullptr) {
    const auto reading = readers->cgroup.read(buffer_, notes);
    held.removed = reading.removed;
    if (held.removed) return;
    held.last = {reading.usage, reading.inactive_file,
                 count_processes(*readers, held.workload.path, notes), /*from_pass=*/false};
    held.inference.complete(inference_host_, held.workload);
  } else if (!held.last && held.workload.protection == Protection::none) {
    return;
  }
  const LastReading last = held.last.value_or(LastReading());
  samples.push_back({held.workload, last.usage, last.inactive_file, last.processes, std::nullopt});
}

bool HeldWorkloads::resample(WorkloadSample& sample, std::vector<SourceNote>& notes) {
  const auto is_it = [&](const HeldWorkload& each) {
    return each.workload.cgroup == sample.workload.cgroup;
  };
  // Samples are in the order of the workloads: the next one is most likely wanted.
  auto held = workloads_.begin() + static_cast<std::ptrdiff_t>(std::min(next_, workloads_.size()));
  if (held == workloads_.end() || !is_it(*held)) {
    held = std::find_if(workloads_.begin(), workloads_.end(), is_it);
  }
  if (held == workloads_.end()) return false;
  next_ = static_cast<std::size_t>(held - workloads_.begin()) + 1;
  if (const auto passed = take_from_pass(*held, notes)) {
    if (held->removed) return false;
    held->last = passed;
    sample.usage = passed->usage;
    sample.inactive_file = passed->inactive_file;
    sample.processes = passed->processes;
    held->inference.complete(inference_host_, held->workload);
    sample.workload.inferred = held->workload.inferred;
    return true;
  }
  std::optional<WorkloadReaders> opened;
  WorkloadReaders* readers = readers_of(*held, opened, notes);
  if (readers == nullptr) return !held->removed;
  auto reading = readers->cgroup.read_usage(buffer_, notes);
  if (reading.removed) return false;
  // Compared with the usage at the last reading of memory.stat: small steps add up.
  const bool known = held->last && held->last->inactive_file && !held->last->from_pass;
  if (!known || has_moved(held->last->usage, reading.usage)) {
    reading = readers->cgroup.read(buffer_, notes);
    if (reading.removed) return false;
    held->last = {reading.usage, reading.inactive_file, std::nullopt, /*from_pass=*/false};
  }
  held->last->processes = count_processes(*readers, held->workload.path, notes);
  sample.usage = reading.usage;
  sample.inactive_file = held->last->inactive_file;
  sample.processes = held->last->processes;
  held->inference.complete(inference_host_, held->workload);
  sample.workload.inferred = held->workload.inferred;
  return true;
}

void HeldWorkloads::drop_removed() {
  const auto gone =
      std::ranges::stable_partition(workloads_, std::logical_not(), &HeldWorkload::removed);
  if (gone.empty()) return;
  std::ranges::move(gone, std::back_inserter(dropped_));
  workloads_.erase(gone.begin(), gone.end());
  ++changes_;  // sampling in turns keeps an index, and the next refresh finds nothing changed
}

void HeldWorkloads::continue_from(HeldWorkloads& before) {
  bool same = workloads_.size() == before.workloads_.size();
  auto known = before.workloads_.begin();  // both are sorted by path
  for (HeldWorkload& held : workloads_) {
    while (known != before.workloads_.end() && known->workload.path < held.workload.path) ++known;
    const bool is_it = known != before.workloads_.end() &&
                       known->workload.path == held.workload.path &&
                       known->workload.cgroup == held.workload.cgroup;
    same = same && is_it;
    held.last = is_it ? known->last : std::nullopt;
  }
  scan_ = before.scan_;
  passed_at_ = before.passed_at_;
  pass_again_ = before.pass_again_;
  pass_size_ = before.pass_size_ / 2;
  pass_failed_ = before.pass_failed_;
  next_ = 0;
  changes_ = before.changes_ + (same ? 0 : 1);
  unread_ += std::exchange(before.unread_, 0);
}

std::optional<std::uint64_t> HeldWorkloads::count_processes(WorkloadReaders& readers,
                                                            const std::string& path,
                                                            std::vector<SourceNote>& notes) {
  const auto processes = readers.processes.count(readers.cgroup.cgroup(), buffer_);
  if (!processes && !kernel::is_removed(processes.error()))
    notes.push_back({path, processes.error().text()});
  return processes.optional();
}

std::vector<const Workload*> HeldWorkloads::list() const {
  std::vector<const Workload*> workloads;
  workloads.reserve(workloads_.size());
  for (const HeldWorkload& held : workloads_) workloads.push_back(&held.workload);
  return workloads;
}

}  // namespace forestall::sources
