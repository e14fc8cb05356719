// SPDX-License-Identifier: Apache-2.0
// A containerd for the test, from Debian's package, in a directory of its own, and the part of the
// kubelet that makes pods in it. The test makes one cgroup in every hierarchy for all pods. At the
// end it removes everything: processes, mounts, groups, files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/runtime.h"
#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::test {

// The cgroup of one test's pods: "/forestall-test-cri-<pid>" in each hierarchy of this machine.
class PodCgroup {
 public:
  PodCgroup();
  PodCgroup(const PodCgroup&) = delete;
  PodCgroup& operator=(const PodCgroup&) = delete;
  // Removes it with all groups in it, which must be empty of processes.
  ~PodCgroup();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<std::string> directories_;
};

// What is missing on this machine and how to install it; empty if nothing is.
[[nodiscard]] std::string missing_for_containerd();

class ContainerdRun {
 public:
  static constexpr const char* kSandboxImage = "localhost/pause:1";

  // REQUIRES: missing_for_containerd() is empty. Returns once it serves; throws if it does not.
  ContainerdRun();
  ContainerdRun(const ContainerdRun&) = delete;
  ContainerdRun& operator=(const ContainerdRun&) = delete;
  ~ContainerdRun();

  [[nodiscard]] std::string endpoint() const { return "unix://" + socket(); }
  [[nodiscard]] std::string root() const { return directory_ / "root"; }
  // Options with deadlines that a busy machine can keep.
  [[nodiscard]] static clients::RuntimeOptions patient();
  [[nodiscard]] std::unique_ptr<clients::ContainerRuntime> client() const;
  [[nodiscard]] pid_t pid() const { return daemon_->pid(); }
  [[nodiscard]] std::string log() const;

  // Packs an image of one layer with the program /pause and imports it.
  void import_image(const std::string& name) const;
  // As the kubelet does, with its labels. All return IDs.
  [[nodiscard]] std::string run_pod(const std::string& uid) const;
  [[nodiscard]] std::string start_container(const std::string& sandbox, const std::string& pod_uid,
                                            const std::string& name, const std::string& image,
                                            const std::vector<std::string>& command) const;
  // Sends SIGTERM and returns after the end of the process.
  void stop_container(const std::string& id) const;
  void stop_pod(const std::string& sandbox) const;

  // Calls `holds` until it is true; polls the daemon for an unexpected end between calls.
  template <typename Predicate>
  [[nodiscard]] bool wait_until(Predicate holds) const {
    const MonotonicTime deadline = SystemClock().now() + std::chrono::seconds(30);
    while (SystemClock().now() < deadline) {
      if (holds()) return true;
      if (daemon_->wait_exit(std::chrono::milliseconds(50))) return false;
    }
    return false;
  }

 private:
  [[nodiscard]] std::string socket() const { return directory_ / "c.sock"; }
  [[nodiscard]] std::string config() const;
  void start();
  // One call of the RuntimeService; throws its error.
  [[nodiscard]] std::string call(const std::string& method, const std::string& message) const;
  void end_descendants() const;
  void unmount_all() const;

  PodCgroup cgroup_;
  TempTree directory_;
  std::optional<Child> daemon_;
};

}  // namespace forestall::test
