// SPDX-License-Identifier: Apache-2.0
// An evaluation only calls pread() on descriptors that refresh() opened. A cgroup removed since
// then fails with ENODEV and is dropped here; a new one waits for the next refresh().
#include "sources/observer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/parse.h"
#include "bpf/abi/watch.h"
#include "sources/cgroup_reader.h"
#include "sources/container_reader.h"
#include "sources/held_workloads.h"
#include "sources/new_cgroups.h"
#include "sources/node_reader.h"
#include "sources/own_limits.h"
#include "sources/pod_paths.h"
#include "sources/watched_cgroups.h"
#include "sources/workload_badness.h"

namespace forestall::sources {
namespace {

// How long a decision about a filesystem waits for a walk that began after the shortage.
constexpr Duration kWalkPatience = std::chrono::minutes(1);

// Larger than any file read here on known hosts. read_whole() can grow it, but should not under
// pressure.
constexpr std::size_t kBufferSize = std::size_t{64} << 10;

struct Watched {
  std::shared_ptr<const CgroupReader> reader;  // all thresholds of one cgroup share it
  std::size_t threshold = 0;
};

// An ancestor of the subject is not a candidate, but its protection covers the subject too.
bool is_related(std::string_view path, std::string_view subject) {
  return subject.empty() || path_is_within(path, subject) || path_is_within(subject, path);
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
        workloads_(tree, proc),
        own_limits_(tree) {
    buffer_.resize(kBufferSize);
  }

  void configure(const Config& config) {
    config_ = config;
    filesystems_.configure(config.filesystems);
  }
  std::vector<SourceNote> refresh();
  Observation sample_node(const Wake& wake, MonotonicTime now);
  void add_workloads(Observation& observation, std::string_view subject, Scoring scoring);
  Observation sample_subjects(const Wake& wake, MonotonicTime now,
                              std::span<const CgroupId> subjects);
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
  [[nodiscard]] bool has_new_cgroups() { return new_cgroups_.any(); }
  [[nodiscard]] DiskWalker& walker() { return *walker_; }
  [[nodiscard]] FilesystemReader& filesystems() { return filesystems_; }
  [[nodiscard]] const TaskReader& tasks() const { return tasks_; }
  [[nodiscard]] const HeldWorkloads& workloads() const { return workloads_; }
  [[nodiscard]] const std::string& pods_path() const { return pods_path_; }

 private:
  void watch_new_cgroups();
  void refresh_pods(std::vector<SourceNote>& notes);
  void refresh_watched(std::vector<SourceNote>& notes);
  void refresh_own_limits(std::vector<SourceNote>& notes);
  using WatchReaders = std::map<std::string, std::shared_ptr<const CgroupReader>>;  // by path
  [[nodiscard]] std::shared_ptr<const CgroupReader> open_watched(
      const std::string& path, WatchReaders& known, std::vector<SourceNote>& notes) const;
  // Paths to watch for each threshold.
  [[nodiscard]] std::vector<std::vector<std::string>> paths_to_watch(
      std::vector<SourceNote>& notes) const;
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
  // State of the last refresh, without cgroups found removed since.
  std::string pods_path_;
  std::optional<CgroupReader> pods_;
  std::vector<Watched> watched_;
  HeldWorkloads workloads_;
  OwnLimits own_limits_;
  NewCgroups new_cgroups_;
  std::string buffer_;
};

std::vector<SourceNote> Observer::Reader::refresh() {
  std::vector<SourceNote> notes;
  refresh_pods(notes);
  watch_new_cgroups();
  refresh_watched(notes);
  workloads_.refresh(config_, pods_path_, notes);
  refresh_own_limits(notes);
  filesystems_.refresh(notes);
  return notes;
}

// A pod comes in the pods cgroup or in one of its two QoS groups, with either cgroup driver.
void Observer::Reader::watch_new_cgroups() {
  std::vector<std::string> globs;
  for (const WorkloadRule& rule : config_.workloads) globs.push_back(rule.cgroup);
  for (const Threshold& threshold : config_.thresholds) {
    if (is_of_watched_cgroup(threshold.signal)) globs.push_back(threshold.cgroup);
  }
  if (config_.pods && !pods_path_.empty()) {
    globs.push_back(pods_path_ + "/*");
    for (const char* group : {"burstable", "besteffort"}) {
      globs.push_back(fmt::format("{}/*{}*/*", pods_path_, group));
    }
  }
  new_cgroups_.watch(tree_, globs);
}

void Observer::Reader::refresh_pods(std::vector<SourceNote>& notes) {
  auto found = find_pods_cgroup(tree_, config_.cgroup_root);
  // Unknown is not gone: the cgroup known so far stays.
  if (!found) return notes.push_back({config_.cgroup_root, found.error().text()});
  pods_path_ = std::move(found).value().value_or("");
  const bool same = pods_ && pods_->cgroup().path() == pods_path_ &&
                    pods_->cgroup().still_at_path(tree_.memory_fd());
  if (same) return;
  if (pods_path_.empty()) pods_.reset();
  if (pods_path_.empty()) return;
  auto reader = CgroupReader::open_with_limit(tree_, pods_path_);
  if (reader) pods_ = std::move(reader).value();
  if (!reader && kernel::is_removed(reader.error())) pods_.reset();
  if (!reader) notes.push_back({pods_path_, reader.error().text()});
}

std::shared_ptr<const CgroupReader> Observer::Reader::open_watched(
    const std::string& path, WatchReaders& known, std::vector<SourceNote>& notes) const {
  auto& held = known[path];
  if (held && held->cgroup().still_at_path(tree_.memory_fd())) return held;
  held.reset();
  auto reader = CgroupReader::open_with_limit(tree_, path);
  if (reader) {
    held = std::make_shared<const CgroupReader>(std::move(reader).value());
  } else if (!kernel::is_removed(reader.error()) || tree_.open(path)) {
    // The cgroup still exists, so this is not a race: its memory controller is off.
    notes.push_back({path, reader.error().text()});
  }
  return held;
}

std::vector<std::vector<std::string>> Observer::Reader::paths_to_watch(
    std::vector<SourceNote>& notes) const {
  std::vector<std::vector<std::string>> wanted(config_.thresholds.size());
  for (std::size_t i = 0; i < config_.thresholds.size(); ++i) {
    const auto& threshold = config_.thresholds[i];
    if (!is_of_watched_cgroup(threshold.signal) || threshold.own_limits_of) continue;
    const auto matched = tree_.match(threshold.cgroup, wanted[i]);
    if (matched) continue;
    // Unknown is not gone: what was watched stays watched.
    notes.push_back({threshold.cgroup, matched.error().text()});
    for (const Watched& each : watched_) {
      const std::string& path = each.reader->cgroup().path();
      if (each.threshold == i && kernel::glob_matches(threshold.cgroup, path)) {
        wanted[i].push_back(path);
      }
    }
    std::ranges::sort(wanted[i]);
    const auto repeated = std::ranges::unique(wanted[i]);
    wanted[i].erase(repeated.begin(), repeated.end());
  }
  bound_watched(tree_, config_, wanted, notes);
  return wanted;
}

void Observer::Reader::refresh_watched(std::vector<SourceNote>& notes) {
  const auto wanted = paths_to_watch(notes);
  WatchReaders known;
  for (const Watched& each : watched_) known.emplace(each.reader->cgroup().path(), each.reader);
  std::vector<Watched> watched;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const auto& path : wanted[i]) {
      if (auto reader = open_watched(path, known, notes)) watched.push_back({reader, i});
    }
  }
  watched_ = std::move(watched);
}

