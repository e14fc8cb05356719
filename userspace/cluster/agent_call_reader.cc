// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent_call_reader.h"

#include <utility>

namespace forestall::cluster {

void AgentCallReader::advance() {
  if (!call_ && clock_.now() >= not_before_) begin();
  if (!call_) return;
  call_->advance();
  const auto message = call_->next();
  if (!message && !call_->end() && clock_.now() < call_ends_) return;
  call_.reset();
  on_end_(message ? &*message : nullptr);
}

void AgentCallReader::begin() {
  const MonotonicTime now = clock_.now();
  not_before_ = now + options_.interval;
  auto call =
      wire::GrpcStream::open(options_.socket, options_.method, options_.request, options_.longest);
  if (!call) return on_end_(nullptr);
  call_ = std::move(*call);
  call_ends_ = now + options_.longest;
}

pollfd AgentCallReader::poll() const {
  if (!call_) return {-1, 0, 0};
  return {call_->fd(), call_->events(), 0};
}

}  // namespace forestall::cluster
