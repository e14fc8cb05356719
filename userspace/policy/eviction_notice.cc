// SPDX-License-Identifier: Apache-2.0
// Sentences and annotations of an eviction.
#include "policy/eviction_notice.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "policy/pod_requests.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

Quantity in_unit_of(Resource resource, std::int64_t amount) {
  const bool bytes = resource == Resource::memory || resource == Resource::ephemeral_storage;
  return bytes ? binary(amount) : decimal(amount);
}

const Evidence* threshold_met(Resource resource, const Evidence& driving,
                              std::span<const Evidence> evidence) {
  const auto is_of_resource = [resource](const Evidence& each) {
    return each.driving && resource_of(each.threshold.signal) == resource;
  };
  if (is_of_resource(driving)) return &driving;
  const auto found = std::find_if(evidence.begin(), evidence.end(), is_of_resource);
  return found == evidence.end() ? nullptr : &*found;
}

std::string larger_consumption(std::string_view kind, const std::string& name,
                               const Quantity& usage, const Quantity& request, Resource resource) {
  return std::string(kind) + " " + name + " was using " + usage.text() + ", request is " +
         request.text() + ", has larger consumption of " + std::string(to_string(resource)) + ". ";
}

const PodContainer* find_container(const Pod& pod, const std::string& name) {
  for (const auto* list : {&pod.containers, &pod.init_containers}) {
    for (const PodContainer& each : *list) {
      if (each.name == name) return &each;
    }
  }
  return nullptr;
}

std::optional<Bytes> usage_of(const ContainerSample& sample, Resource resource) {
  if (resource == Resource::memory) return sample.working_set;
  if (resource != Resource::ephemeral_storage) return std::nullopt;
  if (!sample.rootfs || !sample.rootfs->used || !sample.logs || !sample.logs->used) {
    return std::nullopt;
  }
  return add(*sample.rootfs->used, *sample.logs->used);
}

Quantity request_of(const PodContainer& container, Resource resource) {
  const auto& declared = resource == Resource::memory ? container.requests.memory
                                                      : container.requests.ephemeral_storage;
  return declared.value_or(Quantity{});
}

struct Offenders {
  std::string sentences;
  std::string names;   // comma-separated
  std::string usages;  // comma-separated

  void add(const PodContainer& container, const Quantity& usage, const Quantity& request,
           Resource resource) {
    const std::string_view separator = names.empty() ? "" : ",";
    names.append(separator).append(container.name);
    usages.append(separator).append(usage.text());
    sentences += larger_consumption("Container", container.name, usage, request, resource);
  }
};

Offenders offending_containers(const WorkloadSample& sample, Resource resource) {
  Offenders offenders;
  if (!sample.workload.pod || !sample.statistics) return offenders;
  for (const ContainerSample& each : sample.statistics->containers) {
    const PodContainer* container = find_container(*sample.workload.pod, each.name);
    const auto used = usage_of(each, resource);
    if (container == nullptr || !used) continue;
    const Quantity usage = binary(used->count);
    const Quantity request = request_of(*container, resource);
    if (usage > request) offenders.add(*container, usage, request, resource);
  }
  return offenders;
}

// The pod's own memory request; nullopt without one, or if the pod's usage is unknown.
std::optional<Quantity> own_request(const WorkloadSample& sample, Resource resource) {
  const Pod* pod = sample.workload.pod.get();
  if (resource != Resource::memory || pod == nullptr || !sample.working_set()) return std::nullopt;
  return has_pod_level_requests(*pod) ? pod->requests->memory : std::nullopt;
}

}  // namespace

void write_notice(const Candidate& victim, const Evidence& driving,
                  std::span<const Evidence> evidence, Eviction& eviction) {
  const WorkloadSample& sample = victim.sample;
  const Resource resource = resource_of(driving.threshold.signal);
  const std::string resource_name(to_string(resource));

  eviction.metric_signal = to_string(driving.threshold.signal);
  eviction.disruption_target = true;
  eviction.annotations.clear();
  const bool of_node = driving.threshold.signal != Signal::cgroup_memory_available;
  eviction.message = (of_node ? "The node" : "The cgroup " + driving.subject) +
                     " was low on resource: " + resource_name + ". ";
  if (const Evidence* met = threshold_met(resource, driving, evidence)) {
    eviction.message += "Threshold quantity: " + met->limit.text() +
                        ", available: " + in_unit_of(resource, met->available).text() + ". ";
  }
  if (!victim.key.measured && !sample.statistics) return;

  const auto request = own_request(sample, resource);
  const Quantity pod_usage = binary(sample.working_set().value_or(Bytes{0}).count);
  if (request) {
    eviction.message +=
        larger_consumption("Pod", sample.workload.pod->name, pod_usage, *request, resource);
  }
  const Offenders offenders = offending_containers(sample, resource);
  eviction.message += offenders.sentences;
  eviction.annotations = {{"offending_containers", offenders.names},
                          {"offending_containers_usage", offenders.usages},
                          {"starved_resource", resource_name}};
  if (request) {
    eviction.annotations.emplace_back("offending_pod", sample.workload.pod->name);
    eviction.annotations.emplace_back("offending_pod_usage", pod_usage.text());
  }
}

}  // namespace forestall::policy
