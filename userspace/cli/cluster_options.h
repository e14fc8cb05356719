// SPDX-License-Identifier: Apache-2.0
// Options of `forestall cluster`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace forestall::cli {

// As given on the command line; empty: not given.
struct ClusterOptions {
  std::string node;
  std::string kubeconfig;
  std::string context;
  std::string pdb = "ignore";
  bool taint = false;
  std::string daemon_set;
};

// Describes them to CLI11.
void add_cluster_options(CLI::App& command, ClusterOptions& cluster);

}  // namespace forestall::cli
