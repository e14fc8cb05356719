// SPDX-License-Identifier: Apache-2.0
// Facts of a pod that Kubernetes has not provided, inferred from the oom_score_adj of its
// processes. Kubelet computes that value from QoS class, priority class and memory request
// (pkg/kubelet/qos/policy.go). A process without CAP_SYS_RESOURCE can raise its value, never lower
// it, so a tenant cannot make its pod evaluation critical.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/bytes.h"
#include "kernel/cgroup_tree.h"
#include "model/workload.h"

namespace forestall::sources {

// What the inference needs of the host.
struct InferenceHost {
  const kernel::CgroupTree& tree;
  std::string proc;  // procfs
  Bytes capacity;    // MemTotal, as kubelet used it
};

// The most memory that a container with this oom_score_adj can have requested.
[[nodiscard]] Bytes most_requested(std::int32_t oom_score_adj, Bytes capacity);

// Keeps what was inferred of one pod. The values of running containers do not change, so they are
// read again only if the pod's cgroups changed, or if not every container had a value of kubelet's.
class PodInference {
 public:
  // Fills `workload.inferred`, if set, for a new set of cgroups.
  void refresh(const InferenceHost& host, Workload& workload);
  // The same before a decision: reads only if the last reading was incomplete.
  void complete(const InferenceHost& host, Workload& workload);

 private:
  void read(const InferenceHost& host, const kernel::CgroupDir& pod, InferredFacts& facts);

  InferredFacts last_;
  nlink_t links_ = 0;  // of the pod's directory: each container adds one
  bool settled_ = false;
};

}  // namespace forestall::sources
