// SPDX-License-Identifier: Apache-2.0
// The gRPC API of a running agent: socket, server, service and rankings.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/agent_service.h"
#include "base/result.h"
#include "cli/rank_door.h"
#include "cli/recording_door.h"
#include "exports/drop_counts.h"
#include "exports/feed.h"
#include "exports/grpc_counts.h"
#include "exports/grpc_server.h"
#include "exports/local_socket.h"
#include "kernel/cgroup_tree.h"

namespace forestall::cli {

// Dependencies, which must outlive the AgentApi. The functions are called from its threads.
struct AgentApiParts {
  std::function<v1::AgentStatus()> status;
  HostRankDoor::ConfigInForce config;
  const kernel::CgroupTree* tree = nullptr;
  exports::Feed* feed = nullptr;
  exports::DropCounts* drops = nullptr;
  exports::GrpcCounts* counts = nullptr;
  agent::Recorder* recorder = nullptr;
  HostRecordingDoor::Facts recording_facts;
};

class AgentApi {
 public:
  // Errors: as LocalSocket::listen().
  static Result<std::unique_ptr<AgentApi>> serve(const std::string& path,
                                                 const exports::LocalUsers& users,
                                                 AgentApiParts parts);

 private:
  AgentApi() = default;
  std::unique_ptr<HostRankDoor> rank_;
  std::unique_ptr<HostRecordingDoor> recording_;
  std::unique_ptr<api::AgentService> service_;
  std::unique_ptr<exports::GrpcServer> server_;  // last: its thread uses the above
};

}  // namespace forestall::cli
