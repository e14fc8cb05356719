// SPDX-License-Identifier: Apache-2.0
// An evaluation only calls pread() on descriptors that refresh() opened. A cgroup removed since
// then fails with ENODEV and is dropped here; a new one waits for the next refresh().
#include "sources/observer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/parse.h"
#include "kernel/memory_kinds.h"
#include "model/unknown_threshold.h"
#include "sources/cgroup_reader.h"
#include "sources/container_reader.h"
#include "sources/node_reader.h"
#include "sources/workload_badness.h"

namespace forestall::sources {
namespace {

// How long a decision about a filesystem waits for a walk that began after the shortage.
constexpr Duration kWalkPatience = std::chrono::minutes(1);

// Larger than any file read here on known hosts. read_whole() can grow it, but should not under
// pressure.
constexpr std::size_t kObserverBufferSize = std::size_t{64} << 10;

// An ancestor of the subject is not a candidate, but its protection covers the subject too.
bool is_related(std::string_view path, std::string_view subject) {
  return subject.empty() || path_is_within(path, subject) || path_is_within(subject, path);
}

void note_missing_swap(const Config& config, Observation& observation) {
  for (const Threshold& threshold : config.thresholds) {
    auto reason = swap_missing(threshold.signal, observation.node);
    if (reason) observation.notes.push_back(to_note({threshold, "node", std::move(*reason)}));
  }
}

CgroupSample to_sample(const CgroupReader& reader, const CgroupReader::CgroupReadings& reading,
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
  Reader(const kernel::CgroupTree& tree, const Config& config, std::string proc, NodeReader node,
         std::unique_ptr<DiskWalker> walker)
      : tree_(tree),
        proc_(std::move(proc)),
        config_(std::make_shared<const Config>(config)),
        node_(std::move(node)),
        filesystems_(config_->filesystems, proc_),
        tasks_(proc_),
        walker_(std::move(walker)),
        held_(std::make_unique<HeldTree>(tree, proc_)) {
    buffer_.resize(kObserverBufferSize);
  }

  void configure(const Config& config) {
    config_ = std::make_shared<const Config>(config);
    filesystems_.configure(config.filesystems);
  }
  std::vector<SourceNote> refresh() {
    held_->configure(config_);
    held_->refresh();
    return with_filesystems(held_->notes());
  }
  void make_standby() {
    held_->share_descriptors();
    standby_ = std::make_unique<HeldTree>(tree_, proc_);
    standby_->share_descriptors();
  }
  std::unique_ptr<HeldTree> take_standby() {
    if (standby_) standby_->configure(config_);
    return std::move(standby_);
  }
  void put_standby(std::unique_ptr<HeldTree> standby) { standby_ = std::move(standby); }
  std::vector<SourceNote> exchange(std::unique_ptr<HeldTree> refreshed) {
    refreshed->continue_from(*held_);
    standby_ = std::exchange(held_, std::move(refreshed));
    return with_filesystems(held_->notes());
  }
  Observation sample_node(const Wake& wake, MonotonicTime now);
  void add_workloads(Observation& observation, std::string_view subject, Scoring scoring);
  Observation sample_subjects(const Wake& wake, MonotonicTime now,
                              std::span<const CgroupId> subjects);
  bool add_some_workloads(Observation& observation, std::string_view subject, std::size_t& next,
                          std::size_t count);
  void resample_workloads(Observation& observation);
  // Before samples of the workloads related to `subject`.
  void begin_samples(Observation& observation, std::string_view subject, bool urgent);
  void add_statistics(Observation& observation, std::optional<MonotonicTime> since) const;
  void request_disk_usage(MonotonicTime now, Duration age_max);
  void set_writable_layers(WritableLayers layers) { layers_ = std::move(layers); }
  void set_processes(ProcessSource* processes) {
    processes_ = processes;
    scanned_at_.reset();
  }
  void set_memcgs(kernel::MemcgScan* scan) { held_->workloads().set_scan(scan); }
  void add_container_samples(WorkloadSample& sample) {
    sources::add_container_samples(tree_, sample, buffer_);
  }
  std::optional<MemoryKinds> memory_kinds(const kernel::CgroupDir& cgroup,
                                          std::vector<SourceNote>& notes);
  [[nodiscard]] NewCgroups& new_cgroups() { return held_->new_cgroups(); }
  [[nodiscard]] DiskWalker& walker() { return *walker_; }
  [[nodiscard]] FilesystemReader& filesystems() { return filesystems_; }
  [[nodiscard]] const TaskReader& tasks() const { return tasks_; }
  [[nodiscard]] const HeldWorkloads& workloads() const { return held_->workloads(); }
  [[nodiscard]] const std::string& pods_path() const { return held_->pods_path(); }

 private:
  [[nodiscard]] std::vector<SourceNote> with_filesystems(std::vector<SourceNote> notes) {
    filesystems_.refresh(notes);
    return notes;
  }
  // Whether a pass read the `count` cgroups with thresholds, because it costs less than their
  // files.
  bool pass_for(const Wake& wake, std::size_t count, std::vector<SourceNote>& notes);
  CgroupReader::CgroupReadings read_subject(const CgroupReader& reader, bool passed,
                                            std::vector<SourceNote>& notes);
  void update_subjects(Observation& observation) const;
  void score_workloads(Observation& observation, std::optional<MonotonicTime> since);
  Result<void> scan_processes(const NodeSample& node);

  const kernel::CgroupTree& tree_;
  const std::string proc_;
  std::shared_ptr<const Config> config_;  // for the next refresh()
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
  std::unique_ptr<HeldTree> held_;
  std::unique_ptr<HeldTree> standby_;  // null: there is none, or a thread refreshes it
  std::string buffer_;
};

// memory.stat of v2 waits for a lock that all of its readers take, once for each cgroup. Nothing is
// urgent at a recheck.
bool Observer::Reader::pass_for(const Wake& wake, std::size_t count,
                                std::vector<SourceNote>& notes) {
  return held_->workloads().pass_for(count, wake.source != WakeSource::recheck, notes);
}

CgroupReader::CgroupReadings Observer::Reader::read_subject(const CgroupReader& reader, bool passed,
                                                            std::vector<SourceNote>& notes) {
  const kernel::MemcgUsage* found =
      passed ? held_->workloads().passed(reader.cgroup().id()) : nullptr;
  if (found == nullptr) return reader.read(buffer_, notes);
  return reader.read_passed(found->usage, *found->inactive_file, buffer_, notes);
}

Observation Observer::Reader::sample_node(const Wake& wake, MonotonicTime now) {
  Observation observation;
  observation.at = now;
  observation.wake = wake;
  observation.node = node_.read(buffer_, observation.notes);
  const bool passed =
      pass_for(wake, held_->watched().size() + (held_->pods() ? 1 : 0), observation.notes);
  if (auto& pods = held_->pods()) {
    const auto reading = read_subject(*pods, passed, observation.notes);
    if (!reading.removed) observation.pods = to_sample(*pods, reading, 0);
    if (reading.removed) pods.reset();
  }
  std::vector<CgroupId> removed;
  for (const HeldTree::Watched& watched : held_->watched()) {
    const auto reading = read_subject(*watched.reader, passed, observation.notes);
    if (reading.removed) {
      removed.push_back(watched.reader->cgroup().id());
    } else {
      observation.watched.push_back(to_sample(*watched.reader, reading, watched.threshold));
    }
  }
  if (!removed.empty()) held_->drop_watched(removed);
  held_->own_limits().read(wake, now, observation.watched, observation.notes);
  observation.filesystems = filesystems_.read(now, observation.notes);
  observation.tasks = tasks_.read(now, observation.notes);
  note_missing_swap(*config_, observation);
  return observation;
}

Observation Observer::Reader::sample_subjects(const Wake& wake, MonotonicTime now,
                                              std::span<const CgroupId> subjects) {
  Observation observation;
  observation.at = now;
  observation.wake = wake;
  const auto selected = [&](CgroupId id) {
    return std::find(subjects.begin(), subjects.end(), id) != subjects.end();
  };
  if (selected(CgroupId{})) observation.node = node_.read(buffer_, observation.notes);
  const auto& pods = held_->pods();
  const auto nodes = std::ranges::count(subjects, CgroupId{});
  const bool passed =
      pass_for(wake, subjects.size() - static_cast<std::size_t>(nodes), observation.notes);
  if (pods && selected(pods->cgroup().id())) {
    const auto reading = read_subject(*pods, passed, observation.notes);
    if (!reading.removed) observation.pods = to_sample(*pods, reading, 0);
  }
  for (const HeldTree::Watched& watched : held_->watched()) {
    if (!selected(watched.reader->cgroup().id())) continue;
    const auto reading = read_subject(*watched.reader, passed, observation.notes);
    if (reading.removed) continue;
    observation.watched.push_back(to_sample(*watched.reader, reading, watched.threshold));
  }
  held_->own_limits().read_some(subjects, now, observation.watched, observation.notes);
  return observation;
}

bool Observer::Reader::add_some_workloads(Observation& observation, std::string_view subject,
                                          std::size_t& next, std::size_t count) {
  if (!observation.workloads) observation.workloads.emplace();
  HeldWorkloads& workloads = held_->workloads();
  if (next == 0 || workloads.pass_expired()) begin_samples(observation, subject, /*urgent=*/false);
  for (; next < workloads.size() && count > 0; ++next) {
    if (!is_related(workloads.at(next).path, subject)) continue;
    workloads.sample(next, *observation.workloads, observation.notes);
    --count;
  }
  if (next < workloads.size()) return true;
  workloads.drop_removed();
  return false;
}

void Observer::Reader::begin_samples(Observation& observation, std::string_view subject,
                                     bool urgent) {
  HeldWorkloads& workloads = held_->workloads();
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    if (is_related(workloads.at(i).path, subject)) ++wanted;
  }
  workloads.begin_samples(wanted, urgent, observation.notes);
}

// The pass that reads the candidates also reads the cgroups whose thresholds are decided on, and is
// newer than their own.
void Observer::Reader::update_subjects(Observation& observation) const {
  const auto update = [&](CgroupSample& subject) {
    const kernel::MemcgUsage* passed = held_->workloads().passed(subject.id);
    if (passed == nullptr) return;
    subject.usage = passed->usage;
    subject.inactive_file = passed->inactive_file;
  };
  if (observation.pods) update(*observation.pods);
  std::ranges::for_each(observation.watched, update);
}

void Observer::Reader::resample_workloads(Observation& observation) {
  held_->workloads().begin_samples(observation.workloads->size(), /*urgent=*/true,
                                   observation.notes);
  update_subjects(observation);
  std::erase_if(*observation.workloads, [&](WorkloadSample& sample) {
    return !held_->workloads().resample(sample, observation.notes);
  });
}

void Observer::Reader::add_workloads(Observation& observation, std::string_view subject,
                                     Scoring scoring) {
  auto& samples = observation.workloads.emplace();
  HeldWorkloads& workloads = held_->workloads();
  begin_samples(observation, subject, /*urgent=*/true);
  update_subjects(observation);
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    if (is_related(workloads.at(i).path, subject)) {
      workloads.sample(i, samples, observation.notes);
    }
  }
  workloads.drop_removed();
  if (!scoring.wanted || config_->ranking != Ranking::kernel || processes_ == nullptr) return;
  score_workloads(observation, scoring.since);
}

