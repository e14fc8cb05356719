// SPDX-License-Identifier: Apache-2.0
// Usage of a pod on a filesystem (pkg/kubelet/eviction/helpers.go podDiskUsage, localVolumeNames,
// buildSignalToRankFunc; pkg/volume/util/util.go IsLocalEphemeralVolume).
//
//             nodefs                    imagefs                   containerfs
//   single    rootfs + logs + volumes   rootfs + logs + volumes   rootfs + logs + volumes
//   imagefs   logs + volumes            rootfs                    rootfs
//   split     rootfs + logs + volumes   nothing: 0 for every pod  rootfs + logs + volumes
//
// Summed over all containers with statistics and the local volumes: hostPath, and those that live
// as long as the pod on the node's disk (emptyDir on the default medium, configMap, gitRepo). An
// emptyDir on any other medium (memory, huge pages) uses no disk.
//
// The usage of a pod without statistics is unset, which ranks first. A part without a figure counts
// as 0, as in kubelet. If the pod is unknown, its volumes have no kind: all measured ones count,
// because a source without pod facts measures only what is on the disk.
#pragma once

#include "model/filesystem.h"
#include "model/pod.h"
#include "model/workload.h"

namespace forestall::policy {

// Both amounts are set if the pod has statistics, otherwise neither.
[[nodiscard]] DiskUsage measured(const WorkloadSample& sample, Filesystem filesystem,
                                 FilesystemLayout layout);

// All ephemeral storage of the pod: the figure for the whole pod if there is one, otherwise the sum
// of rootfs, logs and ephemeral volumes on any filesystem.
[[nodiscard]] DiskUsage ephemeral_storage(const WorkloadSample& sample);

// is_local_ephemeral(): the volume's bytes are on the node's disk and deleted with the pod.
[[nodiscard]] bool is_local_ephemeral(const PodVolume& volume);
[[nodiscard]] bool is_local(const PodVolume& volume);

}  // namespace forestall::policy
