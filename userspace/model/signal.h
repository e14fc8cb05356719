// SPDX-License-Identifier: Apache-2.0
// A signal is the value that a threshold watches. Names and meaning are kubelet's
// (pkg/kubelet/eviction/api/types.go), except those marked as Forestall's own. The resource of a
// signal is what is short when it is met; its name is the one that kubelet prints.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace forestall {

enum class Signal : std::uint8_t {
  // MemTotal - working set of the whole node.
  memory_available,
  // Limit of the pods cgroup (kubepods) - its working set.
  allocatable_memory_available,
  // Free space and inodes of the filesystem that holds kubelet's directory.
  nodefs_available,
  nodefs_inodes_free,
  // Of the filesystem that holds images (and, in the imagefs layout, writable layers).
  imagefs_available,
  imagefs_inodes_free,
  // Of the filesystem that holds writable layers; its thresholds are derived
  // (policy/containerfs.h).
  containerfs_available,
  containerfs_inodes_free,
  // min(pid_max, threads-max) - tasks running.
  pid_available,
  // Forestall's own: limit of one watched cgroup - its working set.
  cgroup_memory_available,
  // Forestall's own: MemAvailable + SwapFree of the node, the memory that can be allocated before
  // the kernel's OOM killer runs, by the kernel's own estimate.
  memory_until_oom,
};

inline constexpr std::array kSignals{
    Signal::memory_available,      Signal::allocatable_memory_available,
    Signal::nodefs_available,      Signal::nodefs_inodes_free,
    Signal::imagefs_available,     Signal::imagefs_inodes_free,
    Signal::containerfs_available, Signal::containerfs_inodes_free,
    Signal::pid_available,         Signal::cgroup_memory_available,
    Signal::memory_until_oom};

// Whether it is one of kubelet's nine signals. The others are set only by Forestall's own keys.
[[nodiscard]] constexpr bool is_kubelets(Signal signal) {
  return signal != Signal::cgroup_memory_available && signal != Signal::memory_until_oom;
}

// The resource that is short (pkg/kubelet/eviction/helpers.go signalToResource).
enum class Resource : std::uint8_t { memory, ephemeral_storage, inodes, pids };

// The filesystem of a signal; nullopt for other signals.
enum class Filesystem : std::uint8_t { nodefs, imagefs, containerfs };

[[nodiscard]] std::string_view to_string(Signal signal);
[[nodiscard]] std::optional<Signal> parse_signal(std::string_view text);

[[nodiscard]] std::string_view to_string(Resource resource);
[[nodiscard]] Resource resource_of(Signal signal);

[[nodiscard]] std::string_view to_string(Filesystem filesystem);
[[nodiscard]] std::optional<Filesystem> filesystem_of(Signal signal);

}  // namespace forestall
