// SPDX-License-Identifier: Apache-2.0
// Command line options about the configuration, and those of `plan`.
#pragma once

#include <string>

#include "cli/options.h"

namespace CLI {
class App;
}

namespace forestall::cli {

// As they were given; empty: not given.
struct PlanOptions {
  std::string memory;  // capacities
  std::string cpu;
  std::string storage;
  std::string pids;
  std::string pods;
  std::string huge_pages;
  std::string reserve;  // intents: "10%" or an amount
  std::string evict_at;
};

// --config, --kubelet-config and kubelet's flags.
void add_config_options(CLI::App& command, Options& options);
void add_plan_options(CLI::App& command, PlanOptions& options);

}  // namespace forestall::cli
