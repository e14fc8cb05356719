// SPDX-License-Identifier: Apache-2.0
// What is known to go wrong with settings that kubelet accepts, each with its reason: the pitfalls
// of the official documentation and of the issues people raised (kubelet.md §13).
#pragma once

#include <vector>

#include "policy/plan.h"

namespace forestall::policy {

// Warnings and notes about `input`, whose arithmetic is in `plan`.
[[nodiscard]] std::vector<Advice> plan_advice(const PlanInput& input, const Plan& plan);

}  // namespace forestall::policy
