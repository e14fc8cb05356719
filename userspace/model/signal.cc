// SPDX-License-Identifier: Apache-2.0
#include "model/signal.h"

namespace forestall {

std::string_view to_string(Signal signal) {
  switch (signal) {
    case Signal::memory_available: return "memory.available";
    case Signal::allocatable_memory_available: return "allocatableMemory.available";
    case Signal::nodefs_available: return "nodefs.available";
    case Signal::nodefs_inodes_free: return "nodefs.inodesFree";
    case Signal::imagefs_available: return "imagefs.available";
    case Signal::imagefs_inodes_free: return "imagefs.inodesFree";
    case Signal::containerfs_available: return "containerfs.available";
    case Signal::containerfs_inodes_free: return "containerfs.inodesFree";
    case Signal::pid_available: return "pid.available";
    case Signal::cgroup_memory_available: return "cgroupMemory.available";
    case Signal::memory_until_oom: return "memory.untilOom";
  }
  return "";
}

std::optional<Signal> parse_signal(std::string_view text) {
  for (const Signal signal : kSignals) {
    if (to_string(signal) == text) return signal;
  }
  return std::nullopt;
}

std::string_view to_string(Resource resource) {
  switch (resource) {
    case Resource::memory: return "memory";
    case Resource::ephemeral_storage: return "ephemeral-storage";
    case Resource::inodes: return "inodes";
    case Resource::pids: return "pids";
  }
  return "";
}

Resource resource_of(Signal signal) {
  switch (signal) {
    case Signal::memory_available:
    case Signal::allocatable_memory_available:
    case Signal::cgroup_memory_available:
    case Signal::memory_until_oom: return Resource::memory;
    case Signal::nodefs_available:
    case Signal::imagefs_available:
    case Signal::containerfs_available: return Resource::ephemeral_storage;
    case Signal::nodefs_inodes_free:
    case Signal::imagefs_inodes_free:
    case Signal::containerfs_inodes_free: return Resource::inodes;
    case Signal::pid_available: return Resource::pids;
  }
  return Resource::memory;
}

std::string_view to_string(Filesystem filesystem) {
  switch (filesystem) {
    case Filesystem::nodefs: return "nodefs";
    case Filesystem::imagefs: return "imagefs";
    case Filesystem::containerfs: return "containerfs";
  }
  return "";
}

std::optional<Filesystem> filesystem_of(Signal signal) {
  switch (signal) {
    case Signal::nodefs_available:
    case Signal::nodefs_inodes_free: return Filesystem::nodefs;
    case Signal::imagefs_available:
    case Signal::imagefs_inodes_free: return Filesystem::imagefs;
    case Signal::containerfs_available:
    case Signal::containerfs_inodes_free: return Filesystem::containerfs;
    default: return std::nullopt;
  }
}

}  // namespace forestall
