// SPDX-License-Identifier: Apache-2.0
// `kubectl forestall`: what the agents of a cluster did, by requests to the API server only.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/api_reader.h"
#include "cluster/kubectl_options.h"

namespace forestall::cluster {

struct KubectlReport {
  std::string text;                // to standard output
  std::vector<std::string> notes;  // what could not be read, to standard error
};

// What a command prints. Errors: the API server refused what the command cannot do without.
// REQUIRES: options.pod_namespace is not empty, and options.wall_seconds is set.
[[nodiscard]] Result<KubectlReport> report_nodes(ApiReader& api, const KubectlOptions& options);
[[nodiscard]] Result<KubectlReport> report_pod(ApiReader& api, const KubectlOptions& options);
[[nodiscard]] Result<KubectlReport> report_events(ApiReader& api, const KubectlOptions& options);
// Prints the pods of options.object in the order of eviction; returns the exit code.
[[nodiscard]] Result<int> print_rank(ApiReader& api, const KubectlOptions& options);

// The kubeconfig to read, as kubectl selects it. `variable` and `home`: KUBECONFIG and HOME.
// Errors: KUBECONFIG has several files, which kubectl merges; or HOME is needed and not set.
[[nodiscard]] Result<std::string> kubeconfig_path(const std::string& given,
                                                  const std::string& variable,
                                                  const std::string& home);

// Runs the command line after "kubectl forestall". Returns the exit code.
[[nodiscard]] int run_kubectl(const std::vector<std::string>& arguments);

}  // namespace forestall::cluster
