// SPDX-License-Identifier: Apache-2.0
// Reads pods as Kubernetes prints them: `kubectl get pods -o json` (kind List), /pods of the API
// server and of kubelet (kind PodList), or one object of kind Pod.
//
// The input is used as it is: the API server has filled in its defaults at admission (requests
// where only limits are given, priority, qosClass), and this code adds none. Unknown keys are
// skipped, because there is a new Kubernetes release every four months; known keys must be valid.
//
// If a running container was resized in place, its requests are those that kubelet allocated
// (status.containerStatuses[].allocatedResources), because kubelet ranks by these
// (pkg/kubelet/allocation UpdatePodFromAllocation()).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/pod.h"

namespace forestall::text {
class JsonValue;
}

namespace forestall::intake {

// A pod, and the node it is bound to.
struct ListedPod {
  Pod pod;
  std::string node;  // spec.nodeName; empty: not bound, or unknown

  friend bool operator==(const ListedPod&, const ListedPod&) = default;
};

// The pods in the order of the list. The first mistake is the error, with its path: "items[3]
// (default/web-0): spec.containers[0].resources.requests.memory: quantities must match…", or
// LINE:COLUMN if the text is not JSON. Missing UIDs, names and container names and duplicate UIDs
// are mistakes.
[[nodiscard]] Result<std::vector<ListedPod>> parse_listed_pods(std::string_view json);

// The same for a text in pieces: at most one pod of it is in memory.
class PodListStream {
 public:
  // More than `pods_max` pods are an error.
  explicit PodListStream(std::size_t pods_max);
  PodListStream(PodListStream&&) = delete;
  ~PodListStream();

  [[nodiscard]] Result<void> add(std::string_view piece);
  // After the last piece, once.
  [[nodiscard]] Result<std::vector<ListedPod>> finish();

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

// One object of kind Pod, or an item of a PodList, which has no kind.
[[nodiscard]] Result<ListedPod> read_listed_pod(const text::JsonValue& object);

// The most pods that an agent keeps: a hundred times kubelet's default for a node.
inline constexpr std::size_t kPodsMax = 11'000;

// The same for an open file, as facts: an API server's pod is never static, whatever its
// annotations claim, and a static pod is under the hash that names its cgroup (model/api_pod.h).
[[nodiscard]] Result<std::vector<Pod>> read_pod_list(const UniqueFd& file, const std::string& path,
                                                     std::size_t pods_max = kPodsMax);
// The same for a text, of any number of pods.
[[nodiscard]] Result<std::vector<Pod>> parse_pod_list(std::string_view json);

}  // namespace forestall::intake
