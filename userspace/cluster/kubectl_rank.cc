// SPDX-License-Identifier: Apache-2.0
// `kubectl forestall rank NODE`: the pods of a node as the kubelet ranks them, by the statistics
// that its kubelet serves through the API server.
#include <fmt/format.h>

#include <utility>

#include "cli/exit_code.h"
#include "cli/rank_pods.h"
#include "cluster/kubectl_command.h"
#include "intake/config_file.h"
#include "intake/pod_list.h"
#include "intake/stats_summary.h"
#include "kubernetes/url.h"

namespace forestall::cluster {

Result<int> print_rank(ApiReader& api, const KubectlOptions& options) {
  Signal signal = Signal::memory_available;
  if (!options.signal.empty()) signal = TRY(cli::signal_option(options.signal));
  const std::string node = kubernetes::percent_encoded(options.object);
  const std::string body = TRY(api.get("/api/v1/nodes/" + node + "/proxy/stats/summary"));
  auto summary = intake::parse_stats_summary(body);
  if (!summary) return summary.error().in("statistics of node " + options.object);
  const std::string list = TRY(api.get("/api/v1/pods?fieldSelector=spec.nodeName%3D" + node));
  auto pods = intake::parse_listed_pods(list);
  if (!pods) return pods.error().in("pods of node " + options.object);
  if (!options.json) {
    fmt::print(
        "Thresholds and order are the kubelet's defaults: the API does not have the configuration "
        "of the agent.\n\n");
  }
  cli::rank_listed_pods(
      intake::built_in_config(),
      {signal, std::nullopt, options.json ? cli::OutputFormat::json : cli::OutputFormat::text},
      *std::move(pods), *summary);
  return cli::kExitOk;
}

}  // namespace forestall::cluster
