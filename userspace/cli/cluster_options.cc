// SPDX-License-Identifier: Apache-2.0
#include "cli/cluster_options.h"

#include "cli/option_forms.h"

namespace forestall::cli {

void add_cluster_options(CLI::App& command, ClusterOptions& cluster) {
  add_value(command, "--node", cluster.node, "NAME",
            "The node whose pods to watch (default: the variable NODE_NAME)");
  CLI::Option* file = add_value(command, "--kubeconfig", cluster.kubeconfig, "FILE",
                                "Where the API server is (default: the pod's service account)");
  add_value(command, "--context", cluster.context, "NAME",
            "Context of the kubeconfig (default: its current-context)")
      ->needs(file);
  add_value(
      command, "--pdb", cluster.pdb, "ignore|respect",
      "If a PodDisruptionBudget refuses to evict a killed pod: delete the pod, as the kubelet "
      "does under pressure, or let its containers start again (default: ignore)")
      ->check(one_of({"ignore", "respect"}));
  command.add_flag("--taint", cluster.taint,
                   "Taint the node with forestall.dev/memory-pressure:NoSchedule while the agent "
                   "reports memory pressure");
  add_value(
      command, "--daemon-set", cluster.daemon_set, "NAMESPACE/NAME",
      "If SIGTERM ends this process while this DaemonSet remains, the condition and the taint "
      "of the node stay for the process that follows");
}

}  // namespace forestall::cli
