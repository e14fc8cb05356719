// SPDX-License-Identifier: Apache-2.0
// The lines that let the agent act on a host without pods. They are shown, never applied: which
// services of such a host may be killed is the operator's decision.
#pragma once

#include <array>
#include <string_view>

namespace forestall {

inline constexpr std::array<std::string_view, 3> kWorkloadExample{
    "workloads:",
    "  - {cgroup: /user.slice/user-*.slice}",
    "  - {cgroup: /system.slice/NAME.service}",
};

// What the agent, `status` and `doctor` report of such a host.
inline constexpr std::string_view kNoCandidates =
    "the agent guards no workload and would kill nothing: no pod and no cgroup of 'workloads' is "
    "unprotected";

}  // namespace forestall
