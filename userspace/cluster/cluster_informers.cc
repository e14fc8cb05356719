// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_informers.h"

#include <algorithm>

namespace forestall::cluster {
namespace {

using Each = std::unique_ptr<Informer>;

}  // namespace

std::vector<WatchedKind> watched_kinds(bool claims, bool volumes) {
  constexpr int kPageSize = 500;  // as client-go's
  // 150,000 pods take some 324 MiB. A new list is stored beside the old one, and a plan has a copy.
  constexpr std::size_t kPodsBytesMax = std::size_t{768} << 20;
  constexpr kubernetes::ListLimits kPaged{.newest = true, .page = kPageSize};
  // Without pages, all of a large cluster are one answer.
  constexpr kubernetes::ListLimits kLarge{.silence = std::chrono::minutes(3),
                                          .longest = std::chrono::minutes(5),
                                          .newest = true,
                                          .page = kPageSize};
  std::vector<WatchedKind> kinds{
      {.kind = "Node", .path = "/api/v1/nodes", .limits = kLarge},
      {.kind = "Pod", .path = "/api/v1/pods", .bytes_max = kPodsBytesMax, .limits = kLarge},
      {.kind = "Namespace", .path = "/api/v1/namespaces", .limits = kPaged},
      {.kind = "PodDisruptionBudget",
       .path = "/apis/policy/v1/poddisruptionbudgets",
       .old_path = "/apis/policy/v1beta1/poddisruptionbudgets",
       .limits = kPaged},
      {.kind = "PriorityClass",
       .path = "/apis/scheduling.k8s.io/v1/priorityclasses",
       .limits = kPaged},
  };
  const auto add = [&kinds, &kPaged](const char* kind, const char* path) {
    kinds.push_back({.kind = kind, .path = path, .limits = kPaged});
  };
  if (claims) add("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims");
  if (volumes) add("PersistentVolume", "/api/v1/persistentvolumes");
  return kinds;
}

ClusterInformers::ClusterInformers(const std::vector<WatchedKind>& kinds,
                                   kubernetes::HttpClient& client, const Clock& clock,
                                   const std::function<std::function<double()>()>& chances) {
  for (const WatchedKind& each : kinds) {
    informers_.push_back(std::make_unique<Informer>(each, client, clock, chances()));
    if (each.kind == "Pod") pods_ = informers_.back().get();
  }
}

void ClusterInformers::advance() {
  for (const Each& each : informers_) each->advance();
}

std::optional<MonotonicTime> ClusterInformers::due() const {
  std::optional<MonotonicTime> first;
  for (const Each& each : informers_) first = std::min(first.value_or(each->due()), each->due());
  return first;
}

bool ClusterInformers::current() const {
  return std::ranges::all_of(informers_, [](const Each& each) { return each->current(); });
}

bool ClusterInformers::refused() const {
  return std::ranges::any_of(informers_, [](const Each& each) { return each->refused(); });
}

std::string ClusterInformers::problem() const {
  std::string found;
  for (const Each& each : informers_) {
    if (each->current()) continue;
    if (each->refused()) return each->problem();
    if (found.empty()) found = each->problem();
  }
  return found;
}

MonotonicTime ClusterInformers::confirmed() const {
  MonotonicTime oldest = MonotonicTime::max();
  for (const Each& each : informers_) {
    oldest = std::min(oldest, each->confirmed().value_or(MonotonicTime::min()));
  }
  return oldest;
}

bool ClusterInformers::shows_eviction(const PodTarget& pod, MonotonicTime ended) const {
  return pods().listed_since(ended) ||
         (pods().confirmed() && !pods().store().has_live_pod(pod.pod_namespace, pod.name, pod.uid));
}

void ClusterInformers::add_to(rebalance::Snapshot& snapshot) const {
  for (const Each& each : informers_) each->store().add_to(snapshot);
}

ClusterInformers::Texts ClusterInformers::texts() const {
  Texts all;
  for (const Each& each : informers_) all.push_back(each->store().texts());
  return all;
}

}  // namespace forestall::cluster
