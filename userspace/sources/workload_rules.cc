// SPDX-License-Identifier: Apache-2.0
#include "sources/workload_rules.h"

#include <algorithm>

#include "base/parse.h"
#include "kernel/memory_files.h"

namespace forestall::sources {
namespace {

constexpr std::int32_t kSystemCriticalPriority = 2'000'000'000;

bool holds_any(const std::string& path, const std::vector<std::string>& places) {
  return std::any_of(places.begin(), places.end(),
                     [&](const std::string& place) { return path_is_within(place, path); });
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

const WorkloadRule* first_match(const std::string& path, const Config& config) {
  for (const auto& rule : config.workloads) {
    if (kernel::glob_matches(rule.cgroup, path)) return &rule;
  }
  return nullptr;
}

// Of a Guaranteed pod, whose requests equal its limits: kubelet writes the sum of the limits to the
// pod's cgroup (pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod). Nullopt if that cannot be
// read or is unlimited.
std::optional<Bytes> guaranteed_request(const kernel::CgroupTree& tree, const PodPath& pod) {
  const auto cgroup = tree.open(pod.cgroup);
  if (!cgroup) return std::nullopt;
  const bool v1 = tree.version() == kernel::CgroupVersion::v1;
  const auto text = cgroup->read(v1 ? "memory.limit_in_bytes" : "memory.max");
  if (!text) return std::nullopt;
  return kernel::parse_amount(*text).optional().value_or(std::nullopt);
}

// The known pod at this path. A static pod's cgroup is named after its manifest's hash, which is
// also its own UID; the mirror pod in the API server has another one.
std::shared_ptr<const Pod> known_pod(const std::string& uid, const Config& config) {
  const auto is_it = [&](const std::shared_ptr<const Pod>& pod) {
    return pod != nullptr && (pod->uid == uid || (!uid.empty() && pod->config_hash == uid));
  };
  const auto found = std::find_if(config.known_pods.begin(), config.known_pods.end(), is_it);
  return found == config.known_pods.end() ? nullptr : *found;
}

// The strongest reason first, since only one is reported.
Protection protection_of(const Workload& workload, bool static_pod, bool declared,
                         const ProtectedPlaces& places) {
  if (holds_any(workload.path, places.own)) return Protection::own_cgroup;
  if (holds_any(workload.path, places.init)) return Protection::init_cgroup;
  if (static_pod) return Protection::static_pod;
  if (workload.priority.value_or(0) >= kSystemCriticalPriority) return Protection::critical;
  return declared ? Protection::declared : Protection::none;
}

}  // namespace

Workload pod_workload(const PodPath& pod, const Config& config, const ProtectedPlaces& places) {
  Workload workload;
  workload.path = pod.cgroup;
  workload.kind = WorkloadKind::pod;
  workload.pod_uid = pod.uid;
  std::optional<std::string> name;
  bool declared = false;
  // Both kinds of rule declare the same three fields; the earlier call takes precedence.
  const auto apply = [&](const auto& rule) {
    if (!name) name = rule.name;
    if (!workload.priority) workload.priority = rule.priority;
    if (!workload.memory_request) workload.memory_request = rule.memory_request;
    declared = declared || rule.is_protected;
  };
  const auto by_uid = std::find_if(config.pod_rules.begin(), config.pod_rules.end(),
                                   [&](const PodRule& rule) { return rule.uid == pod.uid; });
  if (by_uid != config.pod_rules.end()) apply(*by_uid);
  if (const auto* by_path = first_match(pod.cgroup, config)) apply(*by_path);
  workload.pod = known_pod(pod.uid, config);
  const auto known_name =
      workload.pod ? workload.pod->pod_namespace + "/" + workload.pod->name : last_part(pod.cgroup);
  workload.name = name.value_or(known_name);
  const bool not_by_api = workload.pod && workload.pod->origin != PodOrigin::api;
  workload.protection = protection_of(workload, pod.static_pod || not_by_api, declared, places);
  return workload;
}

Workload cgroup_workload(const std::string& path, const WorkloadRule& rule,
                         const ProtectedPlaces& places) {
  Workload workload;
  workload.path = path;
  workload.name = rule.name.value_or(last_part(path));
  workload.priority = rule.priority;
  workload.memory_request = rule.memory_request;
  workload.protection = protection_of(workload, false, rule.is_protected, places);
  return workload;
}

void protect_ancestors(std::vector<Workload>& workloads) {
  // From the deepest to the shallowest path, so that protection reaches all ancestors. The
  // descendants of a path are one contiguous range of sorted paths, which begins no earlier than
  // the path itself.
  for (std::size_t above = workloads.size(); above-- > 0;) {
    auto& upper = workloads[above];
    if (upper.protection != Protection::none) continue;
    const auto prefix = upper.path + "/";
    auto below = std::ranges::lower_bound(workloads, prefix, {}, &Workload::path);
    while (below != workloads.end() && below->path.starts_with(prefix) &&
           below->protection == Protection::none) {
      ++below;
    }
    if (below != workloads.end() && below->path.starts_with(prefix)) {
      upper.protection = below->protection;
    }
  }
}

std::vector<Workload> find_workloads(const kernel::CgroupTree& tree, const Config& config,
                                     const std::string& pods_cgroup, const ProtectedPlaces& places,
                                     std::vector<SourceNote>& notes) {
  std::vector<Workload> workloads;
  if (config.pods && !pods_cgroup.empty()) {
    const auto pods = list_pods(tree, pods_cgroup);
    if (!pods) notes.push_back({pods_cgroup, pods.error().text()});
    for (const auto& pod : pods ? *pods : std::vector<PodPath>()) {
      auto workload = pod_workload(pod, config, places);
      if (pod.qos == QosClass::guaranteed && !workload.memory_request && !workload.pod) {
        workload.memory_request = guaranteed_request(tree, pod);
      }
      workloads.push_back(std::move(workload));
    }
  }
  for (const auto& rule : config.workloads) {
    const auto paths = tree.match(rule.cgroup);
    if (!paths) notes.push_back({rule.cgroup, paths.error().text()});
    for (const auto& path : paths ? *paths : std::vector<std::string>()) {
      if (path != "/") workloads.push_back(cgroup_workload(path, rule, places));
    }
  }
  // If several name one cgroup, the first counts.
  std::ranges::stable_sort(workloads, {}, &Workload::path);
  const auto repeated = std::ranges::unique(workloads, {}, &Workload::path);
  workloads.erase(repeated.begin(), repeated.end());
  protect_ancestors(workloads);
  return workloads;
}

}  // namespace forestall::sources
