// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent_status_reader.h"

#include <utility>

#include "forestall/v1/service.pb.h"

namespace forestall::cluster {
namespace {

constexpr const char* kGetStatus = "/forestall.v1.Agent/GetStatus";

}  // namespace

void AgentStatusReader::advance() {
  if (!call_ && clock_.now() >= not_before_) begin();
  if (!call_) return;
  call_->advance();
  if (const auto message = call_->next()) {
    v1::GetStatusResponse response;
    if (response.ParseFromString(*message)) on_status_(response.status());
  }
  if (call_->end() || clock_.now() >= call_ends_) call_.reset();
}

void AgentStatusReader::begin() {
  const MonotonicTime now = clock_.now();
  not_before_ = now + kInterval;
  auto call = wire::GrpcStream::open(socket_, kGetStatus, "", kTimeout);
  if (!call) return;
  call_ = std::move(*call);
  call_ends_ = now + kTimeout;
}

pollfd AgentStatusReader::poll() const {
  if (!call_) return {-1, 0, 0};
  return {call_->fd(), call_->events(), 0};
}

}  // namespace forestall::cluster
