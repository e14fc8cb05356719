// SPDX-License-Identifier: Apache-2.0
// The cgroups of the protected workloads, as ladder and guard need them.
#pragma once

#include <memory>

#include "actuators/protected_groups.h"
#include "model/config.h"
#include "sources/observer.h"

namespace forestall::agent {

[[nodiscard]] std::shared_ptr<const actuators::ProtectedGroups> protected_groups(
    const sources::Observer& observer, const Config& config);

}  // namespace forestall::agent
