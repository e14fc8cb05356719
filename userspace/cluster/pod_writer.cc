// SPDX-License-Identifier: Apache-2.0
#include "cluster/pod_writer.h"

#include <algorithm>
#include <utility>

namespace forestall::cluster {
namespace {

constexpr const char* kUpdatePods = "/forestall.v1.Agent/UpdatePods";

}  // namespace

PodWriter::PodWriter(std::string socket, NodePods& pods, const kubernetes::ListWatchState& api,
                     const Clock& clock, std::uint64_t writer, std::function<double()> chance)
    : socket_(std::move(socket)),
      pods_(pods),
      api_(api),
      clock_(clock),
      writer_(writer),
      chance_(std::move(chance)) {}

void PodWriter::advance() {
  if (call_) {
    call_->advance();
    if (call_->end()) {
      finish(*call_->end());
    } else if (clock_.now() >= call_ends_) {
      call_.reset();
      fail("the agent does not answer");
    }
  }
  if (!call_ && clock_.now() >= not_before_) begin();
}

void PodWriter::list_again() {
  waiting_.clear();
  must_list_ = true;
  backoff_.reset();
  not_before_ = clock_.now();
}

void PodWriter::begin() {
  if (!pods_.complete()) {
    heartbeat_ = clock_.now() + kHeartbeat;
    return;
  }
  if (waiting_.empty()) collect();
  if (waiting_.empty()) return;
  send(std::move(waiting_.front()));
}

void PodWriter::collect() {
  const auto requests = must_list_ ? pods_.take_list() : pods_.take_changes();
  must_list_ = false;
  waiting_.assign(requests.begin(), requests.end());
  const bool news = api_.problem != reported_;
  if (waiting_.empty() && (news || clock_.now() >= heartbeat_)) waiting_.emplace_back();
}

void PodWriter::send(v1::UpdatePodsRequest request) {
  const MonotonicTime now = clock_.now();
  waiting_.pop_front();
  request.set_writer(writer_);
  if (api_.confirmed) request.set_age_ns((now - *api_.confirmed).count());
  if (!api_.problem.empty()) request.set_problem(api_.problem);
  reported_ = api_.problem;
  auto call = wire::GrpcStream::open(socket_, kUpdatePods, request.SerializeAsString(), kTimeout);
  if (!call) return fail(call.error().text());
  call_ = std::move(*call);
  call_ends_ = now + kTimeout;
  heartbeat_ = now + kHeartbeat;
  call_->advance();
}

void PodWriter::finish(const wire::GrpcReply& reply) {
  const bool taken = reply.ok();
  std::string problem = reply.message;
  call_.reset();  // and with it the reply
  if (!taken) return fail(std::move(problem));
  problem_.clear();
  backoff_.reset();
  not_before_ = waiting_.empty() ? clock_.now() + kInterval : clock_.now();
}

// The agent may be another one by now, or may have pods of another writer.
void PodWriter::fail(std::string problem) {
  problem_ = socket_ + ": " + std::move(problem);
  waiting_.clear();
  must_list_ = true;
  not_before_ = clock_.now() + backoff_.next(chance_());
}

pollfd PodWriter::poll() const {
  if (!call_) return {-1, 0, 0};
  return {call_->fd(), call_->events(), 0};
}

MonotonicTime PodWriter::due() const {
  if (call_) return call_ends_;
  const bool has_work = pods_.complete() && (must_list_ || !waiting_.empty() ||
                                             pods_.has_changes() || api_.problem != reported_);
  return has_work ? not_before_ : std::max(not_before_, heartbeat_);
}

}  // namespace forestall::cluster
