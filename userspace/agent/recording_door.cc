// SPDX-License-Identifier: Apache-2.0
#include "agent/recording_door.h"

#include <cerrno>
#include <chrono>

#include "recording/destination.h"

namespace forestall::agent {
namespace {

// How often workloads are recorded between decisions.
constexpr Duration kSurveyInterval = std::chrono::seconds(1);

}  // namespace

Result<void> HostRecordingDoor::start(const v1::StartRecordingRequest& request) {
  if (!request.path().starts_with('/')) {
    return Error{EINVAL, "path '" + request.path() + "' is not absolute"};
  }
  recording::Target target;
  target.path = request.path();
  target.overwrite = request.overwrite();
  if (request.has_max_bytes()) target.size_max = Bytes{request.max_bytes()};
  return recorder_.start(target, facts_(), kSurveyInterval);
}

Result<v1::StopRecordingResponse> HostRecordingDoor::stop() {
  const recording::Totals totals = TRY(recorder_.stop());
  v1::StopRecordingResponse response;
  response.set_entries(totals.entries);
  response.set_bytes(totals.file_bytes);
  response.set_lost_entries(totals.lost_entries);
  return response;
}

}  // namespace forestall::agent
