// SPDX-License-Identifier: Apache-2.0
// The command line of `forestall trace`.
#pragma once

#include "cli/options.h"
#include "cli/trace_question.h"

namespace CLI {
class App;
}

namespace forestall::cli {

void add_trace_options(CLI::App& command, Options& options, TraceOptions& trace);

}  // namespace forestall::cli
