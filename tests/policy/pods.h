// SPDX-License-Identifier: Apache-2.0
// Literal pods, and samples of them, for policy tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/pod.h"
#include "model/workload.h"
#include "tests/policy/world.h"

namespace forestall {

// Readable failures.
inline std::ostream& operator<<(std::ostream& out, const Quantity& quantity) {
  return out << quantity.text();
}
inline std::ostream& operator<<(std::ostream& out, QosClass qos) {
  return out << to_string(qos);
}

namespace policy {

// A quantity in kubelet's notation; must be valid.
inline Quantity q(const std::string& text) {
  return parse_quantity(text).value();
}

// Amounts in kubelet's notation; "" is undeclared.
inline ResourceList amounts(const std::string& cpu, const std::string& memory,
                            const std::string& storage = "") {
  ResourceList list;
  if (!cpu.empty()) list.cpu = q(cpu);
  if (!memory.empty()) list.memory = q(memory);
  if (!storage.empty()) list.ephemeral_storage = q(storage);
  return list;
}

inline ResourceList memory(const std::string& text) {
  return amounts("", text);
}

inline ResourceList storage(const std::string& text) {
  return amounts("", "", text);
}

inline PodContainer container(const std::string& name, ResourceList requests = {},
                              ResourceList limits = {}) {
  PodContainer made;
  made.name = name;
  made.requests = std::move(requests);
  made.limits = std::move(limits);
  return made;
}

inline PodContainer sidecar(const std::string& name, ResourceList requests = {},
                            ResourceList limits = {}) {
  PodContainer made = container(name, std::move(requests), std::move(limits));
  made.restartable = true;
  return made;
}

inline Pod pod(const std::string& name, std::vector<PodContainer> containers,
               std::vector<PodContainer> init_containers = {}) {
  Pod made;
  made.uid = "uid-" + name;
  made.name = name;
  made.pod_namespace = "default";
  made.containers = std::move(containers);
  made.init_containers = std::move(init_containers);
  return made;
}

inline PodVolume volume(const std::string& name, VolumeKind kind) {
  PodVolume made;
  made.name = name;
  made.kind = kind;
  return made;
}

inline PodVolume empty_dir(const std::string& name, const std::string& limit = "") {
  PodVolume made = volume(name, VolumeKind::empty_dir);
  if (!limit.empty()) made.size_limit = q(limit);
  return made;
}

inline DiskUsage on_disk(std::optional<Bytes> used, std::optional<std::int64_t> inodes = {}) {
  return {.used = used, .inodes = inodes};
}

inline ContainerSample container_sample(const std::string& name, std::optional<DiskUsage> rootfs,
                                        std::optional<DiskUsage> logs,
                                        std::optional<Bytes> working_set = {}) {
  return {.name = name, .working_set = working_set, .rootfs = rootfs, .logs = logs};
}

// A workload that is `pod`, at /kubepods/<name>, without statistics.
inline WorkloadSample sample_of(const Pod& pod, std::optional<Bytes> working_set = Bytes{0}) {
  WorkloadSample sample = workload("/kubepods/" + pod.name, working_set);
  sample.workload.kind = WorkloadKind::pod;
  sample.workload.pod_uid = pod.uid;
  sample.workload.pod = std::make_shared<const Pod>(pod);
  return sample;
}

inline WorkloadSample with_statistics(WorkloadSample sample,
                                      std::vector<ContainerSample> containers,
                                      std::vector<VolumeSample> volumes = {}) {
  sample.statistics = PodStatistics{
      .containers = std::move(containers), .volumes = std::move(volumes), .ephemeral_storage = {}};
  return sample;
}

}  // namespace policy
}  // namespace forestall
