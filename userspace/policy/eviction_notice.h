// SPDX-License-Identifier: Apache-2.0
// The message and annotations of a threshold eviction, with kubelet's texts
// (pkg/kubelet/eviction/helpers.go evictionMessage, getThresholdMetInfo).
#pragma once

#include <span>

#include "model/decision.h"
#include "model/eviction.h"

namespace forestall::policy {

// Fills message, annotations, metric_signal and disruption_target of `eviction`.
//
// The message; each sentence ends with a blank:
// 1. the short resource, and for a signal of Forestall's own the cgroup, where kubelet has the
// node;
// 2. the threshold's quantity and the available amount, of `driving`, otherwise of the first
// evidence that is driving and about the same resource; omitted without either;
// 3. for memory, and a pod with its own memory request: the pod's usage;
// 4. for each regular or init container above its request (none: 0), in the order of the
// statistics: its usage. Memory and ephemeral storage only; omitted for a container of unknown
// usage. Ephemeral storage requires both writable layer and logs.
// Annotations are in the order of Eviction::annotations. They and sentences 3 and 4 require
// statistics: a victim without statistics has none of them.
void write_notice(const Candidate& victim, const Evidence& driving,
                  std::span<const Evidence> evidence, Eviction& eviction);

}  // namespace forestall::policy
