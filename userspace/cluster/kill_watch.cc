// SPDX-License-Identifier: Apache-2.0
#include "cluster/kill_watch.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "forestall/v1/service.pb.h"

namespace forestall::cluster {
namespace {

constexpr const char* kWatchRecords = "/forestall.v1.Agent/WatchRecords";
constexpr Duration kConnectPatience = std::chrono::seconds(1);

}  // namespace

namespace {

// Its processes were signalled. A record of an agent that does not report how a kill began is none
// of these before its outcome is known: the kill may be one of a dry run.
bool was_signalled(const v1::BegunKill& begun) {
  const bool still_running = begun.dry_run() || begun.state() == v1::KillProgress::FAILED ||
                             begun.state() == v1::KillProgress::STATE_UNSPECIFIED;
  return !still_running;
}

const v1::Workload* victim_of(const v1::Record& record) {
  if (record.has_outcome()) {
    const v1::Outcome& outcome = record.outcome();
    const bool signalled = !outcome.dry_run() && outcome.has_signalled_ns();
    return signalled ? &outcome.victim() : nullptr;
  }
  const v1::Decision& decision = record.decision();
  if (!record.has_begun() || !was_signalled(record.begun()) || decision.evictions_size() != 1) {
    return nullptr;
  }
  const std::uint32_t candidate = decision.evictions(0).candidate();
  if (candidate >= static_cast<std::uint32_t>(decision.considered_size())) return nullptr;
  return &decision.considered(static_cast<int>(candidate)).sample().workload();
}

}  // namespace

std::optional<KilledPod> killed_pod(const v1::Record& record) {
  const v1::Workload* victim = victim_of(record);
  // The facts of a pod that is not known have no name; a static pod has no use for an eviction.
  if (victim == nullptr || !victim->has_pod() || victim->pod().origin() != v1::Pod::API) {
    return std::nullopt;
  }
  const v1::Pod& pod = victim->pod();
  return KilledPod{pod.uid(), pod.namespace_(), pod.name(),
                   fmt::format("{} {}.{:09}", record.sequence(), record.wall_time().seconds(),
                               record.wall_time().nanos())};
}

KillWatch::KillWatch(std::string socket, const Clock& clock, std::function<double()> chance,
                     std::function<void(const KilledPod&)> on_kill,
                     std::function<void()> on_connect)
    : socket_(std::move(socket)),
      clock_(clock),
      chance_(std::move(chance)),
      on_kill_(std::move(on_kill)),
      on_connect_(std::move(on_connect)) {}

void KillWatch::advance() {
  if (!stream_ && clock_.now() >= not_before_) {
    v1::WatchRecordsRequest request;
    request.set_acts_only(true);
    auto stream = wire::GrpcStream::open(socket_, kWatchRecords, request.SerializeAsString(),
                                         kConnectPatience);
    if (!stream) return disconnect();
    stream_ = std::move(*stream);
    connected_at_ = clock_.now();
    on_connect_();
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
  if (const auto pod = killed_pod(response.record())) on_kill_(*pod);
}

void KillWatch::disconnect() {
  const MonotonicTime now = clock_.now();
  // An agent that restarts now and then, and kills nothing, must not be waited for longer each
  // time.
  if (stream_ && now - connected_at_ >= kLasted) backoff_.reset();
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
