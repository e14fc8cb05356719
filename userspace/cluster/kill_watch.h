// SPDX-License-Identifier: Apache-2.0
// Receives from a running agent which pods it has killed: WatchRecords on its socket.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "cluster/kill_report.h"
#include "kubernetes/backoff.h"
#include "wire/grpc_stream.h"

namespace forestall::cluster {

// Thread rule: one thread.
class KillWatch {
 public:
  // A connection that lasted so long ends the back-off.
  static constexpr Duration kStableAfter = std::chrono::seconds(5);

  // Called from advance().
  struct Receiver {
    // Twice for most kills: when they begin, and with their outcome. Again after a new connection,
    // for the kills of the last Evictions::kExpiresAfter.
    std::function<void(const KilledPod&)> killed;
    std::function<void(const KernelKill&)> killed_by_kernel;
    // The agent may have been started again.
    std::function<void()> connected;
  };

  // `clock` outlives this.
  KillWatch(std::string socket, const Clock& clock, std::function<double()> chance,
            Receiver receiver);

  // Connects if it is due, and takes what arrived.
  void advance();
  // What to poll for; fd -1: nothing.
  [[nodiscard]] pollfd poll() const;
  // When advance() connects; nothing: it is connected.
  [[nodiscard]] std::optional<MonotonicTime> due() const;
  // Records that the agent could not send: kills may be among them.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  void take(const std::string& message);
  void disconnect();

  const std::string socket_;
  const Clock& clock_;
  const std::function<double()> chance_;
  const Receiver receiver_;
  std::unique_ptr<wire::GrpcStream> stream_;
  MonotonicTime connected_at_{};
  MonotonicTime not_before_{};
  kubernetes::Backoff backoff_;
  std::uint64_t lost_ = 0;
};

}  // namespace forestall::cluster
