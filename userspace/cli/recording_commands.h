// SPDX-License-Identifier: Apache-2.0
// Command lines of what makes and reads recordings.
#pragma once

#include "cli/replay_options.h"

namespace CLI {
class App;
}

namespace forestall::cli {

void add_record_options(CLI::App& command, RecordOptions& options);
void add_replay_options(CLI::App& command, ReplayOptions& options);
void add_diff_options(CLI::App& command, DiffOptions& options);

}  // namespace forestall::cli
