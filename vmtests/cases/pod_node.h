// SPDX-License-Identifier: Apache-2.0
// A node full of pods, for cases that may use all of a machine's memory: only inside a VM.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::vm {

struct Pod {
  std::string name;
  int priority = 0;
  Bytes request = {0};
  Bytes held = {0};  // taken before the case begins
};

enum class Driver { cgroupfs, systemd };

class PodNode {
 public:
  // Pods as kubelet's cgroup driver lays them out, each with one container that holds a hog.
  PodNode(Driver driver, std::vector<Pod> pods);

  // Thresholds on the node; everything else has its default, and the agent finds the pods.
  [[nodiscard]] std::string config(Bytes threshold, const std::string& more = "") const;
  // Its manifest; the config refers to it by a relative path.
  [[nodiscard]] std::string manifest() const;

  [[nodiscard]] test::Hog& hog(const std::string& name);
  [[nodiscard]] std::string pod_path(const std::string& name) const;
  [[nodiscard]] std::string container_path(const std::string& name) const;
  [[nodiscard]] const test::ScratchCgroup& groups() const { return *groups_; }
  // Names of the pods whose process is gone.
  [[nodiscard]] std::vector<std::string> dead() const;

 private:
  [[nodiscard]] std::size_t index(const std::string& name) const;
  [[nodiscard]] std::string uid(std::size_t i) const;
  [[nodiscard]] std::string relative_pod_path(std::size_t i) const;

  Driver driver_;
  std::vector<Pod> pods_;
  std::unique_ptr<test::ScratchCgroup> groups_;
  std::deque<test::Hog> hogs_;
};

// oom_kill of /proc/vmstat: every kill by the kernel on the whole machine.
[[nodiscard]] std::uint64_t kernel_oom_kills();
// MemTotal.
[[nodiscard]] Bytes machine_memory();
// memory.available as `forestall signals` prints it now.
[[nodiscard]] Bytes memory_available();

// Starts the agent on the node's config and manifest.
[[nodiscard]] std::unique_ptr<test::AgentRun> guard(const PodNode& node, const std::string& config,
                                                    std::vector<std::string> disabled = {});

}  // namespace forestall::vm
