// SPDX-License-Identifier: Apache-2.0
// Annotations of pods without effect, as Events of the pods: tenants have no access to the agent's
// log.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster_event.h"
#include "cluster/event_series.h"
#include "cluster/node_pods.h"
#include "forestall/v1/status.pb.h"

namespace forestall::cluster {

// Tenants write annotations. With a rate of their own, these Events delay none of a kill. The
// agent's status lists some annotations at a time, in turn, so many are remembered.
inline constexpr EventSeries::Rate kAnnotationEventRate{5, std::chrono::minutes(1), 4'096};

struct AnnotationEvent {
  ClusterEvent event;
  std::string occurrence;  // of EventSeries::offer(): each annotation of a pod once
};

// Those in the agent's status. Without the pods that `pods` does not have: their UID is unknown.
[[nodiscard]] std::vector<AnnotationEvent> annotation_events(const v1::PodFactCounts& status,
                                                             const NodePods& pods);

}  // namespace forestall::cluster
