// SPDX-License-Identifier: Apache-2.0
#include "policy/memory_qos_plan.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "policy/memory_qos.h"
#include "policy/qos.h"

namespace forestall::policy {
namespace {

std::string_view parent_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos || slash == 0 ? std::string_view() : path.substr(0, slash);
}

// Why a value of a pod, container or level stays as it is; empty: the agent may write it.
std::string left_to_kubelet(const std::optional<bool>& kubelet_writes) {
  if (!kubelet_writes) {
    return "unknown whether the kubelet writes it; set kubeletConfig and compat.kubeletVersion";
  }
  return *kubelet_writes ? "the kubelet writes it" : "";
}

class Planner {
 public:
  explicit Planner(const MemoryQosPlanInput& input) : input_(input) {
    settings_.reservation = input.config.reservation;
    settings_.throttling_factor = input.config.throttling_factor;
    settings_.node_allocatable = input.node_allocatable;
    settings_.page_size = input.page_size;
  }

  std::vector<PlannedMemoryQos> plan() && {
    levels();
    for (const QosPodCgroup& each : input_.cgroups) {
      if (each.pod) pod(each);
    }
    for (const MemoryQosCgroup& each : input_.config.cgroups) other(each);
    return std::move(out_);
  }

 private:
  // `left`: why it stays as it is.
  void add(const std::string& subject, const std::string& path, CgroupId cgroup, MemoryQosFile file,
           std::optional<std::int64_t> value, const std::string& left) {
    if (value == kNoThrottling) return;
    const std::int64_t bytes = value.value_or(0);
    const std::int64_t stored = bytes - bytes % input_.page_size;
    if (stored > 0) out_.push_back({subject, path, cgroup, file, stored, left});
  }

  void protect(const std::string& subject, const std::string& path, CgroupId cgroup,
               const MemoryProtection& protection, const std::string& left) {
    add(subject, path, cgroup, MemoryQosFile::min, protection.min, left);
    add(subject, path, cgroup, MemoryQosFile::low, protection.low, left);
  }

  void pod(const QosPodCgroup& found) {
    const PodMemoryQos values = memory_qos(*found.pod, settings_);
    if (!values.active) return;
    const std::string name = found.pod->pod_namespace + "/" + found.pod->name;
    const std::string reserved = left_to_kubelet(input_.config.kubelet_reserves);
    const std::string throttled = left_to_kubelet(input_.config.kubelet_throttles);
    protect(name, found.path, found.cgroup, values.protection, reserved);
    const auto containers = [&](const std::vector<PodContainer>& of,
                                const std::vector<ContainerMemoryQos>& qos) {
      for (std::size_t i = 0; i < of.size(); ++i) {
        const auto cgroup = std::ranges::find(found.containers, of[i].id, &QosContainerCgroup::id);
        if (of[i].id.empty() || cgroup == found.containers.end()) continue;
        const std::string subject = name + ": " + of[i].name;
        protect(subject, cgroup->path, cgroup->cgroup, qos[i].protection, reserved);
        add(subject, cgroup->path, cgroup->cgroup, MemoryQosFile::high, qos[i].high, throttled);
      }
    };
    containers(found.pod->init_containers, values.init_containers);
    containers(found.pod->containers, values.containers);
  }

  void levels() {
    std::vector<Pod> pods;
    pods.reserve(input_.pods.size());
    for (const auto& each : input_.pods) pods.push_back(*each);
    const MemoryQosLevels values = memory_qos_levels(pods, settings_);
    const QosLevelCgroups paths = qos_level_cgroups(input_.cgroups);
    level("pods", paths.pods, {values.kubepods_min, std::nullopt});
    level("burstable pods", paths.burstable, values.burstable);
  }

  void level(const std::string& subject, const std::string& path,
             const MemoryProtection& protection) {
    const auto found = std::ranges::find(input_.others, path, &QosOtherCgroup::path);
    if (path.empty() || found == input_.others.end()) return;
    std::string left = left_to_kubelet(input_.config.kubelet_reserves);
    if (left.empty() && input_.unknown_pods > 0) {
      left = "what " + std::to_string(input_.unknown_pods) + " pod(s) request is unknown";
    }
    protect(subject, path, found->cgroup, protection, left);
  }

  void other(const MemoryQosCgroup& wanted) {
    const auto found = std::ranges::find(input_.others, wanted.path, &QosOtherCgroup::path);
    if (found == input_.others.end()) return;
    const auto bytes = [](const std::optional<Bytes>& amount) {
      return amount ? std::optional(amount->count) : std::nullopt;
    };
    add(wanted.path, wanted.path, found->cgroup, MemoryQosFile::min, bytes(wanted.min), "");
    add(wanted.path, wanted.path, found->cgroup, MemoryQosFile::low, bytes(wanted.low), "");
    add(wanted.path, wanted.path, found->cgroup, MemoryQosFile::high, bytes(wanted.high), "");
  }

  const MemoryQosPlanInput& input_;
  MemoryQosSettings settings_;
  std::vector<PlannedMemoryQos> out_;
};

}  // namespace

// The parent of a Guaranteed pod has all pods; that of a Burstable pod is one below it.
QosLevelCgroups qos_level_cgroups(std::span<const QosPodCgroup> cgroups) {
  std::set<std::string_view> pods;
  std::set<std::string_view> burstable;
  for (const QosPodCgroup& each : cgroups) {
    if (!each.pod) continue;
    switch (qos_class(*each.pod)) {
      case QosClass::guaranteed: pods.insert(parent_of(each.path)); break;
      case QosClass::burstable: burstable.insert(parent_of(each.path)); break;
      case QosClass::best_effort: break;
    }
  }
  QosLevelCgroups paths;
  if (burstable.size() == 1) paths.burstable = *burstable.begin();
  if (pods.size() == 1) paths.pods = *pods.begin();
  if (pods.empty()) paths.pods = parent_of(paths.burstable);
  return paths;
}

std::vector<PlannedMemoryQos> plan_memory_qos(const MemoryQosPlanInput& input) {
  return Planner(input).plan();
}

std::int64_t memory_qos_allocatable(Bytes capacity, const Reserved& kube, const Reserved& system) {
  std::int64_t left = capacity.count;
  for (const Reserved* each : {&kube, &system}) {
    if (each->memory) left -= std::min(left, std::max<std::int64_t>(each->memory->value(), 0));
  }
  return std::max<std::int64_t>(left, 0);
}

}  // namespace forestall::policy
