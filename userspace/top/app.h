// SPDX-License-Identifier: Apache-2.0
// `forestall top`: draws samples and applies keys until the user quits.
#pragma once

#include "cli/options.h"
#include "cli/top_options.h"
#include "top/view.h"

namespace forestall::top {

// Returns the exit code.
int run_top(const cli::Options& options, const cli::TopOptions& top);

}  // namespace forestall::top
