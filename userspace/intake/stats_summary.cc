// SPDX-License-Identifier: Apache-2.0
// Converts stats/v1alpha1 Summary to samples, key by key.
#include "intake/stats_summary.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "text/json_value.h"

namespace forestall::intake {
namespace {

// SystemContainerPods of types.go.
constexpr std::string_view kPodsContainer = "pods";

Result<std::optional<std::int64_t>> count_of(const text::JsonValue& object, std::string_view key) {
  const auto member = TRY(object.find(key));
  if (!member) return std::optional<std::int64_t>();
  return std::optional(static_cast<std::int64_t>(TRY(member->amount())));
}

Result<std::optional<Bytes>> bytes_of(const text::JsonValue& object, std::string_view key) {
  const auto count = TRY(count_of(object, key));
  return count ? std::optional(Bytes{*count}) : std::nullopt;
}

Result<FilesystemSample> read_filesystem(const text::JsonValue& fs) {
  FilesystemSample sample;
  sample.available = TRY(bytes_of(fs, "availableBytes"));
  sample.capacity = TRY(bytes_of(fs, "capacityBytes"));
  sample.inodes_free = TRY(count_of(fs, "inodesFree"));
  sample.inodes = TRY(count_of(fs, "inodes"));
  return sample;
}

Result<std::optional<FilesystemSample>> filesystem_at(const text::JsonValue& object,
                                                      std::string_view key) {
  const auto fs = TRY(object.find(key));
  if (!fs) return std::optional<FilesystemSample>();
  return std::optional(TRY(read_filesystem(*fs)));
}

// Disk usage of one pod, container or volume.
Result<DiskUsage> read_usage(const text::JsonValue& fs) {
  DiskUsage usage;
  usage.used = TRY(bytes_of(fs, "usedBytes"));
  usage.inodes = TRY(count_of(fs, "inodesUsed"));
  return usage;
}

Result<std::optional<DiskUsage>> usage_at(const text::JsonValue& object, std::string_view key) {
  const auto fs = TRY(object.find(key));
  if (!fs) return std::optional<DiskUsage>();
  return std::optional(TRY(read_usage(*fs)));
}

// workingSetBytes of the member "memory".
Result<std::optional<Bytes>> working_set_of(const text::JsonValue& object) {
  const auto memory = TRY(object.find("memory"));
  if (!memory) return std::optional<Bytes>();
  return bytes_of(*memory, "workingSetBytes");
}

Result<ContainerSample> read_container_stats(const text::JsonValue& object) {
  ContainerSample sample;
  sample.name = TRY(object.text("name"));
  sample.working_set = TRY(working_set_of(object));
  sample.rootfs = TRY(usage_at(object, "rootfs"));
  sample.logs = TRY(usage_at(object, "logs"));
  return sample;
}

Result<VolumeSample> read_volume_stats(const text::JsonValue& object) {
  VolumeSample sample;
  sample.name = TRY(object.text("name"));
  sample.usage = TRY(read_usage(object));
  return sample;
}

Result<PodStatistics> read_statistics(const text::JsonValue& pod) {
  PodStatistics statistics;
  TRY(pod.append_all("containers", read_container_stats, statistics.containers));
  TRY(pod.append_all("volume", read_volume_stats, statistics.volumes));
  statistics.ephemeral_storage = TRY(usage_at(pod, "ephemeral-storage"));
  return statistics;
}

Result<PodStatsEntry> read_pod_stats(const text::JsonValue& object) {
  PodStatsEntry entry;
  const text::JsonValue reference = TRY(object.at("podRef"));
  const text::JsonValue uid = TRY(reference.at("uid"));
  entry.uid = TRY(uid.string());
  if (entry.uid.empty()) return uid.wrong("must not be empty");
  entry.name = TRY(reference.text("name"));
  entry.pod_namespace = TRY(reference.text("namespace"));
  entry.working_set = TRY(working_set_of(object));
  if (const auto processes = TRY(object.find("process_stats"))) {
    if (const auto count = TRY(processes->find("process_count"))) {
      entry.processes = TRY(count->amount());
    }
  }
  entry.statistics = TRY(read_statistics(object));
  return entry;
}

// capacity = available + working set (pkg/kubelet/eviction/helpers.go makeSignalObservations()).
struct MemoryFigures {
  std::optional<Bytes> capacity;
  std::optional<Bytes> working_set;
};

Result<MemoryFigures> read_memory(const text::JsonValue& memory) {
  MemoryFigures figures;
  figures.working_set = TRY(bytes_of(memory, "workingSetBytes"));
  const auto available = TRY(bytes_of(memory, "availableBytes"));
  if (!available || !figures.working_set) return figures;
  std::int64_t sum = 0;
  if (__builtin_add_overflow(available->count, figures.working_set->count, &sum)) {
    return memory.wrong("availableBytes + workingSetBytes exceeds 63 bits");
  }
  figures.capacity = Bytes{sum};
  return figures;
}

Result<void> read_pods_cgroup(const text::JsonValue& containers, StatsSummary& summary) {
  return containers.each([&](const text::JsonValue& item) -> Result<void> {
    const std::string name = TRY(item.text("name"));
    const auto memory = TRY(item.find("memory"));
    if (name != kPodsContainer || !memory) return {};
    const MemoryFigures figures = TRY(read_memory(*memory));
    CgroupSample pods;
    pods.usage = figures.working_set;
    if (pods.usage) pods.inactive_file = Bytes{0};
    pods.limit = figures.capacity;
    summary.pods_cgroup = std::move(pods);
    return {};
  });
}

Result<void> read_node_memory(const text::JsonValue& memory, StatsSummary& summary) {
  const MemoryFigures figures = TRY(read_memory(memory));
  summary.memory.capacity = figures.capacity;
  summary.memory.usage = figures.working_set;
  if (figures.working_set) summary.memory.inactive_file = Bytes{0};
  summary.time = TRY(memory.text("time"));
  return {};
}

Result<void> read_node(const text::JsonValue& node, StatsSummary& summary) {
  summary.node = TRY(node.text("nodeName"));
  const auto memory = TRY(node.find("memory"));
  if (memory) TRY(read_node_memory(*memory, summary));
  const auto containers = TRY(node.find("systemContainers"));
  if (containers) TRY(read_pods_cgroup(*containers, summary));
  FilesystemSamples& filesystems = summary.filesystems;
  filesystems.nodefs = TRY(filesystem_at(node, "fs"));
  if (const auto runtime = TRY(node.find("runtime"))) {
    filesystems.imagefs = TRY(filesystem_at(*runtime, "imageFs"));
    filesystems.containerfs = TRY(filesystem_at(*runtime, "containerFs"));
  }
  filesystems.layout = layout_of(filesystems);
  if (const auto rlimit = TRY(node.find("rlimit"))) {
    summary.tasks.capacity = TRY(count_of(*rlimit, "maxpid"));
    summary.tasks.running = TRY(count_of(*rlimit, "curproc"));
  }
  return {};
}

// Refuses duplicate UIDs: kubelet's statistics have one entry per pod.
Result<void> read_pods(const text::JsonValue& pods, StatsSummary& summary) {
  std::unordered_map<std::string, std::size_t> seen;
  return pods.each([&](const text::JsonValue& item) -> Result<void> {
    PodStatsEntry entry = TRY(read_pod_stats(item));
    const auto [first, is_new] = seen.try_emplace(entry.uid, summary.pods.size());
    if (!is_new) {
      return item.wrong(
          fmt::format("podRef.uid: same UID as pods[{}]: {}", first->second, entry.uid));
    }
    summary.pods.push_back(std::move(entry));
    return {};
  });
}

// Whether two samples are of the same filesystem; nothing if figures are missing.
std::optional<bool> same(const FilesystemSample& a, const FilesystemSample& b) {
  if (!a.capacity || !b.capacity || !a.available || !b.available) return std::nullopt;
  const auto differ = [](const auto& x, const auto& y) { return x && y && *x != *y; };
  return a.capacity == b.capacity && a.available == b.available && !differ(a.inodes, b.inodes) &&
         !differ(a.inodes_free, b.inodes_free);
}

}  // namespace

std::optional<FilesystemLayout> layout_of(const FilesystemSamples& filesystems) {
  if (!filesystems.nodefs || !filesystems.imagefs) return std::nullopt;
  const std::optional<bool> shared = same(*filesystems.nodefs, *filesystems.imagefs);
  if (!shared) return std::nullopt;
  // An old kubelet prints no containerFs, and does not support split filesystems.
  const std::optional<bool> together = filesystems.containerfs
                                           ? same(*filesystems.imagefs, *filesystems.containerfs)
                                           : std::optional(true);
  if (together == false) return FilesystemLayout::split;
  return *shared ? FilesystemLayout::single : FilesystemLayout::imagefs;
}

Result<StatsSummary> parse_stats_summary(std::string_view json) {
  const text::JsonDocument document = TRY(text::JsonDocument::parse(json));
  const text::JsonValue root = document.root();
  StatsSummary summary;
  const auto node = TRY(root.find("node"));
  const auto pods = TRY(root.find("pods"));
  if (!node && !pods) {
    return error(
        "neither 'node' nor 'pods' is set: expected the output of kubelet's /stats/summary");
  }
  if (node) TRY(read_node(*node, summary));
  if (pods) TRY(read_pods(*pods, summary));
  return summary;
}

}  // namespace forestall::intake
