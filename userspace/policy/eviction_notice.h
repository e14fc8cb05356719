// SPDX-License-Identifier: Apache-2.0
// What is said about an eviction for a threshold, in kubelet's words (kubelet.md §5.5;
// pkg/kubelet/eviction/helpers.go evictionMessage, getThresholdMetInfo).
#pragma once

#include <span>

#include "model/decision.h"
#include "model/eviction.h"

namespace forestall::policy {

// Fills message, annotations, metric_signal and disruption_target of `eviction`.
//
// The message, each sentence with a blank at its end:
// 1. which resource was short;
// 2. the threshold's quantity and what was available: of `driving`, else of the first in `evidence`
//    that is driving and about the same resource; left out if there is neither;
// 3. for memory, and a pod with a memory request of its own: what the pod used;
// 4. for each regular or init container above its request (none: 0), in the order of the
//    statistics: what it used. Memory and ephemeral storage only; nothing about a container whose
//    usage is not known, and for ephemeral storage both writable layer and logs must be.
// Annotations are in the order of Eviction::annotations. They, and sentences 3 and 4, need
// statistics: a victim without any has none of them.
void write_notice(const Candidate& victim, const Evidence& driving,
                  std::span<const Evidence> evidence, Eviction& eviction);

}  // namespace forestall::policy
