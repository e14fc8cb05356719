// SPDX-License-Identifier: Apache-2.0
// Reads the status of a running agent at intervals: GetStatus on its socket.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "forestall/v1/status.pb.h"
#include "wire/grpc_stream.h"

namespace forestall::cluster {

// Thread rule: one thread.
class AgentStatusReader {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(5);
  static constexpr Duration kTimeout = std::chrono::seconds(3);

  // `clock` outlives this. `on_status` is called from advance().
  AgentStatusReader(std::string socket, const Clock& clock,
                    std::function<void(const v1::AgentStatus&)> on_status)
      : socket_(std::move(socket)), clock_(clock), on_status_(std::move(on_status)) {}

  // Begins, continues or ends a call.
  void advance();
  // The status has changed: the next call is due now.
  void make_due() { not_before_ = clock_.now(); }
  // What to poll for; fd -1: nothing.
  [[nodiscard]] pollfd poll() const;
  // When advance() next has work in any case.
  [[nodiscard]] MonotonicTime due() const { return call_ ? call_ends_ : not_before_; }

 private:
  void begin();

  const std::string socket_;
  const Clock& clock_;
  const std::function<void(const v1::AgentStatus&)> on_status_;
  std::unique_ptr<wire::GrpcStream> call_;
  MonotonicTime call_ends_{};  // at the latest
  MonotonicTime not_before_{};
};

}  // namespace forestall::cluster
