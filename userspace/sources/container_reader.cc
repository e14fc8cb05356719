// SPDX-License-Identifier: Apache-2.0
#include "sources/container_reader.h"

#include <algorithm>
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

std::string name_of(const Pod* pod, const std::string& cgroup_name) {
  if (pod == nullptr) return cgroup_name;
  const auto id = container_id(cgroup_name);
  const auto* container = by_id(pod->containers, id);
  if (container == nullptr) container = by_id(pod->init_containers, id);
  return container == nullptr ? cgroup_name : container->name;
}

}  // namespace

std::string_view container_id(std::string_view cgroup_name) {
  constexpr std::string_view kScope = ".scope";
  if (!cgroup_name.ends_with(kScope)) return cgroup_name;
  const auto name = cgroup_name.substr(0, cgroup_name.size() - kScope.size());
  return name.substr(name.rfind('-') + 1);  // an id has no '-'; npos + 1 is 0
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
    auto& container = container_of(*sample.statistics, name_of(sample.workload.pod.get(), name));
    container.working_set = working_set(*reading.usage, *reading.inactive_file);
  }
}

}  // namespace forestall::sources
