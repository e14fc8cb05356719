// SPDX-License-Identifier: Apache-2.0
#include "cluster/paced_log.h"

namespace forestall::cluster {

void PacedLog::write(exports::LogLevel level, exports::LogLine line) {
  if (!log_.writes(level)) return;
  if (waiting_.size() >= kWaitingMax) {
    ++dropped_;
    return;
  }
  waiting_.emplace_back(level, std::move(line));
  advance();
}

void PacedLog::advance() {
  while (!waiting_.empty() && log_.has_room()) {
    log_.write(waiting_.front().first, waiting_.front().second);
    waiting_.pop_front();
  }
}

}  // namespace forestall::cluster
