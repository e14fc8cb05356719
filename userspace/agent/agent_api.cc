// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_api.h"

#include <utility>

namespace forestall::agent {

Result<std::unique_ptr<AgentApi>> AgentApi::serve(const std::string& path,
                                                  const exports::LocalUsers& users,
                                                  AgentApiParts parts) {
  std::unique_ptr<AgentApi> api(new AgentApi());
  api->rank_ = TRY(HostRankDoor::create(*parts.tree, std::move(parts.config)));
  api->recording_ =
      std::make_unique<HostRecordingDoor>(*parts.recorder, std::move(parts.recording_facts));
  api->service_ = TRY(api::AgentService::create(
      {std::move(parts.status), parts.feed, parts.drops, api->rank_.get(), api->recording_.get()}));
  api->server_ = TRY(exports::GrpcServer::start(path, users, *api->service_, *parts.counts));
  return api;
}

}  // namespace forestall::agent
