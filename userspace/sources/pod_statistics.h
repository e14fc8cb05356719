// SPDX-License-Identifier: Apache-2.0
// What one pod occupies on disk, measured where kubelet keeps it (pkg/kubelet/stats/helper.go,
// pkg/kubelet/server/stats/volume_stat_calculator.go):
//
//   <nodefs>/pods/<uid>/volumes/<plugin>/<name>/    volumes of the plugins that keep them there
//   <nodefs>/pods/<uid>/etc-hosts                   what is mounted on /etc/hosts
//   <pod_logs>/<namespace>_<name>_<uid>/            logs of the pod, and below it
//   <pod_logs>/<namespace>_<name>_<uid>/<container>/    logs of each container
//
// Writable layers are known to the container runtime alone and are added where it tells them. A
// hostPath volume is nobody's own and not measured.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/observation.h"

namespace forestall::sources {

// Names of the log directories of each pod, by UID.
using PodLogs = std::multimap<std::string, std::string, std::less<>>;
// What is below `pod_logs`; empty when it does not exist.
[[nodiscard]] Result<PodLogs> list_pod_logs(const std::string& pod_logs);

// Measures one pod. Files come and go meanwhile; a part that could not be read in whole is told in
// `notes` and counts with what was read. ephemeral_storage is the sum of what was measured, as in
// kubelet: logs, /etc/hosts, and the volumes that lie on kubelet's filesystem; not those in memory,
// whose mounts are devices of their own. A pod without any directory occupies nothing.
// ECANCELED: `cancelled` became true. EINVAL: no pod can have this `uid`.
[[nodiscard]] Result<PodStatistics> measure_pod(const FilesystemPlaces& places,
                                                const std::string& uid, const PodLogs& logs,
                                                const std::atomic<bool>& cancelled,
                                                std::vector<SourceNote>& notes);

// The sample of container `name`, added if there is none yet.
[[nodiscard]] ContainerSample& container_of(PodStatistics& statistics, std::string_view name);

// Writable layers as the container runtime tells them: containers with `rootfs` set, by pod UID.
using WritableLayers = std::map<std::string, std::vector<ContainerSample>, std::less<>>;
// Adds those of one pod to its containers and to its ephemeral storage.
void add_writable_layers(const std::vector<ContainerSample>& layers, PodStatistics& statistics);

}  // namespace forestall::sources
