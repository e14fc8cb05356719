// SPDX-License-Identifier: Apache-2.0
// The three limits, and the evictions that follow.
#include "policy/storage_limits.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "policy/disk_usage.h"
#include "policy/pod_facts.h"
#include "policy/pod_requests.h"
#include "policy/rank.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

struct Violation {
  EvictionCause cause = EvictionCause::threshold;
  std::string message;
};

template <typename Sample>
const Sample* find_named(const std::vector<Sample>& samples, const std::string& name) {
  const auto found = std::find_if(samples.begin(), samples.end(),
                                  [&](const Sample& each) { return each.name == name; });
  return found == samples.end() ? nullptr : &*found;
}

std::optional<Violation> empty_dir(const Pod& pod, const PodStatistics& statistics) {
  for (const PodVolume& volume : pod.volumes) {
    if (volume.kind != VolumeKind::empty_dir) continue;
    if (!volume.size_limit || volume.size_limit->nanos <= 0) continue;
    const VolumeSample* sample = find_named(statistics.volumes, volume.name);
    if (sample == nullptr || !sample->usage.used) continue;
    if (binary(sample->usage.used->count) <= *volume.size_limit) continue;
    return Violation{EvictionCause::empty_dir_limit, "Usage of EmptyDir volume \"" + volume.name +
                                                         "\" exceeds the limit \"" +
                                                         volume.size_limit->text() + "\". "};
  }
  return std::nullopt;
}

std::optional<Violation> whole_pod(const Pod& pod, const WorkloadSample& sample) {
  const auto limit = pod_limit(pod, &ResourceList::ephemeral_storage);
  if (!limit) return std::nullopt;
  const Bytes used = ephemeral_storage(sample).used.value_or(Bytes{0});
  if (binary(used.count) <= *limit) return std::nullopt;
  return Violation{EvictionCause::pod_storage_limit,
                   "Pod ephemeral local storage usage exceeds the total limit of containers " +
                       limit->text() + ". "};
}

Bytes used_by(const std::optional<DiskUsage>& part) {
  return part ? part->used.value_or(Bytes{0}) : Bytes{0};
}

std::optional<Violation> container(const Pod& pod, const PodStatistics& statistics,
                                   FilesystemLayout layout) {
  for (const ContainerSample& sample : statistics.containers) {
    const PodContainer* declared = find_named(pod.containers, sample.name);
    if (declared == nullptr) continue;
    const auto& limit = declared->limits.ephemeral_storage;
    if (!limit || limit->nanos == 0) continue;
    Bytes used = used_by(sample.logs);
    if (layout == FilesystemLayout::single) used = add(used, used_by(sample.rootfs));
    if (binary(used.count) <= *limit) continue;
    return Violation{EvictionCause::container_storage_limit,
                     "Container " + sample.name + " exceeded its local ephemeral storage limit \"" +
                         limit->text() + "\". "};
  }
  return std::nullopt;
}

std::optional<Violation> violation_of(const WorkloadSample& sample, FilesystemLayout layout) {
  const Pod* pod = sample.workload.pod.get();
  if (pod == nullptr || !sample.statistics || !is_active(*pod)) return std::nullopt;
  if (auto found = empty_dir(*pod, *sample.statistics)) return found;
  if (auto found = whole_pod(*pod, sample)) return found;
  return container(*pod, *sample.statistics, layout);
}

using Violator = std::pair<const WorkloadSample*, Violation>;

std::vector<Violator> violators(const std::vector<WorkloadSample>& workloads,
                                FilesystemLayout layout) {
  std::vector<Violator> found;
  for (const WorkloadSample& sample : workloads) {
    if (auto violation = violation_of(sample, layout)) {
      found.emplace_back(&sample, std::move(*violation));
    }
  }
  std::sort(found.begin(), found.end(), [](const Violator& a, const Violator& b) {
    const Workload& left = a.first->workload;
    const Workload& right = b.first->workload;
    return std::tie(left.path, left.cgroup, left.name, left.pod_uid) <
           std::tie(right.path, right.cgroup, right.name, right.pod_uid);
  });
  return found;
}

}  // namespace

void storage_limit_evictions(const Config& config, const Observation& observation,
                             const Exclusions& exclusions, std::vector<Candidate>& considered,
                             std::vector<Eviction>& evictions) {
  if (!config.local_storage_isolation || !observation.workloads) return;
  const auto layout = observation.filesystems.layout.value_or(FilesystemLayout::single);
  const RankBy by{.signal = Signal::nodefs_available, .layout = layout, .compat = config.compat};
  for (auto& [sample, violation] : violators(*observation.workloads, layout)) {
    const Exclusion exclusion = exclusions.of(*sample);
    considered.push_back({*sample, rank_key(*sample, by), exclusion});
    if (exclusion != Exclusion::none) continue;
    Eviction eviction;
    eviction.candidate = considered.size() - 1;
    eviction.cause = violation.cause;
    eviction.grace = config.compat.hard_grace;
    eviction.message = std::move(violation.message);
    eviction.metric_signal = to_string(violation.cause);
    evictions.push_back(std::move(eviction));
  }
}

}  // namespace forestall::policy
