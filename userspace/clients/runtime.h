// SPDX-License-Identifier: Apache-2.0
// The container runtime of the node (CRI v1: containerd, CRI-O): its disk usage, and the removal of
// unused containers and images.
//
// Every call blocks on the runtime, so the caller is a worker thread, never the loop. Each call has
// a deadline and can be cancelled. No connection is kept between calls: calls are rare, a unix
// socket opens in microseconds, and a restart of the runtime then needs no handling.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "clients/image_ages.h"
#include "model/filesystem.h"

namespace forestall::clients {

struct RuntimeOptions {
  // Of one read-only call: connecting, sending and the whole answer.
  Duration deadline = std::chrono::seconds(2);
  // Of one call that stops or removes something. Longer, because the runtime then deletes files,
  // often on a busy or full disk, and aborts halfway if the caller cancels.
  Duration removal_deadline = std::chrono::seconds(10);
  // Of one remove_…() call in total; objects not reached in time are kept and reported.
  Duration removal_budget = std::chrono::seconds(60);
  // Longer answers are refused (kubelet's value; gRPC's default, 4 MiB, is too small for a list of
  // several thousand images).
  std::size_t max_reply_bytes = std::size_t{16} << 20;
  // The image of the pods' sandboxes, by name or ID: kept, although no container refers to it.
  // Empty: the image in the runtime's own configuration, if the runtime reports it (containerd).
  std::string sandbox_image;
  // Kubelet's <root>/pods: a pod that has no directory there is gone. Empty: no pod counts as gone.
  std::string pods_directory;
  // Shared by all clients of a runtime. Null: every image counts as old.
  std::shared_ptr<ImageAges> image_ages = nullptr;
  // When readable (an eventfd), cancels everything: the current call ends at once, and later calls
  // fail with ECANCELED. -1: never. Not owned; must outlive the ContainerRuntime.
  int cancel_fd = -1;
};

struct RuntimeIdentity {
  std::string name;     // "containerd"
  std::string version;  // of the runtime

  friend bool operator==(const RuntimeIdentity&, const RuntimeIdentity&) = default;
};

struct RuntimeFilesystem {
  std::string directory;  // a directory on it, for statfs: "/var/lib/containerd/…"
  DiskUsage usage;        // by images or writable layers, as of the runtime's last measurement

  friend bool operator==(const RuntimeFilesystem&, const RuntimeFilesystem&) = default;
};

struct RuntimeFilesystems {
  RuntimeFilesystem imagefs;
  // Equal to imagefs if the runtime reports no separate one.
  RuntimeFilesystem containerfs;

  friend bool operator==(const RuntimeFilesystems&, const RuntimeFilesystems&) = default;
};

// One container of a pod. Only the last attempt of a restarted container is reported.
struct ContainerUsage {
  std::string id;
  std::string pod_uid;
  std::string container;     // its name in the pod
  DiskUsage writable_layer;  // unset fields are not measured (yet)
  // When it was measured: containerd measures every 10 s. Nothing: unknown.
  std::optional<std::chrono::sys_time<std::chrono::nanoseconds>> at;

  friend bool operator==(const ContainerUsage&, const ContainerUsage&) = default;
};

// The failures of one remove_…() call. They do not stop the other removals.
struct RemovalFailures {
  static constexpr std::size_t kKept = 16;

  std::uint32_t count = 0;
  std::vector<Error> first;  // the first kKept

  void add(Error error);
  friend bool operator==(const RemovalFailures&, const RemovalFailures&) = default;
};

struct DeadRemoval {
  std::uint32_t containers = 0;  // removed now, by this agent or another program
  std::uint32_t sandboxes = 0;
  RemovalFailures failures;

  friend bool operator==(const DeadRemoval&, const DeadRemoval&) = default;
};

struct ImageRemoval {
  std::uint32_t images = 0;  // removed now, by this agent or another program
  // Sum of the sizes that the runtime reported. An upper bound, because it includes layers that
  // other images share.
  Bytes freed;
  std::uint32_t in_use = 0;  // kept: a container refers to it
  std::uint32_t pinned = 0;  // kept: pinned by the runtime, or used by sandboxes
  RemovalFailures failures;
  std::uint32_t young = 0;  // kept: stored for less than ImageAges::kMinimum

  friend bool operator==(const ImageRemoval&, const ImageRemoval&) = default;
};

// Thread rule: blocking; one thread at a time, the owner's. Errors carry an errno: ENOENT,
// ECONNREFUSED and so on if no process listens on the socket, ETIMEDOUT after the deadline,
// ECANCELED, ENOSYS if the runtime does not implement the call, EMSGSIZE for an answer beyond the
// limit, EPROTO for an answer that is not gRPC, EAGAIN if the runtime reports itself unavailable, 0
// if only the text explains the failure.
class ContainerRuntime {
 public:
  virtual ~ContainerRuntime() = default;

  // Name and version. Also an error if the runtime does not support CRI v1.
  [[nodiscard]] virtual Result<RuntimeIdentity> identity() = 0;

  // Image and container filesystem (CRI ImageFsInfo; the first of each, as in kubelet).
  [[nodiscard]] virtual Result<RuntimeFilesystems> filesystems() = 0;

  // Disk usage of the containers of pods, identified by kubelet's labels io.kubernetes.pod.uid and
  // io.kubernetes.container.name. Containers without these labels are skipped.
  [[nodiscard]] virtual Result<std::vector<ContainerUsage>> container_stats() = 0;

  // Removes exited containers and empty sandboxes: all of pods that are gone, and of other pods
  // those that a newer instance has replaced (clients/dead_objects.h). An object that no longer
  // exists counts as removed. Errors: listing the containers or RuntimeOptions::pods_directory
  // failed.
  [[nodiscard]] virtual Result<DeadRemoval> remove_dead_containers() = 0;

  // Removes every image that no container (exited ones included) refers to, that is not pinned,
  // that sandboxes do not use, and that is old enough (kubelet's DeleteUnusedImages,
  // image_gc_manager.go). The largest image is removed first, so that the most space is freed if
  // the budget ends. The runtime would also remove an image in use, so nothing is removed unless
  // the containers could be listed.
  [[nodiscard]] virtual Result<ImageRemoval> remove_unused_images() = 0;

  // Lists the images for RuntimeOptions::image_ages.
  [[nodiscard]] virtual Result<void> note_images() = 0;
};

// A runtime at `endpoint`: "unix:///run/containerd/containerd.sock", or the absolute path alone, as
// in kubelet. This call sends nothing: a missing socket fails the first call, so that the agent may
// start before the runtime.
[[nodiscard]] Result<std::unique_ptr<ContainerRuntime>> connect(std::string_view endpoint,
                                                                RuntimeOptions options = {});

}  // namespace forestall::clients
