// SPDX-License-Identifier: Apache-2.0
// A signal is what a threshold watches. Most of Forestall uses only its row in kSignalTable; the
// places that depend on how it is measured compare its Measure (CONTRIBUTING.md lists them).
// Kubelet's signals have kubelet's names and meaning
// (pkg/kubelet/eviction/api/types.go).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace forestall {

enum class Signal : std::uint8_t {
  memory_available,
  allocatable_memory_available,
  nodefs_available,
  nodefs_inodes_free,
  imagefs_available,
  imagefs_inodes_free,
  containerfs_available,
  containerfs_inodes_free,
  pid_available,
  cgroup_memory_available,
  memory_until_oom,
  swap_available,
};

// What is short while a threshold on the signal is met (pkg/kubelet/eviction/helpers.go
// signalToResource). It decides the ranking and the node condition.
enum class Resource : std::uint8_t { memory, ephemeral_storage, inodes, pids };

// What the signal's amounts count.
enum class Unit : std::uint8_t { bytes, inodes, tasks };

// Whose amount the signal is.
enum class SubjectKind : std::uint8_t { node, pods_cgroup, watched_cgroup };

// What is read for the signal; policy/signals.h has the formulas.
enum class Measure : std::uint8_t {
  working_set,      // capacity or limit less working set
  memory_and_swap,  // MemAvailable + SwapFree
  swap,             // SwapFree
  filesystem,       // free bytes or free inodes, by the signal's unit
  tasks,            // min(pid_max, threads-max) less running tasks
};

// Which sources can see the signal reach its threshold.
enum class SignalWatch : std::uint8_t {
  usage_counter,  // every source of usage lines: the kernel counts the usage
  meminfo,        // usage lines too, but counters miss a part: PollSource reads /proc/meminfo
  capacity_poll,  // CapacitySource alone: no usage line, it polls what is left
};

// The filesystem that a signal is about.
enum class Filesystem : std::uint8_t { nodefs, imagefs, containerfs };

// The hard threshold that kubelet has by default (pkg/kubelet/eviction/defaults_linux.go).
struct DefaultThreshold {
  std::string_view limit;  // as evictionHard has it; empty: none
  int since_minor = 0;     // y of the first kubelet 1.y that has it
};

struct SignalRow {
  Signal signal{};
  std::string_view name;  // in configuration, JSON, metrics and messages
  Resource resource{};
  Unit unit{};
  SubjectKind subject{};
  Measure measure{};
  SignalWatch watch{};
  std::optional<Filesystem> filesystem = std::nullopt;
  // Forestall's own configuration key for thresholds on it; empty: one of kubelet's nine signals,
  // set by evictionHard and its neighbours. For a node signal the key is a v1.OwnThreshold.
  std::string_view own_key = {};
  DefaultThreshold kubelet_default = {};
};

