// SPDX-License-Identifier: Apache-2.0
// Predicts the victim of the kernel's OOM killer on this host.
#pragma once

#include "cli/options.h"
#include "cli/pod_commands.h"

namespace forestall::cli {

// Prints the output of `forestall rank --kernel`. Returns the exit code.
int rank_kernel(const Options& options, const RankOptions& rank_options);

}  // namespace forestall::cli
