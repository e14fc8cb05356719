// SPDX-License-Identifier: Apache-2.0
// Serves recordings of a running agent over gRPC.
#pragma once

#include <functional>
#include <utility>

#include "agent/recorder.h"
#include "base/result.h"
#include "messages/recording_entries.h"
#include "service/agent_service.h"

namespace forestall::daemon {

class HostRecordingService final : public service::RecordingService {
 public:
  using Facts = std::function<messages::RecordingFacts()>;

  // `recorder` outlives this. `facts` returns those of a recording that begins now.
  HostRecordingService(agent::Recorder& recorder, Facts facts)
      : recorder_(recorder), facts_(std::move(facts)) {}

  [[nodiscard]] Result<void> start(const v1::StartRecordingRequest& request) override;
  [[nodiscard]] Result<v1::StopRecordingResponse> stop() override;

 private:
  agent::Recorder& recorder_;
  const Facts facts_;
};

}  // namespace forestall::daemon
