// SPDX-License-Identifier: Apache-2.0
// The command line of `kubectl forestall`, with the options that kubectl's own commands have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forestall::cluster {

struct KubectlOptions {
  enum class Kind : std::uint8_t { top_nodes, why, rank, events };

  Kind command = Kind::top_nodes;
  std::string kubeconfig;     // empty: the first of KUBECONFIG, else ~/.kube/config
  std::string context;        // empty: current-context
  std::string pod_namespace;  // empty: that of the context
  bool all_namespaces = false;
  bool json = false;
  std::string object;             // the pod of `why`, the node of `rank`
  std::string signal;             // of `rank`; empty: memory.available
  std::int64_t wall_seconds = 0;  // now, by the wall clock of this host
};

// Returns the exit code if there is nothing to run: help was printed to standard output, or an
// error to standard error.
[[nodiscard]] std::optional<int> parse_kubectl_options(const std::vector<std::string>& arguments,
                                                       KubectlOptions& options);

}  // namespace forestall::cluster