std::optional<MemoryKinds> Observer::Reader::memory_kinds(const kernel::CgroupDir& cgroup,
                                                          std::vector<SourceNote>& notes) {
  auto kinds = kernel::memory_kinds(cgroup, tree_.version()).optional();
  if (!kinds) return std::nullopt;
  const MemoryKinds passed = held_->workloads().read_kinds(cgroup.id(), notes);
  if (passed.anon) kinds->anon = passed.anon;
  if (passed.file) kinds->file = passed.file;
  if (passed.shmem) kinds->shmem = passed.shmem;
  return kinds;
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

void Observer::Reader::request_disk_usage(MonotonicTime now, Duration age_max) {
  std::vector<std::string> uids;
  for (const Workload* workload : held_->workloads().list()) {
    if (workload->pod_uid) uids.push_back(*workload->pod_uid);
  }
  FilesystemPlaces places = config_->filesystems;
  // Like reads, a walk must not block on a server.
  if (!filesystems_.has(Filesystem::nodefs)) places.nodefs.clear();
  walker_->request_walk(places, std::move(uids), now, age_max);
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
void Observer::make_standby_tree() {
  reader_->make_standby();
}
std::unique_ptr<HeldTree> Observer::take_standby_tree() {
  return reader_->take_standby();
}
void Observer::put_standby_tree(std::unique_ptr<HeldTree> standby) {
  reader_->put_standby(std::move(standby));
}
std::vector<SourceNote> Observer::exchange_tree(std::unique_ptr<HeldTree> refreshed) {
  return reader_->exchange(std::move(refreshed));
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
void Observer::request_disk_usage(MonotonicTime now, Duration age_max) {
  reader_->request_disk_usage(now, age_max);
}
void Observer::set_writable_layers(WritableLayers layers) {
  reader_->set_writable_layers(std::move(layers));
}
void Observer::set_memcgs(kernel::MemcgScan* scan) {
  reader_->set_memcgs(scan);
}

void Observer::set_processes(ProcessSource* processes) {
  reader_->set_processes(processes);
}
void Observer::add_container_samples(WorkloadSample& sample) {
  reader_->add_container_samples(sample);
}
std::optional<MemoryKinds> Observer::memory_kinds(const kernel::CgroupDir& cgroup,
                                                  std::vector<SourceNote>& notes) {
  return reader_->memory_kinds(cgroup, notes);
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
std::optional<kernel::HeldCgroup> Observer::held(CgroupId cgroup) const {
  return reader_->workloads().held(cgroup);
}
std::vector<const Workload*> Observer::workloads() const {
  return reader_->workloads().list();
}
bool Observer::has_new_cgroups() {
  return reader_->new_cgroups().any();
}
std::optional<std::span<const std::string>> Observer::new_cgroups() {
  return reader_->new_cgroups().created();
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
