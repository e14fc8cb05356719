// SPDX-License-Identifier: Apache-2.0
#include "cli/cluster_options.h"

#include <CLI/CLI.hpp>

namespace forestall::cli {

void add_cluster_options(CLI::App& command, ClusterOptions& cluster) {
  const auto add = [&command](const char* name, std::string& target, const char* form,
                              const char* help) {
    return command.add_option(name, target, help)->option_text(form);
  };
  add("--node", cluster.node, "NAME",
      "The node whose pods to watch (default: the variable NODE_NAME)");
  CLI::Option* file = add("--kubeconfig", cluster.kubeconfig, "FILE",
                          "Where the API server is (default: the pod's service account)");
  add("--context", cluster.context, "NAME",
      "Context of the kubeconfig (default: its current-context)")
      ->needs(file);
  add("--pdb", cluster.pdb, "ignore|respect",
      "If a PodDisruptionBudget refuses to evict a killed pod: delete the pod, as the kubelet "
      "does under pressure, or let its containers start again (default: ignore)")
      ->check([](const std::string& word) -> std::string {
        if (word == "ignore" || word == "respect") return {};
        return "unknown value '" + word + "'; use one of: ignore, respect";
      });
  command.add_flag("--taint", cluster.taint,
                   "Taint the node with forestall.dev/memory-pressure:NoSchedule while the agent "
                   "reports memory pressure");
}

}  // namespace forestall::cli
