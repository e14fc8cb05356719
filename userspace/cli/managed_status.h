// SPDX-License-Identifier: Apache-2.0
// `forestall status --managed`: the rules from systemd's ManagedOOM properties with their readings,
// as `oomctl` shows those of systemd-oomd.
#pragma once

#include <string>

#include "forestall/v1/status.pb.h"

namespace forestall::cli {

[[nodiscard]] std::string managed_status_text(const v1::ManagedOomStatus& managed);

}  // namespace forestall::cli
