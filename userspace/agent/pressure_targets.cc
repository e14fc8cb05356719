// SPDX-License-Identifier: Apache-2.0
#include "agent/pressure_targets.h"

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "policy/container_pressure.h"
#include "policy/qos.h"
#include "sources/container_reader.h"

namespace forestall::agent {
namespace {

class TargetSearch {
 public:
  TargetSearch(const kernel::CgroupTree& tree, const std::vector<std::string>& own)
      : tree_(tree), own_(own) {}

  void add_pod(const PressurePod& pod) {
    if (!pod.pod) {
      found.unknown_pods.insert(pod.path);
      return;
    }
    const auto containers = sources::find_containers(tree_, pod.path, pod.cgroup);
    if (!containers) return note_failure(pod.path, containers.error());
    const bool is_exempt = policy::is_exempt_from_pressure(*pod.pod);
    for (const sources::ContainerCgroup& each : *containers) {
      if (is_exempt) {
        ++found.exempt;
        continue;
      }
      add({pod.pod->pod_namespace + "/" + pod.pod->name + "/" +
               sources::container_name(pod.pod.get(), each.name),
           each.path, each.cgroup, pod.path, pod.cgroup, policy::qos_class(*pod.pod),
           pod.pod->priority});
    }
  }

  void add_named(const std::string& path) {
    const auto cgroup = tree_.id_at(path);
    if (!cgroup) return note_failure(path, cgroup.error());
    add({path, path, *cgroup, path, *cgroup, std::nullopt, std::nullopt});
  }

  PressureTargets found;

 private:
  void note_failure(const std::string& path, const Error& failure) {
    if (!kernel::is_removed(failure)) found.unknown_pods.insert(path);
  }

  // The first one of a cgroup counts.
  void add(PressureTarget target) {
    const bool holds_agent = std::ranges::any_of(
        own_, [&](const std::string& each) { return path_is_within(each, target.path); });
    if (holds_agent) {
      found.refused.emplace(std::move(target.path), "it holds this agent");
    } else if (seen_.insert(target.cgroup).second) {
      found.watched.push_back(std::move(target));
    }
  }

  const kernel::CgroupTree& tree_;
  const std::vector<std::string>& own_;
  std::set<CgroupId> seen_;
};

}  // namespace

PressureTargets find_pressure_targets(const kernel::CgroupTree& tree,
                                      const ContainerPressureFacts& facts,
                                      const std::vector<std::string>& own) {
  TargetSearch search(tree, own);
  search.found.reserve = facts.reserve;
  for (const PressurePod& each : facts.pods) search.add_pod(each);
  for (const std::string& each : facts.config.cgroups) search.add_named(each);
  return std::move(search.found);
}

}  // namespace forestall::agent