// One row for each signal, in the order of the enumeration.
inline constexpr std::array kSignalTable{
    SignalRow{.signal = Signal::memory_available,
              .name = "memory.available",
              .resource = Resource::memory,
              .unit = Unit::bytes,
              .subject = SubjectKind::node,
              .measure = Measure::working_set,
              .watch = SignalWatch::usage_counter,
              .kubelet_default = {"100Mi"}},
    SignalRow{.signal = Signal::allocatable_memory_available,
              .name = "allocatableMemory.available",
              .resource = Resource::memory,
              .unit = Unit::bytes,
              .subject = SubjectKind::pods_cgroup,
              .measure = Measure::working_set,
              .watch = SignalWatch::usage_counter},
    SignalRow{.signal = Signal::nodefs_available,
              .name = "nodefs.available",
              .resource = Resource::ephemeral_storage,
              .unit = Unit::bytes,
              .subject = SubjectKind::node,
              .measure = Measure::filesystem,
              .watch = SignalWatch::capacity_poll,
              .filesystem = Filesystem::nodefs,
              .kubelet_default = {"10%"}},
    SignalRow{.signal = Signal::nodefs_inodes_free,
              .name = "nodefs.inodesFree",
              .resource = Resource::inodes,
              .unit = Unit::inodes,
              .subject = SubjectKind::node,
              .measure = Measure::filesystem,
              .watch = SignalWatch::capacity_poll,
              .filesystem = Filesystem::nodefs,
              .kubelet_default = {"5%"}},
    SignalRow{.signal = Signal::imagefs_available,
              .name = "imagefs.available",
              .resource = Resource::ephemeral_storage,
              .unit = Unit::bytes,
              .subject = SubjectKind::node,
              .measure = Measure::filesystem,
              .watch = SignalWatch::capacity_poll,
              .filesystem = Filesystem::imagefs,
              .kubelet_default = {"15%"}},
    SignalRow{.signal = Signal::imagefs_inodes_free,
              .name = "imagefs.inodesFree",
              .resource = Resource::inodes,
              .unit = Unit::inodes,
              .subject = SubjectKind::node,
              .measure = Measure::filesystem,
              .watch = SignalWatch::capacity_poll,
              .filesystem = Filesystem::imagefs,
              .kubelet_default = {"5%", 30}},
    SignalRow{.signal = Signal::containerfs_available,
              .name = "containerfs.available",
              .resource = Resource::ephemeral_storage,
              .unit = Unit::bytes,
              .subject = SubjectKind::node,
              .measure = Measure::filesystem,
              .watch = SignalWatch::capacity_poll,
              .filesystem = Filesystem::containerfs},
    SignalRow{.signal = Signal::containerfs_inodes_free,
              .name = "containerfs.inodesFree",
              .resource = Resource::inodes,
              .unit = Unit::inodes,
              .subject = SubjectKind::node,
              .measure = Measure::filesystem,
              .watch = SignalWatch::capacity_poll,
              .filesystem = Filesystem::containerfs},
    SignalRow{.signal = Signal::pid_available,
              .name = "pid.available",
              .resource = Resource::pids,
              .unit = Unit::tasks,
              .subject = SubjectKind::node,
              .measure = Measure::tasks,
              .watch = SignalWatch::capacity_poll},
    SignalRow{.signal = Signal::cgroup_memory_available,
              .name = "cgroupMemory.available",
              .resource = Resource::memory,
              .unit = Unit::bytes,
              .subject = SubjectKind::watched_cgroup,
              .measure = Measure::working_set,
              .watch = SignalWatch::usage_counter,
              .own_key = "watch"},
    SignalRow{.signal = Signal::memory_until_oom,
              .name = "memory.untilOom",
              .resource = Resource::memory,
              .unit = Unit::bytes,
              .subject = SubjectKind::node,
              .measure = Measure::memory_and_swap,
              .watch = SignalWatch::meminfo,
              .own_key = "untilOom"},
    SignalRow{.signal = Signal::swap_available,
              .name = "swap.available",
              .resource = Resource::memory,
              .unit = Unit::bytes,
              .subject = SubjectKind::node,
              .measure = Measure::swap,
              .watch = SignalWatch::capacity_poll,
              .own_key = "swap"},
};

[[nodiscard]] constexpr const SignalRow& row_of(Signal signal) {
  return kSignalTable[static_cast<std::size_t>(signal)];
}

inline constexpr auto kSignals = [] {
  std::array<Signal, kSignalTable.size()> signals{};
  for (std::size_t i = 0; i < signals.size(); ++i) signals[i] = kSignalTable[i].signal;
  return signals;
}();

static_assert(
    [] {
      for (std::size_t i = 0; i < kSignalTable.size(); ++i) {
        if (static_cast<std::size_t>(kSignalTable[i].signal) != i) return false;
      }
      return true;
    }(),
    "rows stand in the order of the enumeration");

// One of kubelet's nine. The others are set by keys of Forestall's own only.
[[nodiscard]] constexpr bool is_kubelets(Signal signal) {
  return row_of(signal).own_key.empty();
}
[[nodiscard]] constexpr Resource resource_of(Signal signal) {
  return row_of(signal).resource;
}
[[nodiscard]] constexpr Unit unit_of(Signal signal) {
  return row_of(signal).unit;
}
[[nodiscard]] constexpr std::optional<Filesystem> filesystem_of(Signal signal) {
  return row_of(signal).filesystem;
}
[[nodiscard]] constexpr bool is_of_watched_cgroup(Signal signal) {
  return row_of(signal).subject == SubjectKind::watched_cgroup;
}
// Whether policy/lines.cc makes usage lines for it. Without one, it is unknown how much a victim
// will give back, and neither the watchdog, the guard nor pre-ranking serves the signal.
[[nodiscard]] constexpr bool has_usage_line(Signal signal) {
  return row_of(signal).watch != SignalWatch::capacity_poll;
}

// Empty for what is no signal.
[[nodiscard]] constexpr std::string_view to_string(Signal signal) {
  return static_cast<std::size_t>(signal) < kSignalTable.size() ? row_of(signal).name : "";
}
[[nodiscard]] std::optional<Signal> parse_signal(std::string_view text);

// The word that kubelet prints.
[[nodiscard]] std::string_view to_string(Resource resource);
[[nodiscard]] std::string_view to_string(Filesystem filesystem);

}  // namespace forestall
