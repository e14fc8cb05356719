// SPDX-License-Identifier: Apache-2.0
// Options of `forestall cluster`.
#pragma once

#include <string>

namespace forestall::cli {

// As given on the command line; empty: not given.
struct ClusterOptions {
  std::string node;
  std::string kubeconfig;
  std::string context;
  std::string pdb = "ignore";
};

}  // namespace forestall::cli
