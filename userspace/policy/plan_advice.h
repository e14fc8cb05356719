// SPDX-License-Identifier: Apache-2.0
// Known problems with settings that kubelet accepts, each with its reason, from Kubernetes'
// documentation and from reported issues.
#pragma once

#include <vector>

#include "policy/plan.h"

namespace forestall::policy {

// Warnings and notes about `input`, whose reservations are in `plan`.
[[nodiscard]] std::vector<Advice> plan_advice(const PlanInput& input, const Plan& plan);

}  // namespace forestall::policy
