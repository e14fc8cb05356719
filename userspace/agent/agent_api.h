// SPDX-License-Identifier: Apache-2.0
// The gRPC API of a running agent: socket, server, service, rankings, recordings.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/rank_door.h"
#include "agent/recording_door.h"
#include "api/agent_service.h"
#include "base/result.h"
#include "exports/drop_counts.h"
#include "exports/feed.h"
#include "exports/grpc_counts.h"
#include "exports/grpc_server.h"
#include "exports/local_socket.h"
#include "kernel/cgroup_tree.h"

namespace forestall::agent {

// What it serves; all of it outlives the AgentApi. The functions are called from its threads.
struct AgentApiParts {
  std::function<v1::AgentStatus()> status;
  HostRankDoor::ConfigInForce config;
  const kernel::CgroupTree* tree = nullptr;
  exports::Feed* feed = nullptr;
  exports::DropCounts* drops = nullptr;
  exports::GrpcCounts* counts = nullptr;
  Recorder* recorder = nullptr;
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

}  // namespace forestall::agent
