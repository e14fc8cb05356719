// SPDX-License-Identifier: Apache-2.0
// What annotations of pods do on this node, for the status and the log: how many have an effect,
// which have none and why, and how much memory the pods use that they protect.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "exports/log.h"
#include "exports/sink.h"
#include "kernel/cgroup_tree.h"
#include "model/pod_annotations.h"
#include "model/workload.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class PodAnnotationReporter {
 public:
  using Workloads = std::vector<const Workload*>;

  // Lines in the log for each call of report(): tenants choose the number of pods.
  static constexpr std::size_t kLinesMax = 8;
  // Annotations without effect in counts().
  static constexpr std::size_t kShownMax = exports::AnnotationCounts::kProblemsMax;
  // Pods whose usage is read.
  static constexpr std::size_t kMeasuredMax = 512;
  // Part of the node's memory in protected pods from which on the agent warns: a half. With more,
  // there may be no pod left whose eviction helps.
  static constexpr int kWarnedPart = 2;

  // Both outlive it.
  PodAnnotationReporter(const kernel::CgroupTree& tree, exports::Log& log)
      : tree_(tree), log_(log) {}

  // After each rescan: counts, and logs annotations without effect, once for each pod.
  void report(const Workloads& workloads, const PodAnnotationPolicy& policy);
  // If counts() has only a part of the annotations without effect: it has the next part from now
  // on. So a client that reads counts() repeatedly gets all of them.
  void show_next(const Workloads& workloads, const PodAnnotationPolicy& policy);
  // Reads what the protected pods use. `capacity` is the node's.
  void measure(const Workloads& workloads, std::optional<Bytes> capacity);
  [[nodiscard]] const exports::AnnotationCounts& counts() const { return counts_; }

 private:
  void log_problems(const std::vector<PodAnnotationProblem>& problems, const std::string& uid,
                    std::size_t& lines);

  const kernel::CgroupTree& tree_;
  exports::Log& log_;
  exports::AnnotationCounts counts_;
  std::set<std::string> reported_;  // UIDs
  std::size_t first_shown_ = 0;     // the number of the first problem in counts_, of all
  bool warned_ = false;
};

}  // namespace forestall::agent
