// SPDX-License-Identifier: Apache-2.0
// Disk usage of one pod, measured where kubelet keeps its files (pkg/kubelet/stats/helper.go,
// pkg/kubelet/server/stats/volume_stat_calculator.go):
//
//   <nodefs>/pods/<uid>/volumes/<plugin>/<name>/    volumes of the plugins that keep them there
//   <nodefs>/pods/<uid>/etc-hosts                   what is mounted on /etc/hosts
//   <pod_logs>/<namespace>_<name>_<uid>/            logs of the pod, and below it
//   <pod_logs>/<namespace>_<name>_<uid>/<container>/    logs of each container
//
// Writable layers are known only to the container runtime and are added from its report. A hostPath
// volume belongs to no pod and is not measured.
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

// Log directory names of each pod, by UID.
using PodLogs = std::multimap<std::string, std::string, std::less<>>;
// The directories in `pod_logs`; empty if it does not exist.
[[nodiscard]] Result<PodLogs> list_pod_logs(const std::string& pod_logs);

// Measures one pod. Files may be created and removed meanwhile. A part that cannot be read
// completely gets a note and counts with what was read. ephemeral_storage is the sum of logs,
// /etc/hosts and the volumes on kubelet's filesystem, as in kubelet. Volumes in memory have devices
// of their own and do not count. A pod without any directory uses nothing. ECANCELED: `cancelled`
// became true. EINVAL: `uid` is not a valid pod UID.
[[nodiscard]] Result<PodStatistics> measure_pod(const FilesystemPlaces& places,
                                                const std::string& uid, const PodLogs& logs,
                                                const std::atomic<bool>& cancelled,
                                                std::vector<SourceNote>& notes);

// The sample of container `name`; added if missing.
[[nodiscard]] ContainerSample& container_of(PodStatistics& statistics, std::string_view name);

// Writable layers from the container runtime: containers with `rootfs` set, by pod UID.
using WritableLayers = std::map<std::string, std::vector<ContainerSample>, std::less<>>;
// Adds the layers of one pod to its containers and to its ephemeral storage.
void add_writable_layers(const std::vector<ContainerSample>& layers, PodStatistics& statistics);

}  // namespace forestall::sources
