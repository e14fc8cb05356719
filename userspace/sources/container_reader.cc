// SPDX-License-Identifier: Apache-2.0
#include "sources/container_reader.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "model/observation.h"
#include "sources/cgroup_reader.h"
#include "sources/pod_statistics.h"

namespace forestall::sources {
namespace {

const PodContainer* by_id(const std::vector<PodContainer>& containers, std::string_view id) {
  const auto found = std::find_if(
      containers.begin(), containers.end(),
      [&](const PodContainer& container) { return !container.id.empty() && container.id == id; });
  return found == containers.end() ? nullptr : &*found;
}

}  // namespace

std::string_view container_id(std::string_view cgroup_name) {
  constexpr std::string_view kScope = ".scope";
  if (!cgroup_name.ends_with(kScope)) return cgroup_name;
  const auto name = cgroup_name.substr(0, cgroup_name.size() - kScope.size());
  return name.substr(name.rfind('-') + 1);  // an id has no '-'; npos + 1 is 0
}

std::string container_name(const Pod* pod, const std::string& cgroup_name) {
  if (pod == nullptr) return cgroup_name;
  const auto id = container_id(cgroup_name);
  const auto* container = by_id(pod->containers, id);
  if (container == nullptr) container = by_id(pod->init_containers, id);
  return container == nullptr ? cgroup_name : container->name;
}

Result<std::vector<ContainerCgroup>> find_containers(const kernel::CgroupTree& tree,
                                                     const std::string& path, CgroupId pod) {
  const auto opened = TRY(tree.open(path));
  if (opened.id() != pod) return Error{ENODEV, path + " was removed"};
  std::vector<ContainerCgroup> found;
  for (std::string& name : TRY(opened.children())) {
    std::string of_child = path + "/" + name;
    const auto cgroup = tree.id_at(of_child);
    if (!cgroup && !kernel::is_removed(cgroup.error())) return cgroup.error();
    if (cgroup) found.push_back({std::move(name), std::move(of_child), *cgroup});
  }
  return found;
}

void add_container_samples(const kernel::CgroupTree& tree, WorkloadSample& sample,
                           std::string& buffer) {
  if (!sample.statistics) sample.statistics.emplace();
  const auto pod = tree.open(sample.workload.path);
  if (!pod || pod->id() != sample.workload.cgroup) return;
  auto names = pod->children();
  if (!names) return;
  std::sort(names->begin(), names->end());
  for (const std::string& name : *names) {
    const auto reader = CgroupReader::open(tree, sample.workload.path + "/" + name);
    if (!reader) continue;
    std::vector<SourceNote> ignored;  // most likely the container has ended
    const auto reading = reader->read(buffer, ignored);
    if (!reading.usage || !reading.inactive_file) continue;
    auto& container =
        container_of(*sample.statistics, container_name(sample.workload.pod.get(), name));
    container.working_set = working_set(*reading.usage, *reading.inactive_file);
  }
}

}  // namespace forestall::sources
