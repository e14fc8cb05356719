// SPDX-License-Identifier: Apache-2.0
// The gRPC API of a running agent: socket, server, service, rankings, recordings.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/rank_service.h"
#include "daemon/recording_service.h"
#include "exports/drop_counts.h"
#include "exports/event_broadcast.h"
#include "kernel/cgroup_tree.h"
#include "service/agent_service.h"
#include "wire/grpc_counts.h"
#include "wire/grpc_server.h"
#include "wire/local_socket.h"

namespace forestall::daemon {

// What it serves; all of it outlives the AgentApi. The functions are called from its threads.
struct AgentApiParts {
  std::function<v1::AgentStatus()> status;
  HostRankService::ConfigInForce config;
  const kernel::CgroupTree* tree = nullptr;
  exports::EventBroadcast* broadcast = nullptr;
  exports::DropCounts* drops = nullptr;
  wire::GrpcCounts* counts = nullptr;
  agent::Recorder* recorder = nullptr;
  HostRecordingService::Facts recording_facts;
  service::PodReceiver* pods = nullptr;
  std::vector<std::uint32_t> pod_writers;
};

class AgentApi {
 public:
  // Errors: as LocalSocket::listen().
  static Result<std::unique_ptr<AgentApi>> serve(const std::string& path,
                                                 const wire::LocalUsers& users,
                                                 AgentApiParts parts);

 private:
  AgentApi() = default;
  std::unique_ptr<HostRankService> rank_;
  std::unique_ptr<HostRecordingService> recording_;
  std::unique_ptr<service::AgentService> service_;
  std::unique_ptr<wire::GrpcServer> server_;  // last: its thread uses the above
};

}  // namespace forestall::daemon
