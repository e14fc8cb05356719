// SPDX-License-Identifier: Apache-2.0
// Keeps a running agent's pods up to date: one call of UpdatePods at a time on its socket.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cluster/node_pods.h"
#include "kubernetes/backoff.h"
#include "kubernetes/list_watch.h"
#include "wire/grpc_stream.h"

namespace forestall::cluster {

// Thread rule: one thread.
class PodWriter {
 public:
  // Changes within this time become one call: each one makes the agent rank again.
  static constexpr Duration kInterval = std::chrono::milliseconds(250);
  // Without changes, how often the agent receives how old the pods are.
  static constexpr Duration kHeartbeat = std::chrono::seconds(10);
  static constexpr Duration kTimeout = std::chrono::seconds(5);

  // `pods`, `api` and `clock` outlive this. `writer` is random.
  PodWriter(std::string socket, NodePods& pods, const kubernetes::ListWatchState& api,
            const Clock& clock, std::uint64_t writer, std::function<double()> chance);

  // The agent may be another one by now: it receives all pods, at once.
  void list_again();
  // Begins, continues or ends a call.
  void advance();
  // What to poll for; fd -1: nothing.
  [[nodiscard]] pollfd poll() const;
  // When advance() next has work in any case.
  [[nodiscard]] MonotonicTime due() const;
  // Why the agent does not have the pods; empty: it has, or there is no list yet.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void begin();
  void collect();
  void send(v1::UpdatePodsRequest request);
  void finish(const wire::GrpcReply& reply);
  void fail(std::string problem);

  const std::string socket_;
  NodePods& pods_;
  const kubernetes::ListWatchState& api_;
  const Clock& clock_;
  const std::uint64_t writer_;
  const std::function<double()> chance_;

  std::unique_ptr<wire::GrpcStream> call_;
  MonotonicTime call_ends_{};  // at the latest
  std::deque<v1::UpdatePodsRequest> waiting_;
  bool must_list_ = true;
  MonotonicTime not_before_{};
  MonotonicTime heartbeat_{};
  std::string reported_;  // the API's problem as the agent has it
  std::string problem_;
  kubernetes::Backoff backoff_;
};

}  // namespace forestall::cluster
