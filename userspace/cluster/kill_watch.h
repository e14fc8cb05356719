// SPDX-License-Identifier: Apache-2.0
// Receives from a running agent which pods it has killed: WatchRecords on its socket.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "cluster/evictions.h"
#include "forestall/v1/record.pb.h"
#include "kubernetes/backoff.h"
#include "wire/grpc_stream.h"

namespace forestall::cluster {

// The pod that the record's kill was of; nothing: the record is of no kill of a pod of the API
// server, of a dry run, or of one that signalled no process.
[[nodiscard]] std::optional<KilledPod> killed_pod(const v1::Record& record);

// Thread rule: one thread.
class KillWatch {
 public:
  // A connection that lasted so long ends the back-off.
  static constexpr Duration kLasted = std::chrono::seconds(5);

  // `clock` outlives this. `on_kill` is called from advance(), twice for most kills: when they
  // begin, and with their outcome. `on_connect`: the agent may have been started again.
  KillWatch(std::string socket, const Clock& clock, std::function<double()> chance,
            std::function<void(const KilledPod&)> on_kill, std::function<void()> on_connect);

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
  const std::function<void(const KilledPod&)> on_kill_;
  const std::function<void()> on_connect_;
  std::unique_ptr<wire::GrpcStream> stream_;
  MonotonicTime connected_at_{};
  MonotonicTime not_before_{};
  kubernetes::Backoff backoff_;
  std::uint64_t lost_ = 0;
};

}  // namespace forestall::cluster
