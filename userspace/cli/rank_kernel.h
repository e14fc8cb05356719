// SPDX-License-Identifier: Apache-2.0
// Whom the kernel's OOM killer would choose on this host.
#pragma once

#include "cli/options.h"
#include "cli/pod_commands.h"

namespace forestall::cli {

// `forestall rank --kernel`, printed. Returns the exit code.
int rank_kernel(const Options& options, const RankOptions& rank_options);

}  // namespace forestall::cli
