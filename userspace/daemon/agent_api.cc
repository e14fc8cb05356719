// SPDX-License-Identifier: Apache-2.0
#include "daemon/agent_api.h"

#include <utility>

namespace forestall::daemon {

Result<std::unique_ptr<AgentApi>> AgentApi::serve(const std::string& path,
                                                  const wire::LocalUsers& users,
                                                  AgentApiParts parts) {
  std::unique_ptr<AgentApi> api(new AgentApi());
  api->rank_ = TRY(HostRankService::create(*parts.tree, std::move(parts.config)));
  api->recording_ =
      std::make_unique<HostRecordingService>(*parts.recorder, std::move(parts.recording_facts));
  api->service_ = TRY(service::AgentService::create(
      {std::move(parts.status), parts.broadcast, parts.drops, api->rank_.get(),
       api->recording_.get(), parts.pods, std::move(parts.pod_writers)}));
  api->server_ = TRY(wire::GrpcServer::start(path, users, *api->service_, *parts.counts));
  return api;
}

}  // namespace forestall::daemon
