// SPDX-License-Identifier: Apache-2.0
#include "daemon/recording_service.h"

#include <cerrno>

#include "recording/destination.h"

namespace forestall::daemon {

Result<void> HostRecordingService::start(const v1::StartRecordingRequest& request) {
  if (!request.path().starts_with('/')) {
    return Error{EINVAL, "path '" + request.path() + "' is not absolute"};
  }
  recording::Target target;
  target.path = request.path();
  target.overwrite = request.overwrite();
  if (request.has_max_bytes()) target.size_max = Bytes{request.max_bytes()};
  return recorder_.start(target, facts_(), agent::Recorder::kInterval);
}

Result<v1::StopRecordingResponse> HostRecordingService::stop() {
  const recording::WriterTotals totals = TRY(recorder_.stop());
  v1::StopRecordingResponse response;
  response.set_entries(totals.entries);
  response.set_bytes(totals.file_bytes);
  response.set_lost_entries(totals.lost_entries);
  return response;
}

}  // namespace forestall::daemon
