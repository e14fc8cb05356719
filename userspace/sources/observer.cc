// SPDX-License-Identifier: Apache-2.0
// An evaluation only calls pread() on descriptors that refresh() opened. A cgroup removed since
// then fails with ENODEV and is dropped here; a new one waits for the next refresh().
#include "sources/observer.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/parse.h"
#include "bpf/abi/watch.h"
#include "sources/cgroup_reader.h"
#include "sources/container_reader.h"
#include "sources/node_reader.h"
#include "sources/own_limits.h"
#include "sources/own_place.h"
#include "sources/pod_paths.h"
#include "sources/process_counter.h"
#include "sources/workload_badness.h"
#include "sources/workload_rules.h"

namespace forestall::sources {
namespace {

// How long a decision about a filesystem waits for a walk that began after the shortage.
constexpr Duration kWalkPatience = std::chrono::minutes(1);

// Larger than any file read here on known hosts. read_whole() can grow it, but should not under
// pressure.
constexpr std::size_t kBufferSize = std::size_t{64} << 10;

bool gone(const Error& failure) {
  return failure.code == ENOENT || failure.code == ENODEV;
}

struct Watched {
  CgroupReader reader;
  std::size_t threshold = 0;
};

// Descriptors on one workload.
struct Readers {
  CgroupReader cgroup;
  ProcessCounter processes;

  // The directory, two files, and those of the counter.
  [[nodiscard]] std::size_t descriptors() const { return 3 + processes.descriptors(); }
};

struct HeldWorkload {
  Workload workload;
  // Nullopt: too many workloads; opened for each read
  std::optional<Readers> readers;
  bool removed = false;
};

Result<Readers> open_readers(const kernel::CgroupTree& tree, const std::string& path) {
  auto reader = TRY(CgroupReader::open(tree, path));
  ProcessCounter processes(reader.cgroup());
  return Readers{std::move(reader), std::move(processes)};
}

// Workloads may use half of the descriptors: a kill needs some for each process of its victim, and
// without any left the agent cannot read anything.
std::size_t descriptors_for_workloads() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) / 2;
}

// An ancestor of the subject is not a candidate, but its protection covers the subject too.
bool is_related(std::string_view path, std::string_view subject) {
  return subject.empty() || path_is_within(path, subject) || path_is_within(subject, path);
}

// If a workload's usage is stable, its inactive file pages are not read again. memory.stat costs
// twenty times as much as usage. A workload to evict has grown, or all of it was read before.
constexpr Bytes kStandsStill = kib(256);

bool has_moved(const std::optional<Bytes>& before, const std::optional<Bytes>& now) {
  if (!before || !now) return true;
  const Bytes moved = *now - *before;
  return moved > kStandsStill || Bytes{0} - moved > kStandsStill;
}

// The policy takes swap that does not exist for unknown; this says why its threshold is never met.
void note_missing_swap(const Config& config, Observation& observation) {
  if (observation.node.swap_total != Bytes{0}) return;
  for (const Threshold& threshold : config.thresholds) {
    const SignalRow& row = row_of(threshold.signal);
    if (row.measure != Measure::swap) continue;
    observation.notes.push_back(
        {std::string(row.name), "unknown: this node has no swap, so the threshold is never met"});
  }
}

CgroupSample to_sample(const CgroupReader& reader, const CgroupReader::Reading& reading,
                       std::size_t threshold) {
  CgroupSample sample;
  sample.id = reader.cgroup().id();
  sample.path = reader.cgroup().path();
  sample.usage = reading.usage;
  sample.inactive_file = reading.inactive_file;
  sample.limit = reading.limit;
  sample.threshold = threshold;
  return sample;
}

}  // namespace

