// SPDX-License-Identifier: Apache-2.0
// Conversion of the agent's status to a message.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "exports/drop_counts.h"
#include "exports/loop_counts.h"
#include "exports/stage_histograms.h"
#include "exports/status_board.h"
#include "forestall/v1/status.pb.h"
#include "model/feature.h"
#include "wire/grpc_counts.h"

namespace forestall::service {

// Facts that do not change while the agent runs.
struct AgentFacts {
  std::string version;
  int pid = 0;
  MonotonicTime started;
  std::string kernel;
  Tier tier = Tier::none;
  std::vector<FeatureReport> features;
  std::string config_origin;
};

// Any thread.
[[nodiscard]] v1::AgentStatus to_proto(const AgentFacts& facts, const exports::Status& status,
                                       const exports::StageHistograms& stages,
                                       const exports::LoopCounts& counts,
                                       const exports::DropCounts& drops,
                                       const wire::GrpcCounts& grpc, MonotonicTime now);

}  // namespace forestall::service
