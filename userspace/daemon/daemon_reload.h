// SPDX-License-Identifier: Apache-2.0
// The configuration after SIGHUP.
#pragma once

#include "exports/log.h"
#include "model/config.h"

namespace forestall::daemon {

// `next` with the settings of `started` where a change takes effect at the next start only; logs a
// warning for each of them.
[[nodiscard]] Config reloaded_config(Config next, const Config& started, exports::Log& log);

}  // namespace forestall::daemon