class Observer::Reader {
 public:
  Reader(const kernel::CgroupTree& tree, Config config, const std::string& proc, NodeReader node,
         std::unique_ptr<DiskWalker> walker)
      : tree_(tree),
        config_(std::move(config)),
        node_(std::move(node)),
        filesystems_(config_.filesystems, proc),
        tasks_(proc),
        walker_(std::move(walker)),
        self_(proc + "/self/cgroup", ::getpid()),
        init_(proc + "/1/cgroup", 1),
        own_limits_(tree) {
    buffer_.resize(kBufferSize);
  }

  void configure(const Config& config) {
    config_ = config;
    filesystems_.configure(config.filesystems);
  }
  std::vector<SourceNote> refresh();
  Observation observe(const Wake& wake, MonotonicTime now);
  void add_workloads(Observation& observation, std::string_view subject, Scoring scoring);
  Observation glance(const Wake& wake, MonotonicTime now, std::span<const CgroupId> subjects);
  bool add_some_workloads(Observation& observation, std::string_view subject, std::size_t& next,
                          std::size_t count);
  void resample_workloads(Observation& observation);
  void add_statistics(Observation& observation, std::optional<MonotonicTime> since) const;
  void ask_disk_usage(MonotonicTime now, Duration age_max);
  void set_writable_layers(WritableLayers layers) { layers_ = std::move(layers); }
  void set_processes(ProcessSource* processes) {
    processes_ = processes;
    scanned_at_.reset();
  }
  void add_container_samples(WorkloadSample& sample) {
    sources::add_container_samples(tree_, sample, buffer_);
  }
  [[nodiscard]] DiskWalker& walker() { return *walker_; }
  [[nodiscard]] FilesystemReader& filesystems() { return filesystems_; }
  [[nodiscard]] const TaskReader& tasks() const { return tasks_; }
  [[nodiscard]] std::size_t workload_count() const { return workloads_.size(); }
  [[nodiscard]] std::uint64_t workload_changes() const { return workload_changes_; }
  [[nodiscard]] const std::string& pods_path() const { return pods_path_; }

 private:
  void refresh_pods(std::vector<SourceNote>& notes);
  void refresh_watched(std::vector<SourceNote>& notes);
  void refresh_workloads(std::vector<SourceNote>& notes);
  // Opens the readers of a new workload.
  void hold(Workload workload, std::vector<SourceNote>& notes);
  [[nodiscard]] Readers* readers_of(HeldWorkload& held, std::optional<Readers>& opened,
                                    std::vector<SourceNote>& notes);
  void refresh_own_limits(std::vector<SourceNote>& notes);
  void open_watched(const std::string& path, std::size_t threshold, std::vector<Watched>& old,
                    std::vector<SourceNote>& notes);
  void sample_workload(HeldWorkload& held, std::vector<WorkloadSample>& samples,
                       std::vector<SourceNote>& notes);
  void score_workloads(Observation& observation, std::optional<MonotonicTime> since);
  Result<void> scan_processes(const NodeSample& node);

  const kernel::CgroupTree& tree_;
  Config config_;  // for the next refresh()
  NodeReader node_;
  FilesystemReader filesystems_;
  TaskReader tasks_;
  std::unique_ptr<DiskWalker> walker_;
  WritableLayers layers_;
  ProcessSource* processes_ = nullptr;
  WorkloadScorer scorer_;
  std::optional<MonotonicTime> scanned_at_;  // observation of scorer_'s last scan
  Result<void> scanned_;                     // its result
  OwnPlace self_;
  OwnPlace init_;
  // State of the last refresh, without cgroups found removed since.
  std::string pods_path_;
  std::optional<CgroupReader> pods_;
  std::vector<Watched> watched_;
  std::vector<HeldWorkload> workloads_;
  std::size_t descriptors_ = 0;  // held on workloads_
  const std::size_t descriptors_max_ = descriptors_for_workloads();
  OwnLimits own_limits_;
  std::uint64_t workload_changes_ = 0;
  std::string buffer_;
};

