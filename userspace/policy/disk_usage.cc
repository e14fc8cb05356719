// SPDX-License-Identifier: Apache-2.0
// Sums over the parts of a pod.
#include "policy/disk_usage.h"

#include <algorithm>
#include <optional>

#include "policy/saturating.h"

namespace forestall::policy {
namespace {

struct PodStorageParts {
  bool rootfs = false;
  bool logs = false;
  bool volumes = false;
};

constexpr PodStorageParts kEverything{.rootfs = true, .logs = true, .volumes = true};

PodStorageParts parts_on(Filesystem filesystem, FilesystemLayout layout) {
  switch (layout) {
    case FilesystemLayout::single: return kEverything;
    case FilesystemLayout::imagefs:
      if (filesystem == Filesystem::nodefs) return {.rootfs = false, .logs = true, .volumes = true};
      return {.rootfs = true, .logs = false, .volumes = false};
    case FilesystemLayout::split:
      return filesystem == Filesystem::imagefs ? PodStorageParts{} : kEverything;
  }
  return {};
}

struct Sum {
  Bytes used;
  Bytes inodes;  // not bytes, but the same saturating arithmetic

  void add(const DiskUsage& usage) {
    used = policy::add(used, usage.used.value_or(Bytes{0}));
    inodes = policy::add(inodes, Bytes{usage.inodes.value_or(0)});
  }
  void add(const std::optional<DiskUsage>& usage) {
    if (usage) add(*usage);
  }
};

// Each volume of the pod once, from the first statistics with its name.
template <typename Counts>
void add_volumes(const PodStatistics& statistics, const Pod* pod, Counts counts, Sum& sum) {
  if (pod == nullptr) {
    for (const VolumeSample& each : statistics.volumes) sum.add(each.usage);
    return;
  }
  for (const PodVolume& volume : pod->volumes) {
    if (!counts(volume)) continue;
    const auto found =
        std::find_if(statistics.volumes.begin(), statistics.volumes.end(),
                     [&](const VolumeSample& each) { return each.name == volume.name; });
    if (found != statistics.volumes.end()) sum.add(found->usage);
  }
}

template <typename Counts>
DiskUsage add_up(const WorkloadSample& sample, const PodStorageParts& parts, Counts counts) {
  if (!sample.statistics) return {};
  Sum sum;
  for (const ContainerSample& each : sample.statistics->containers) {
    if (parts.rootfs) sum.add(each.rootfs);
    if (parts.logs) sum.add(each.logs);
  }
  if (parts.volumes) add_volumes(*sample.statistics, sample.workload.pod.get(), counts, sum);
  return {.used = sum.used, .inodes = sum.inodes.count};
}

}  // namespace

bool is_local_ephemeral(const PodVolume& volume) {
  switch (volume.kind) {
    case VolumeKind::empty_dir: return volume.default_medium && !volume.in_memory;
    case VolumeKind::config_map:
    case VolumeKind::git_repo: return true;
    case VolumeKind::host_path:
    case VolumeKind::other: return false;
  }
  return false;
}

bool is_local(const PodVolume& volume) {
  return volume.kind == VolumeKind::host_path || is_local_ephemeral(volume);
}

DiskUsage measured(const WorkloadSample& sample, Filesystem filesystem, FilesystemLayout layout) {
  return add_up(sample, parts_on(filesystem, layout), is_local);
}

DiskUsage ephemeral_storage(const WorkloadSample& sample) {
  if (!sample.statistics) return {};
  DiskUsage usage = add_up(sample, kEverything, is_local_ephemeral);
  if (const auto& whole = sample.statistics->ephemeral_storage) {
    if (whole->used) usage.used = whole->used;
    if (whole->inodes) usage.inodes = whole->inodes;
  }
  return usage;
}

}  // namespace forestall::policy
