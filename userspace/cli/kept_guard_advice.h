// SPDX-License-Identifier: Apache-2.0
// What `forestall doctor` reports on the place where systemd keeps the guard.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "clients/descriptor_store_limit.h"

namespace forestall::cli {

// `keep_guard`: as given to doctor; empty: not given. `limit`: of forestall.service. Nothing:
// systemd keeps the guard or has no such unit, or the guard is kept in a directory.
[[nodiscard]] std::optional<std::string> kept_guard_advice(
    const std::string& keep_guard,
    const Result<std::optional<clients::DescriptorStoreLimit>>& limit);

}  // namespace forestall::cli
