// SPDX-License-Identifier: Apache-2.0
// Filesystems of the eviction signals (pkg/kubelet/eviction/api/types.go) and their usage.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/signal.h"

namespace forestall {

// Where images and writable layers are: on the filesystem of kubelet's directory; both on another
// one; images on another one and writable layers with kubelet's directory.
enum class FilesystemLayout : std::uint8_t { single, imagefs, split };

// "single", "imagefs", "split".
[[nodiscard]] std::string_view to_string(FilesystemLayout layout);
[[nodiscard]] std::optional<FilesystemLayout> parse_filesystem_layout(std::string_view text);

struct FilesystemSample {
  std::optional<Bytes> available;  // to unprivileged users (f_bavail)
  std::optional<Bytes> capacity;
  std::optional<std::int64_t> inodes_free;
  std::optional<std::int64_t> inodes;
  std::optional<MonotonicTime> at;  // when it was read; nullopt: with the observation

  friend bool operator==(const FilesystemSample&, const FilesystemSample&) = default;
};

struct FilesystemSamples {
  std::optional<FilesystemLayout> layout;  // nullopt: not known yet
  std::optional<FilesystemSample> nodefs;
  std::optional<FilesystemSample> imagefs;
  std::optional<FilesystemSample> containerfs;

  [[nodiscard]] const std::optional<FilesystemSample>& of(Filesystem filesystem) const {
    if (filesystem == Filesystem::nodefs) return nodefs;
    return filesystem == Filesystem::imagefs ? imagefs : containerfs;
  }
  friend bool operator==(const FilesystemSamples&, const FilesystemSamples&) = default;
};

// Usage of a filesystem by one owner.
struct DiskUsage {
  std::optional<Bytes> used;
  std::optional<std::int64_t> inodes;

  friend bool operator==(const DiskUsage&, const DiskUsage&) = default;
};

// Tasks on the node and their limit.
struct TaskSample {
  std::optional<std::int64_t> capacity;  // min(pid_max, threads-max)
  std::optional<std::int64_t> running;
  std::optional<MonotonicTime> at;  // when it was read; nullopt: with the observation

  friend bool operator==(const TaskSample&, const TaskSample&) = default;
};

}  // namespace forestall