std::vector<SourceNote> Observer::Reader::refresh() {
  std::vector<SourceNote> notes;
  refresh_pods(notes);
  refresh_watched(notes);
  refresh_workloads(notes);
  refresh_own_limits(notes);
  filesystems_.refresh(notes);
  return notes;
}

void Observer::Reader::refresh_pods(std::vector<SourceNote>& notes) {
  pods_path_ = find_pods_cgroup(tree_, config_.cgroup_root).value_or("");
  const bool same = pods_ && pods_->cgroup().path() == pods_path_ &&
                    pods_->cgroup().still_at_path(tree_.memory_fd());
  if (same) return;
  pods_.reset();
  if (pods_path_.empty()) return;
  auto reader = CgroupReader::open_with_limit(tree_, pods_path_);
  if (reader) pods_ = std::move(reader).value();
  if (!reader) notes.push_back({pods_path_, reader.error().text()});
}

void Observer::Reader::open_watched(const std::string& path, std::size_t threshold,
                                    std::vector<Watched>& old, std::vector<SourceNote>& notes) {
  const auto kept = std::find_if(old.begin(), old.end(), [&](const Watched& watched) {
    return watched.threshold == threshold && watched.reader.cgroup().path() == path &&
           watched.reader.cgroup().still_at_path(tree_.memory_fd());
  });
  if (kept != old.end()) {
    watched_.push_back(std::move(*kept));
    old.erase(kept);
    return;
  }
  auto reader = CgroupReader::open_with_limit(tree_, path);
  if (reader) {
    watched_.push_back({std::move(reader).value(), threshold});
  } else if (!gone(reader.error()) || tree_.open(path)) {
    // The cgroup still exists, so this is not a race: its memory controller is off.
    notes.push_back({path, reader.error().text()});
  }
}

void Observer::Reader::refresh_watched(std::vector<SourceNote>& notes) {
  auto old = std::exchange(watched_, {});
  for (std::size_t i = 0; i < config_.thresholds.size(); ++i) {
    const auto& threshold = config_.thresholds[i];
    if (!is_of_watched_cgroup(threshold.signal) || threshold.own_limits_of) continue;
    const auto paths = tree_.match(threshold.cgroup);
    if (!paths) notes.push_back({threshold.cgroup, paths.error().text()});
    for (const auto& path : paths ? *paths : std::vector<std::string>()) {
      open_watched(path, i, old, notes);
    }
  }
}

void Observer::Reader::refresh_workloads(std::vector<SourceNote>& notes) {
  const ProtectedPlaces places{self_.paths(tree_), init_.paths(tree_)};
  // Both are sorted by path.
  auto old = std::exchange(workloads_, {});
  descriptors_ = 0;
  auto known = old.begin();
  std::size_t kept = 0;
  auto found = find_workloads(tree_, config_, pods_path_, places, notes);
  workloads_.reserve(found.size());
  for (auto& workload : found) {
    while (known != old.end() && known->workload.path < workload.path) ++known;
    const bool same = known != old.end() && known->workload.path == workload.path &&
                      known->readers &&
                      known->readers->cgroup.cgroup().still_at_path(tree_.memory_fd());
    if (same) {
      known->workload = std::move(workload);
      known->workload.cgroup = known->readers->cgroup.cgroup().id();
      descriptors_ += known->readers->descriptors();
      workloads_.push_back(std::move(*known));
      ++kept;
    } else {
      const bool was_there = known != old.end() && known->workload.path == workload.path;
      const std::size_t before = workloads_.size();
      hold(std::move(workload), notes);
      if (was_there && workloads_.size() > before &&
          workloads_.back().workload.cgroup == known->workload.cgroup) {
        ++kept;
      }
    }
  }
  if (kept != old.size() || kept != workloads_.size()) ++workload_changes_;
}

