// SPDX-License-Identifier: Apache-2.0
// The container runtime of the node (CRI v1: containerd, CRI-O): what it holds on disk, and how to
// be rid of what nobody needs any more.
//
// Every call waits for the runtime, so the caller is a worker thread, never the loop. Each one has
// a deadline and can be called off. No connection is kept between calls: they are few, a unix
// socket opens in microseconds, and a runtime that was restarted meanwhile makes no difference.
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
#include "model/filesystem.h"

namespace forestall::clients {

struct RuntimeOptions {
  // Of one call that reads: connecting, asking and the whole answer.
  Duration deadline = std::chrono::seconds(2);
  // Of one call that stops or removes something. Longer, because the runtime deletes files in it,
  // on a disk that is busy or full just then, and gives up half way when the caller does.
  Duration removal_deadline = std::chrono::seconds(10);
  // Of one remove_…() as a whole; what is not reached in time is left and reported.
  Duration removal_budget = std::chrono::seconds(60);
  // Answers beyond this are refused (kubelet's value; gRPC's own, 4 MiB, is too small for a list of
  // some thousand images).
  std::size_t max_reply_bytes = std::size_t{16} << 20;
  // The image of the pods' sandboxes, by name or ID: kept, although no container refers to it.
  // Empty: the one the runtime names in its own configuration, as far as it does (containerd).
  std::string sandbox_image;
  // Polls readable (an eventfd) to call everything off: the call under way ends at once and later
  // ones fail with ECANCELED. -1: nothing does. Not owned; must outlive the ContainerRuntime.
  int cancel_fd = -1;
};

struct RuntimeIdentity {
  std::string name;     // "containerd"
  std::string version;  // its own

  friend bool operator==(const RuntimeIdentity&, const RuntimeIdentity&) = default;
};

struct RuntimeFilesystem {
  std::string directory;  // a directory on it, for statfs: "/var/lib/containerd/…"
  DiskUsage usage;        // by images or writable layers; as old as the runtime's last measurement

  friend bool operator==(const RuntimeFilesystem&, const RuntimeFilesystem&) = default;
};

struct RuntimeFilesystems {
  RuntimeFilesystem imagefs;
  // Equal to imagefs when the runtime reports none of its own.
  RuntimeFilesystem containerfs;

  friend bool operator==(const RuntimeFilesystems&, const RuntimeFilesystems&) = default;
};

// One container of a pod. Of a container that was restarted only the last attempt is told.
struct ContainerUsage {
  std::string id;
  std::string pod_uid;
  std::string container;     // its name in the pod
  DiskUsage writable_layer;  // what is not measured (yet) is absent
  // When it was measured: containerd does so every 10 s. Nothing: unknown.
  std::optional<std::chrono::sys_time<std::chrono::nanoseconds>> at;

  friend bool operator==(const ContainerUsage&, const ContainerUsage&) = default;
};

// The failures of one remove_…(). They never keep the rest from being removed.
struct RemovalFailures {
  static constexpr std::size_t kKept = 16;

  std::uint32_t count = 0;
  std::vector<Error> first;  // the first kKept

  void add(Error error);
  friend bool operator==(const RemovalFailures&, const RemovalFailures&) = default;
};

struct DeadRemoval {
  std::uint32_t containers = 0;  // gone now, whoever removed them
  std::uint32_t sandboxes = 0;
  RemovalFailures failures;

  friend bool operator==(const DeadRemoval&, const DeadRemoval&) = default;
};

struct ImageRemoval {
  std::uint32_t images = 0;  // gone now, whoever removed them
  // Sum of what the runtime said they occupied. Layers shared with another image are in it, too:
  // an upper bound.
  Bytes freed;
  std::uint32_t in_use = 0;  // kept: a container refers to it
  std::uint32_t pinned = 0;  // kept: the runtime wants it, or sandboxes are made of it
  RemovalFailures failures;

  friend bool operator==(const ImageRemoval&, const ImageRemoval&) = default;
};

// Thread rule: blocking; one thread at a time, that of whoever owns it.
// Errors carry an errno: ENOENT, ECONNREFUSED and so on for a socket where nobody listens,
// ETIMEDOUT past the deadline, ECANCELED, ENOSYS for a call the runtime does not have, EMSGSIZE for
// an answer beyond the limit, EPROTO for one that is no gRPC, EAGAIN for a runtime that calls
// itself unavailable, 0 for what only its text explains.
class ContainerRuntime {
 public:
  virtual ~ContainerRuntime() = default;

  // Who answers. An error also when the runtime does not speak CRI v1.
  [[nodiscard]] virtual Result<RuntimeIdentity> identity() = 0;

  // Image and container filesystem (CRI ImageFsInfo; kubelet takes the first of each as well).
  [[nodiscard]] virtual Result<RuntimeFilesystems> filesystems() = 0;

  // Disk usage of the containers of pods, found by kubelet's labels io.kubernetes.pod.uid and
  // io.kubernetes.container.name. Containers without these labels are left out.
  [[nodiscard]] virtual Result<std::vector<ContainerUsage>> container_stats() = 0;

  // Removes every container that has exited and every sandbox that is not ready and in which
  // nothing runs, of whatever age (kubelet's DeleteAllUnusedContainers, container_gc.go). What is
  // gone already counts as removed. The error is that of listing them.
  [[nodiscard]] virtual Result<DeadRemoval> remove_dead_containers() = 0;

  // Removes every image that no container (dead ones included) refers to, that is not pinned and
  // not the sandboxes' own (kubelet's DeleteUnusedImages, image_gc_manager.go). CRI tells neither
  // when an image was pulled nor when it was last used; the largest goes first, so that a budget
  // that runs out has freed the most. The runtime would remove an image in use without a word,
  // which is why nothing is removed unless the containers could be listed.
  [[nodiscard]] virtual Result<ImageRemoval> remove_unused_images() = 0;
};

// A runtime at `endpoint`: "unix:///run/containerd/containerd.sock", or the bare absolute path, as
// the kubelet takes it. Nothing is sent yet: a socket that is not there (yet) shows with the first
// call, so that an agent that starts before the runtime needs nothing special.
[[nodiscard]] Result<std::unique_ptr<ContainerRuntime>> connect(std::string_view endpoint,
                                                                RuntimeOptions options = {});

}  // namespace forestall::clients
