// SPDX-License-Identifier: Apache-2.0
// What the annotations of a pod amount to under the operator's policy.
//
// Tenants write annotations, so each one counts only in the namespaces that podAnnotations lists
// for it. "true" sets it, "false" is as if it were absent, and any other value has no effect.
// prefer and avoid together have none, and neither has prefer on a pod that is protected.
#pragma once

#include <vector>

#include "model/pod.h"
#include "model/pod_annotations.h"
#include "model/preference.h"
#include "model/workload.h"

namespace forestall::sources {

struct PodAnnotationFacts {
  bool is_protected = false;
  Preference preference = Preference::normal;
  std::vector<PodAnnotationProblem> problems;  // annotations without effect
};

[[nodiscard]] PodAnnotationFacts annotation_facts(const Pod& pod,
                                                  const PodAnnotationPolicy& policy);

// Sets protection and preference of a pod by its facts. What an operator or Kubernetes protects
// already stays protected for that reason. A workload without facts of a pod stays as it is.
void apply_annotations(const PodAnnotationPolicy& policy, Workload& workload);

}  // namespace forestall::sources