void Observer::Reader::hold(Workload workload, std::vector<SourceNote>& notes) {
  const auto failed = [&](const Error& failure) {
    if (gone(failure) && !tree_.open(workload.path)) return;
    notes.push_back({workload.path, failure.text()});
  };
  std::optional<Readers> held;
  if (descriptors_ < descriptors_max_) {
    auto readers = open_readers(tree_, workload.path);
    if (!readers) return failed(readers.error());
    workload.cgroup = readers->cgroup.cgroup().id();
    descriptors_ += readers->descriptors();
    held = std::move(readers).value();
  } else {
    const auto cgroup = tree_.open(workload.path);
    if (!cgroup) return failed(cgroup.error());
    workload.cgroup = cgroup->id();
  }
  workloads_.push_back({std::move(workload), std::move(held), false});
}

// The held readers, or `opened` ones for this read. If the cgroup is another one by now, returns
// null and marks the workload as removed.
Readers* Observer::Reader::readers_of(HeldWorkload& held, std::optional<Readers>& opened,
                                      std::vector<SourceNote>& notes) {
  if (held.readers) return &*held.readers;
  auto readers = open_readers(tree_, held.workload.path);
  if (!readers && !gone(readers.error())) {
    notes.push_back({held.workload.path, readers.error().text()});
    return nullptr;
  }
  held.removed = !readers || readers->cgroup.cgroup().id() != held.workload.cgroup;
  if (held.removed) return nullptr;
  opened = std::move(readers).value();
  return &*opened;
}

// Slots of the BPF programs that are left: the node uses one, and explicitly watched cgroups come
// first.
void Observer::Reader::refresh_own_limits(std::vector<SourceNote>& notes) {
  std::vector<const Workload*> workloads;
  workloads.reserve(workloads_.size());
  for (const HeldWorkload& held : workloads_) workloads.push_back(&held.workload);
  const std::size_t taken = 1 + (pods_ ? 1 : 0) + watched_.size();
  const std::size_t slots = ABI_WATCH_SLOTS - std::min<std::size_t>(taken, ABI_WATCH_SLOTS);
  own_limits_.refresh(config_, workloads, slots, SystemClock().now(), notes);
}

Observation Observer::Reader::observe(const Wake& wake, MonotonicTime now) {
  Observation observation;
  observation.at = now;
  observation.wake = wake;
  observation.node = node_.read(buffer_, observation.notes);
  if (pods_) {
    const auto reading = pods_->read(buffer_, observation.notes);
    if (!reading.removed) observation.pods = to_sample(*pods_, reading, 0);
    if (reading.removed) pods_.reset();
  }
  std::erase_if(watched_, [&](const Watched& watched) {
    const auto reading = watched.reader.read(buffer_, observation.notes);
    if (!reading.removed) {
      observation.watched.push_back(to_sample(watched.reader, reading, watched.threshold));
    }
    return reading.removed;
  });
  own_limits_.read(wake, now, observation.watched, observation.notes);
  observation.filesystems = filesystems_.read(now, observation.notes);
  observation.tasks = tasks_.read(now, observation.notes);
  note_missing_swap(config_, observation);
  return observation;
}

Observation Observer::Reader::glance(const Wake& wake, MonotonicTime now,
                                     std::span<const CgroupId> subjects) {
  Observation observation;
  observation.at = now;
  observation.wake = wake;
  const auto asked = [&](CgroupId id) {
    return std::find(subjects.begin(), subjects.end(), id) != subjects.end();
  };
  if (asked(CgroupId{})) observation.node = node_.read(buffer_, observation.notes);
  if (pods_ && asked(pods_->cgroup().id())) {
    const auto reading = pods_->read(buffer_, observation.notes);
    if (!reading.removed) observation.pods = to_sample(*pods_, reading, 0);
  }
  for (const Watched& watched : watched_) {
    if (!asked(watched.reader.cgroup().id())) continue;
    const auto reading = watched.reader.read(buffer_, observation.notes);
    if (reading.removed) continue;
    observation.watched.push_back(to_sample(watched.reader, reading, watched.threshold));
  }
  own_limits_.read_some(subjects, now, observation.watched, observation.notes);
  return observation;
}

