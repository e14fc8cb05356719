// SPDX-License-Identifier: Apache-2.0
// What a pod occupies on a filesystem (kubelet.md §5.1; pkg/kubelet/eviction/helpers.go
// podDiskUsage, localVolumeNames, buildSignalToRankFunc; pkg/volume/util/util.go
// IsLocalEphemeralVolume).
//
//             nodefs                    imagefs                   containerfs
//   single    rootfs + logs + volumes   rootfs + logs + volumes   rootfs + logs + volumes
//   imagefs   logs + volumes            rootfs                    rootfs
//   split     rootfs + logs + volumes   nothing: 0 for every pod  rootfs + logs + volumes
//
// over all containers that have statistics, and with the local volumes: hostPath, and those that
// live as long as the pod on the node's disk (emptyDir on the default medium, configMap, gitRepo).
// An emptyDir on any other medium (memory, huge pages) occupies no disk.
//
// A pod without statistics is unknown (nothing), which ranks first; a part of one that has no
// figure counts as 0, as in kubelet. Where the pod is not known its volumes have no kind: all that
// were measured count, because a source that knows no pod measures only what lies on the disk.
#pragma once

#include "model/filesystem.h"
#include "model/pod.h"
#include "model/workload.h"

namespace forestall::policy {

// Both amounts are there if the pod has statistics, and neither if not.
[[nodiscard]] DiskUsage measured(const WorkloadSample& sample, Filesystem filesystem,
                                 FilesystemLayout layout);

// All ephemeral storage of the pod: what was read for the pod as a whole, else the sum of its
// parts, rootfs + logs + ephemeral volumes, wherever they lie.
[[nodiscard]] DiskUsage ephemeral_storage(const WorkloadSample& sample);

// Whether a volume's bytes lie on the node's disk and die with the pod.
[[nodiscard]] bool is_local_ephemeral(const PodVolume& volume);
[[nodiscard]] bool is_local(const PodVolume& volume);

}  // namespace forestall::policy
