// SPDX-License-Identifier: Apache-2.0
#include "cluster/kill_watch.h"

#include <utility>

#include "forestall/v1/service.pb.h"

namespace forestall::cluster {
namespace {

constexpr const char* kWatchRecords = "/forestall.v1.Agent/WatchRecords";
constexpr Duration kConnectPatience = std::chrono::seconds(1);

}  // namespace

KillWatch::KillWatch(std::string socket, const Clock& clock, std::function<double()> chance,
                     Receiver receiver)
    : socket_(std::move(socket)),
      clock_(clock),
      chance_(std::move(chance)),
      receiver_(std::move(receiver)) {}

void KillWatch::advance() {
  if (!stream_ && clock_.now() >= not_before_) {
    v1::WatchRecordsRequest request;
    request.set_acts_only(true);
    request.set_recent_kills_ns(Evictions::kExpiresAfter.count());
    auto stream = wire::GrpcStream::open(socket_, kWatchRecords, request.SerializeAsString(),
                                         kConnectPatience);
    if (!stream) return disconnect();
    stream_ = std::move(*stream);
    connected_at_ = clock_.now();
    receiver_.connected();
  }
  if (!stream_) return;
  stream_->advance();
  // take() may disconnect.
  while (stream_) {
    const auto message = stream_->next();
    if (!message) break;
    take(*message);
  }
  if (stream_ && stream_->end()) disconnect();
}

void KillWatch::take(const std::string& message) {
  v1::WatchRecordsResponse response;
  if (!response.ParseFromString(message)) return disconnect();
  backoff_.reset();
  if (response.has_lost()) lost_ += response.lost().count();
  if (!response.has_record()) return;
  if (const auto pod = killed_pod(response.record())) receiver_.killed(*pod);
  if (const auto kill = kernel_kill(response.record())) receiver_.killed_by_kernel(*kill);
}

void KillWatch::disconnect() {
  const MonotonicTime now = clock_.now();
  // An agent that restarts now and then, and kills nothing, must not be waited for longer each
  // time.
  if (stream_ && now - connected_at_ >= kStableAfter) backoff_.reset();
  stream_.reset();
  not_before_ = now + backoff_.next(chance_());
}

pollfd KillWatch::poll() const {
  if (!stream_) return {-1, 0, 0};
  return {stream_->fd(), stream_->events(), 0};
}

std::optional<MonotonicTime> KillWatch::due() const {
  return stream_ ? std::nullopt : std::optional(not_before_);
}

}  // namespace forestall::cluster
