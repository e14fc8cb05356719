// SPDX-License-Identifier: Apache-2.0
#include "cluster/annotation_events.h"

#include <fmt/format.h>

#include <utility>

namespace forestall::cluster {

std::vector<AnnotationEvent> annotation_events(const v1::PodFactCounts& status,
                                               const NodePods& pods) {
  std::vector<AnnotationEvent> events;
  for (const v1::PodAnnotationProblem& each : status.annotation_problems()) {
    const Pod* pod = pods.named(each.pod());
    if (pod == nullptr) continue;
    ClusterEvent event;
    event.subject = {"Pod", pod->pod_namespace, pod->name, pod->uid};
    event.reason = "AnnotationWithoutEffect";
    event.topic = each.annotation();
    event.message = fmt::format("The annotation forestall.dev/{}: \"{}\" has no effect: {}",
                                each.annotation(), each.value(), each.problem());
    events.push_back({std::move(event), fmt::format("{} {}", pod->uid, each.annotation())});
  }
  return events;
}

}  // namespace forestall::cluster