bool Observer::Reader::add_some_workloads(Observation& observation, std::string_view subject,
                                          std::size_t& next, std::size_t count) {
  if (!observation.workloads) observation.workloads.emplace();
  for (; next < workloads_.size() && count > 0; ++next) {
    if (!is_related(workloads_[next].workload.path, subject)) continue;
    sample_workload(workloads_[next], *observation.workloads, observation.notes);
    --count;
  }
  if (next < workloads_.size()) return true;
  std::erase_if(workloads_, [](const HeldWorkload& held) { return held.removed; });
  return false;
}

void Observer::Reader::resample_workloads(Observation& observation) {
  std::erase_if(*observation.workloads, [&](WorkloadSample& sample) {
    const auto held = std::find_if(
        workloads_.begin(), workloads_.end(),
        [&](const HeldWorkload& each) { return each.workload.cgroup == sample.workload.cgroup; });
    if (held == workloads_.end()) return true;
    std::optional<Readers> opened;
    const Readers* readers = readers_of(*held, opened, observation.notes);
    if (readers == nullptr) {
      sample.usage.reset();
      sample.inactive_file.reset();
      return held->removed;
    }
    auto reading = readers->cgroup.read_usage(buffer_, observation.notes);
    if (!reading.removed && has_moved(sample.usage, reading.usage)) {
      reading = readers->cgroup.read(buffer_, observation.notes);
      sample.inactive_file = reading.inactive_file;
    }
    sample.usage = reading.usage;
    return reading.removed;
  });
}

void Observer::Reader::sample_workload(HeldWorkload& held, std::vector<WorkloadSample>& samples,
                                       std::vector<SourceNote>& notes) {
  std::optional<Readers> opened;
  Readers* readers = readers_of(held, opened, notes);
  if (readers == nullptr) return;
  const auto reading = readers->cgroup.read(buffer_, notes);
  held.removed = reading.removed;
  if (held.removed) return;
  const auto processes = readers->processes.count(readers->cgroup.cgroup(), buffer_);
  if (!processes && !gone(processes.error())) {
    notes.push_back({held.workload.path, processes.error().text()});
  }
  samples.push_back(
      {held.workload, reading.usage, reading.inactive_file, processes.optional(), std::nullopt});
}

void Observer::Reader::add_workloads(Observation& observation, std::string_view subject,
                                     Scoring scoring) {
  auto& samples = observation.workloads.emplace();
  for (auto& held : workloads_) {
    if (!is_related(held.workload.path, subject)) continue;
    sample_workload(held, samples, observation.notes);
  }
  std::erase_if(workloads_, [](const HeldWorkload& held) { return held.removed; });
  if (!scoring.wanted || config_.ranking != Ranking::kernel || processes_ == nullptr) return;
  score_workloads(observation, scoring.since);
}

void Observer::Reader::score_workloads(Observation& observation,
                                       std::optional<MonotonicTime> since) {
  // A failed scan is not retried either: it may have cost as much.
  const bool will_do = since && scanned_at_ && *scanned_at_ >= *since;
  if (!will_do) {
    scanned_ = scan_processes(observation.node);
    scanned_at_ = observation.at;
  }
  if (scanned_) {
    scorer_.tell(*observation.workloads);
  } else {
    observation.notes.push_back({"processes", scanned_.error().text()});
  }
}

Result<void> Observer::Reader::scan_processes(const NodeSample& node) {
  if (!node.capacity || !node.swap_total) {
    return error("not scored: the node's memory is not known");
  }
  const Pages total = (*node.capacity + *node.swap_total).count / ::sysconf(_SC_PAGESIZE);
  return scorer_.scan(tree_, *processes_, total);
}

