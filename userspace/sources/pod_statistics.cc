// SPDX-License-Identifier: Apache-2.0
#include "sources/pod_statistics.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/unique_fd.h"
#include "kernel/tree_usage.h"

namespace forestall::sources {
namespace {

struct VolumePlugin {
  const char* directory;
  bool ephemeral;  // counts as the pod's ephemeral storage (pkg/volume/util IsLocalEphemeralVolume)
};
// A '/' in a plugin's name is '~' in its directory name.
constexpr std::array kPlugins{VolumePlugin{"kubernetes.io~empty-dir", true},
                              VolumePlugin{"kubernetes.io~configmap", true},
                              VolumePlugin{"kubernetes.io~git-repo", true},
                              VolumePlugin{"kubernetes.io~downward-api", false},
                              VolumePlugin{"kubernetes.io~secret", false},
                              VolumePlugin{"kubernetes.io~projected", false}};

struct CloseStream {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

struct Entry {
  std::string name;
  bool directory = false;
};

UniqueFd open_directory(int at, const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  return UniqueFd(::openat(at, path.c_str(), kFlags));
}

std::optional<struct stat> evaluate_at(int at, const std::string& name) {
  struct stat found {};
  if (::fstatat(at, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return found;
}

// The entries of a directory, sorted by name. Used only for directories of names, so the size is
// bounded by a pod's spec.
Result<std::vector<Entry>> list(const UniqueFd& directory, const std::string& name) {
  UniqueFd copy = open_directory(directory.get(), ".");
  std::unique_ptr<DIR, CloseStream> stream(copy ? ::fdopendir(copy.get()) : nullptr);
  if (!stream) return errno_error("open", name);
  (void)copy.release();
  std::vector<Entry> entries;
  for (errno = 0; const dirent* entry = ::readdir(stream.get()); errno = 0) {
    const std::string_view found = entry->d_name;
    if (found == "." || found == "..") continue;
    const auto attributes = evaluate_at(directory.get(), entry->d_name);
    if (attributes) entries.push_back({entry->d_name, S_ISDIR(attributes->st_mode)});
  }
  if (errno != 0) return errno_error("readdir", name);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

bool is_absent(const Error& failure) {
  return failure.code == ENOENT || failure.code == ENOTDIR || failure.code == ELOOP;
}

// The name comes from a cgroup's; it must not lead out of its directory.
bool is_plain_name(std::string_view uid) {
  return !uid.empty() && uid.front() != '.' && uid.find('/') == std::string_view::npos;
}

void add(const DiskUsage& part, DiskUsage& sum) {
  if (part.used) sum.used = sum.used.value_or(Bytes{0}) + *part.used;
  if (part.inodes) sum.inodes = sum.inodes.value_or(0) + *part.inodes;
}

// Measures the parts of one pod into its statistics.
class PodMeasure {
 public:
  PodMeasure(const std::atomic<bool>& cancelled, std::vector<SourceNote>& notes)
      : cancelled_(cancelled), notes_(notes) {
    statistics_.ephemeral_storage = DiskUsage{Bytes{0}, 0};
  }

  Result<void> add_files(const std::string& path) {
    const UniqueFd pod = open_directory(AT_FDCWD, path);
    if (!pod) return report(errno_error("open", path));
    const auto own = evaluate_at(pod.get(), ".");
    device_ = own ? own->st_dev : 0;
    if (const auto hosts = TRY(measure(pod.get(), "etc-hosts", path))) add_ephemeral(*hosts);
    for (const VolumePlugin& plugin : kPlugins) {
      const auto place = std::string("volumes/") + plugin.directory;
      const UniqueFd directory = open_directory(pod.get(), place);
      if (!directory) {
        TRY(report(errno_error("open", path + "/" + place)));
        continue;
      }
      TRY(add_volumes(directory, plugin, path + "/" + place));
    }
    return {};
  }

  Result<void> add_logs(const std::string& path) {
    const UniqueFd pod = open_directory(AT_FDCWD, path);
    if (!pod) return report(errno_error("open", path));
    const auto entries = list(pod, path);
    if (!entries) return report(entries.error());
    for (const Entry& entry : *entries) {
      const auto usage = TRY(measure(pod.get(), entry.name, path));
      if (!usage) continue;
      add_ephemeral(*usage);
      if (entry.directory) container_of(statistics_, entry.name).logs = *usage;
    }
    return {};
  }

  PodStatistics take() { return std::move(statistics_); }

 private:
  Result<void> add_volumes(const UniqueFd& directory, const VolumePlugin& plugin,
                           const std::string& path) {
    const auto entries = list(directory, path);
    if (!entries) return report(entries.error());
    for (const Entry& entry : *entries) {
      const auto place = evaluate_at(directory.get(), entry.name);
      const auto usage = TRY(measure(directory.get(), entry.name, path));
      if (!usage) continue;
      statistics_.volumes.push_back({entry.name, *usage});
      if (plugin.ephemeral && place && place->st_dev == device_) add_ephemeral(*usage);
    }
    return {};
  }

  // Nullopt if it does not exist. Fails only with ECANCELED.
  Result<std::optional<DiskUsage>> measure(int at, const std::string& name,
                                           const std::string& path) {
    const auto measured = kernel::measure_tree(at, name, cancelled_);
    if (!measured) {
      TRY(report(measured.error().in(path)));
      return std::optional<DiskUsage>();
    }
    if (!measured->problem.empty()) notes_.push_back({path + "/" + name, measured->problem});
    return std::optional(DiskUsage{measured->used, measured->inodes});
  }

  Result<void> report(const Error& failure) {
    if (failure.code == ECANCELED) return failure;
    if (!is_absent(failure)) notes_.push_back({"disk usage", failure.text()});
    return {};
  }

  void add_ephemeral(const DiskUsage& part) { add(part, *statistics_.ephemeral_storage); }

  const std::atomic<bool>& cancelled_;
  std::vector<SourceNote>& notes_;
  dev_t device_ = 0;
  PodStatistics statistics_;
};

}  // namespace

Result<PodLogs> list_pod_logs(const std::string& pod_logs) {
  PodLogs logs;
  // Unlike its contents, the directory itself may be a link to another filesystem.
  const UniqueFd directory(::open(pod_logs.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory && errno == ENOENT) return logs;
  if (!directory) return errno_error("open", pod_logs);
  const auto entries = TRY(list(directory, pod_logs));
  for (const Entry& entry : entries) {
    const auto last = entry.name.rfind('_');  // none of the three parts contains one
    if (!entry.directory || last == std::string::npos) continue;
    logs.emplace(entry.name.substr(last + 1), entry.name);
  }
  return logs;
}

Result<PodStatistics> measure_pod(const FilesystemPlaces& places, const std::string& uid,
                                  const PodLogs& logs, const std::atomic<bool>& cancelled,
                                  std::vector<SourceNote>& notes) {
  if (!is_plain_name(uid)) return Error{EINVAL, "pod UID \"" + uid + "\""};
  PodMeasure pod(cancelled, notes);
  if (!places.nodefs.empty()) TRY(pod.add_files(places.nodefs + "/pods/" + uid));
  const auto [first, last] = logs.equal_range(uid);
  for (auto entry = first; entry != last; ++entry) {
    TRY(pod.add_logs(places.pod_logs + "/" + entry->second));
  }
  return pod.take();
}

ContainerSample& container_of(PodStatistics& statistics, std::string_view name) {
  auto& containers = statistics.containers;
  const auto found =
      std::find_if(containers.begin(), containers.end(),
                   [&](const ContainerSample& sample) { return sample.name == name; });
  if (found != containers.end()) return *found;
  ContainerSample added;
  added.name = name;
  return containers.emplace_back(std::move(added));
}

void add_writable_layers(const std::vector<ContainerSample>& layers, PodStatistics& statistics) {
  for (const ContainerSample& layer : layers) {
    if (!layer.rootfs) continue;
    container_of(statistics, layer.name).rootfs = layer.rootfs;
    if (statistics.ephemeral_storage) add(*layer.rootfs, *statistics.ephemeral_storage);
  }
}

}  // namespace forestall::sources
