// SPDX-License-Identifier: Apache-2.0
// The files of `forestall rebalance` and `forestall check-config --policy-config-file`.
#pragma once

#include <optional>
#include <string>

#include "cli/rebalance_options.h"
#include "descheduler/cluster_snapshot.h"
#include "descheduler/descheduler_policy.h"
#include "rebalance/plan.h"
#include "rebalance/snapshot.h"
#include "text/diagnostic.h"

namespace forestall::cli {

struct RebalanceInput {
  descheduler::DeschedulerPolicy policy;
  rebalance::Snapshot snapshot;
  rebalance::PlanHistory history;
};

// Reads all files. Nothing after an error, which is in `findings`. Priority classes are known if
// there is a file of the cluster.
[[nodiscard]] std::optional<RebalanceInput> load_rebalance_input(const RebalanceOptions& options,
                                                                 text::Findings& findings);

// Adds the objects of a file. An error is in `findings`.
bool add_file(descheduler::ClusterSnapshotReader& reader, const std::string& path,
              text::Findings& findings);

// {"errors": [{"place": ..., "message": ...}]}
[[nodiscard]] std::string errors_json(const text::Findings& findings);

// Prints the errors to standard error, and as JSON to standard output if `json`; returns the exit
// code.
int report_errors(const text::Findings& findings, bool json);

}  // namespace forestall::cli