void Observer::Reader::add_statistics(Observation& observation,
                                      std::optional<MonotonicTime> since) const {
  if (!observation.workloads) return;
  observation.disk_usage_read =
      walker_->fresh(observation.at) && (!since || walker_->began_since(*since));
  // A walk that does not end must not block the relief of a full disk indefinitely.
  if (since && observation.at - *since > kWalkPatience && walker_->ended()) {
    observation.disk_usage_read = true;
  }
  for (auto& sample : *observation.workloads) {
    if (!sample.workload.pod_uid) continue;
    const auto* measured = walker_->find(*sample.workload.pod_uid);
    if (measured == nullptr) continue;
    sample.statistics = *measured;
    const auto layers = layers_.find(*sample.workload.pod_uid);
    if (layers != layers_.end()) add_writable_layers(layers->second, *sample.statistics);
  }
  const auto& notes = walker_->notes();
  observation.notes.insert(observation.notes.end(), notes.begin(), notes.end());
}

void Observer::Reader::ask_disk_usage(MonotonicTime now, Duration age_max) {
  std::vector<std::string> uids;
  for (const auto& held : workloads_) {
    if (held.workload.pod_uid) uids.push_back(*held.workload.pod_uid);
  }
  FilesystemPlaces places = config_.filesystems;
  // Like reads, a walk must not block on a server.
  if (!filesystems_.has(Filesystem::nodefs)) places.nodefs.clear();
  walker_->ask(places, std::move(uids), now, age_max);
}

Observer::Observer(std::unique_ptr<Reader> reader) : reader_(std::move(reader)) {}
Observer::~Observer() = default;

Result<std::unique_ptr<Observer>> Observer::create(const kernel::CgroupTree& tree,
                                                   const Config& config, const std::string& proc) {
  auto node = TRY(NodeReader::open(tree, proc));
  auto walker = TRY(DiskWalker::create());
  auto reader = std::make_unique<Reader>(tree, config, proc, std::move(node), std::move(walker));
  return std::unique_ptr<Observer>(new Observer(std::move(reader)));
}

void Observer::configure(const Config& config) {
  reader_->configure(config);
}
std::vector<SourceNote> Observer::refresh() {
  return reader_->refresh();
}
Observation Observer::observe(const Wake& wake, MonotonicTime now) {
  return reader_->observe(wake, now);
}
void Observer::add_workloads(Observation& observation, std::string_view subject, Scoring scoring) {
  reader_->add_workloads(observation, subject, scoring);
}
Observation Observer::glance(const Wake& wake, MonotonicTime now,
                             std::span<const CgroupId> subjects) {
  return reader_->glance(wake, now, subjects);
}
bool Observer::add_some_workloads(Observation& observation, std::string_view subject,
                                  std::size_t& next, std::size_t count) {
  return reader_->add_some_workloads(observation, subject, next, count);
}
void Observer::resample_workloads(Observation& observation) {
  reader_->resample_workloads(observation);
}
void Observer::add_statistics(Observation& observation, std::optional<MonotonicTime> since) const {
  reader_->add_statistics(observation, since);
}
void Observer::ask_disk_usage(MonotonicTime now, Duration age_max) {
  reader_->ask_disk_usage(now, age_max);
}
void Observer::set_writable_layers(WritableLayers layers) {
  reader_->set_writable_layers(std::move(layers));
}
void Observer::set_processes(ProcessSource* processes) {
  reader_->set_processes(processes);
}
void Observer::add_container_samples(WorkloadSample& sample) {
  reader_->add_container_samples(sample);
}
DiskWalker& Observer::disk_walker() {
  return reader_->walker();
}
FilesystemReader& Observer::filesystems() {
  return reader_->filesystems();
}
const TaskReader& Observer::tasks() const {
  return reader_->tasks();
}
std::size_t Observer::workload_count() const {
  return reader_->workload_count();
}
std::uint64_t Observer::workload_changes() const {
  return reader_->workload_changes();
}
const std::string& Observer::pods_path() const {
  return reader_->pods_path();
}

}  // namespace forestall::sources