// Slots of the BPF programs that are left: the node uses one, and explicitly watched cgroups come
// first.
void Observer::Reader::refresh_own_limits(std::vector<SourceNote>& notes) {
  const std::size_t most = config_.watched_cgroups_max.value_or(kWatchedCgroupsMax);
  const std::size_t slots = most - std::min(watched_.size(), most);
  own_limits_.refresh(config_, workloads_.list(), slots, SystemClock().now(), notes);
}

Observation Observer::Reader::sample_node(const Wake& wake, MonotonicTime now) {
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
    const auto reading = watched.reader->read(buffer_, observation.notes);
    if (!reading.removed) {
      observation.watched.push_back(to_sample(*watched.reader, reading, watched.threshold));
    }
    return reading.removed;
  });
  own_limits_.read(wake, now, observation.watched, observation.notes);
  observation.filesystems = filesystems_.read(now, observation.notes);
  observation.tasks = tasks_.read(now, observation.notes);
  note_missing_swap(config_, observation);
  return observation;
}

Observation Observer::Reader::sample_subjects(const Wake& wake, MonotonicTime now,
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
    if (!asked(watched.reader->cgroup().id())) continue;
    const auto reading = watched.reader->read(buffer_, observation.notes);
    if (reading.removed) continue;
    observation.watched.push_back(to_sample(*watched.reader, reading, watched.threshold));
  }
  own_limits_.read_some(subjects, now, observation.watched, observation.notes);
  return observation;
}

bool Observer::Reader::add_some_workloads(Observation& observation, std::string_view subject,
                                          std::size_t& next, std::size_t count) {
  if (!observation.workloads) observation.workloads.emplace();
  for (; next < workloads_.size() && count > 0; ++next) {
    if (!is_related(workloads_.at(next).path, subject)) continue;
    workloads_.sample(next, *observation.workloads, observation.notes);
    --count;
  }
  if (next < workloads_.size()) return true;
  workloads_.drop_removed();
  return false;
}

void Observer::Reader::resample_workloads(Observation& observation) {
  std::erase_if(*observation.workloads, [&](WorkloadSample& sample) {
    return !workloads_.resample(sample, observation.notes);
  });
}

void Observer::Reader::add_workloads(Observation& observation, std::string_view subject,
                                     Scoring scoring) {
  auto& samples = observation.workloads.emplace();
  for (std::size_t i = 0; i < workloads_.size(); ++i) {
    if (is_related(workloads_.at(i).path, subject)) {
      workloads_.sample(i, samples, observation.notes);
    }
  }
  workloads_.drop_removed();
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
    scorer_.report(*observation.workloads);
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
  for (const Workload* workload : workloads_.list()) {
    if (workload->pod_uid) uids.push_back(*workload->pod_uid);
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
Observation Observer::sample_node(const Wake& wake, MonotonicTime now) {
  return reader_->sample_node(wake, now);
}
void Observer::add_workloads(Observation& observation, std::string_view subject, Scoring scoring) {
  reader_->add_workloads(observation, subject, scoring);
}
Observation Observer::sample_subjects(const Wake& wake, MonotonicTime now,
                                      std::span<const CgroupId> subjects) {
  return reader_->sample_subjects(wake, now, subjects);
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
  return reader_->workloads().size();
}
std::vector<const Workload*> Observer::workloads() const {
  return reader_->workloads().list();
}
bool Observer::has_new_cgroups() {
  return reader_->has_new_cgroups();
}

std::uint64_t Observer::workload_changes() const {
  return reader_->workloads().changes();
}
std::uint64_t Observer::unread_workloads() const {
  return reader_->workloads().unread();
}
const std::string& Observer::pods_path() const {
  return reader_->pods_path();
}

}  // namespace forestall::sources
