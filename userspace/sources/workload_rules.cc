// SPDX-License-Identifier: Apache-2.0
#include "sources/workload_rules.h"

#include <algorithm>

#include "base/parse.h"
#include "kernel/memory_files.h"
#include "model/api_pod.h"
#include "sources/pod_annotations.h"

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
// pod's cgroup (pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod). Nullopt: unlimited.
Result<std::optional<Bytes>> guaranteed_request(const kernel::CgroupTree& tree,
                                                const std::string& path) {
  const auto cgroup = TRY(tree.open(path));
  const bool v1 = tree.version() == kernel::CgroupVersion::v1;
  return kernel::parse_amount(TRY(cgroup.read(v1 ? "memory.limit_in_bytes" : "memory.max")));
}

void infer_guaranteed_request(const kernel::CgroupTree& tree, const KnownWorkloads& known,
                              Workload& workload) {
  const auto request = guaranteed_request(tree, workload.path);
  workload.inferred->memory_request = request.optional().value_or(std::nullopt);
  if (request || kernel::is_removed(request.error())) return;
  const auto before = std::ranges::lower_bound(known, workload.path, {}, &Workload::path);
  if (before == known.end() || (*before)->path != workload.path || !(*before)->inferred) return;
  workload.inferred->memory_request = (*before)->inferred->memory_request;
}

// The known pod at this path. A static pod's cgroup is named after its manifest's hash, which is
// also its own UID; the mirror pod in the API server has another one. No other name than such a
// hash is looked up so: what a pod writes into its annotations must not describe another pod.
std::shared_ptr<const Pod> known_pod(const std::string& uid, const Config& config) {
  std::shared_ptr<const Pod> by_hash;
  const bool is_hash = is_config_hash(uid);
  for (const auto& pod : config.known_pods) {
    if (pod == nullptr) continue;
    if (pod->uid == uid) return pod;
    if (is_hash && !by_hash && pod->config_hash == uid) by_hash = pod;
  }
  return by_hash;
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

bool protects(const WorkloadRule& rule) {
  return rule.is_protected || rule.priority.value_or(0) >= kSystemCriticalPriority;
}

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
  if (!workload.pod) workload.inferred.emplace().qos = pod.qos;
  const auto known_name =
      workload.pod ? workload.pod->pod_namespace + "/" + workload.pod->name : last_part(pod.cgroup);
  workload.name = name.value_or(known_name);
  const bool not_by_api = workload.pod && workload.pod->origin != PodOrigin::api;
  workload.protection = protection_of(workload, pod.static_pod || not_by_api, declared, places);
  apply_annotations(config.pod_annotations, workload);
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

namespace {

// The listing, completed with known pods if it failed.
std::vector<PodPath> find_pods(const kernel::CgroupTree& tree, const std::string& pods_cgroup,
                               const KnownWorkloads& known, std::vector<SourceNote>& notes) {
  std::vector<PodPath> pods;
  const auto listed = list_pods(tree, pods_cgroup, pods);
  if (listed) return pods;
  notes.push_back({pods_cgroup, listed.error().text()});
  for (const Workload* workload : known) {
    if (workload->kind != WorkloadKind::pod || !path_is_within(workload->path, pods_cgroup) ||
        !tree.id_at(workload->path)) {
      continue;
    }
    if (auto pod = parse_pod_path(workload->path)) pods.push_back(std::move(*pod));
  }
  std::ranges::sort(pods, {}, &PodPath::cgroup);
  const auto repeated = std::ranges::unique(pods, {}, &PodPath::cgroup);
  pods.erase(repeated.begin(), repeated.end());
  return pods;
}

// The same for cgroups. A path may occur twice.
std::vector<std::string> find_cgroups(const kernel::CgroupTree& tree, const std::string& glob,
                                      const KnownWorkloads& known, std::vector<SourceNote>& notes) {
  std::vector<std::string> paths;
  const auto matched = tree.match(glob, paths);
  if (matched) return paths;
  notes.push_back({glob, matched.error().text()});
  for (const Workload* workload : known) {
    if (!kernel::glob_matches(glob, workload->path) || !tree.id_at(workload->path)) continue;
    paths.push_back(workload->path);
  }
  return paths;
}

}  // namespace

std::vector<Workload> find_workloads(const kernel::CgroupTree& tree, const Config& config,
                                     const std::string& pods_cgroup, const ProtectedPlaces& places,
                                     const KnownWorkloads& known, std::vector<SourceNote>& notes) {
  std::vector<Workload> workloads;
  if (config.pods && !pods_cgroup.empty()) {
    for (const auto& pod : find_pods(tree, pods_cgroup, known, notes)) {
      auto workload = pod_workload(pod, config, places);
      if (workload.inferred && pod.qos == QosClass::guaranteed) {
        infer_guaranteed_request(tree, known, workload);
      }
      workloads.push_back(std::move(workload));
    }
  }
  for (const auto& rule : config.workloads) {
    for (const auto& path : find_cgroups(tree, rule.cgroup, known, notes)) {
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
