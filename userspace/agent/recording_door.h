// SPDX-License-Identifier: Apache-2.0
// Serves recordings of a running agent over gRPC.
#pragma once

#include <functional>
#include <utility>

#include "agent/recorder.h"
#include "api/agent_service.h"
#include "api/recording_entries.h"
#include "base/result.h"

namespace forestall::agent {

class HostRecordingDoor final : public api::RecordingDoor {
 public:
  using Facts = std::function<api::RecordingFacts()>;

  // `recorder` outlives this. `facts` returns those of a recording that begins now.
  HostRecordingDoor(Recorder& recorder, Facts facts)
      : recorder_(recorder), facts_(std::move(facts)) {}

  [[nodiscard]] Result<void> start(const v1::StartRecordingRequest& request) override;
  [[nodiscard]] Result<v1::StopRecordingResponse> stop() override;

 private:
  Recorder& recorder_;
  const Facts facts_;
};

}  // namespace forestall::agent
