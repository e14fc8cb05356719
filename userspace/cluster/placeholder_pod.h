// SPDX-License-Identifier: Apache-2.0
// A pod of low priority that holds the room of a move on its destination: same requests and
// tolerations as the moved pod, bound there by the scheduler, ended by the kubelet in any case.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/eviction_request.h"
#include "kubernetes/http_client.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

// Each placeholder has it, with the plan as its value.
inline constexpr std::string_view kPlanLabel = "forestall.dev/plan";

struct WantedRoom {
  PodTarget pod;                           // to evict
  std::string node;                        // that has the room
  std::string owner;                       // UID, also of the replacement
  std::set<std::string, std::less<>> old;  // UIDs of pods that are not the replacement
  std::string plan;                        // value of kPlanLabel
  std::string manifest;                    // of the placeholder
};

// Room for `pod` of the snapshot. Errors: its replacement could not preempt the placeholder.
// REQUIRES: the pod has an owner.
[[nodiscard]] Result<WantedRoom> wanted_room(const rebalance::PlaceholderSettings& settings,
                                             const rebalance::Snapshot& snapshot, std::size_t pod,
                                             std::string_view node, std::string plan);

// Errors: the snapshot has no such PriorityClass.
[[nodiscard]] Result<std::int32_t> placeholder_priority(
    const rebalance::PlaceholderSettings& settings, const rebalance::Snapshot& snapshot);

// Whether a pod of the snapshot is a placeholder in this namespace, of any plan.
[[nodiscard]] bool is_placeholder(const rebalance::ClusterPod& pod, std::string_view pod_namespace);

// By the UID of the moved pod.
[[nodiscard]] std::string placeholder_name(const std::string& pod_uid);

[[nodiscard]] kubernetes::OutgoingRequest creation_request(const std::string& pod_namespace,
                                                           const std::string& manifest);

struct PlaceholderStatus {
  std::string uid;
  std::string plan;     // value of kPlanLabel
  std::string node;     // empty: not bound
  std::string problem;  // why it holds no room and will not; empty: it does, or may yet
  bool terminates = false;
};
// Errors: it is not a pod.
[[nodiscard]] Result<PlaceholderStatus> read_placeholder(std::string_view pod);

}  // namespace forestall::cluster
