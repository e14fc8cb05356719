// SPDX-License-Identifier: Apache-2.0
#include "service/agent_service.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "messages/convert.h"
#include "service/reflection.h"
#include "service/unary_call.h"

namespace forestall::service {
namespace {

using messages::to_proto;
using wire::GrpcStatus;
using wire::GrpcStep;

constexpr std::string_view kPrefix = "/forestall.v1.Agent/";
constexpr const char* kService = "forestall.v1.Agent";

constexpr std::uint32_t kAct = 1;
constexpr std::uint32_t kNoAct = 0;

bool is_act(const Record& record) {
  return record.oom_kill || record.outcome || record.decision.action == Action::kill ||
         record.decision.action == Action::reclaim;
}

v1::LostEvent lost(std::uint64_t count, const char* where) {
  v1::LostEvent event;
  event.set_count(count);
  event.set_where(where);
  return event;
}

wire::GrpcFrame record_lost(std::uint64_t count, const char* where) {
  v1::WatchRecordsResponse response;
  *response.mutable_lost() = lost(count, where);
  return wire::make_frame(response.SerializeAsString());
}

wire::GrpcFrame event_lost(std::uint64_t count, const char* where) {
  v1::WatchEventsResponse response;
  *response.mutable_event()->mutable_lost() = lost(count, where);
  response.mutable_event()->set_at_ns(to_ns(SystemClock().now()));
  return wire::make_frame(response.SerializeAsString());
}

// The gRPC status of a recording error.
GrpcStatus status_of(const Error& error) {
  switch (error.code) {
    case EALREADY:
    case EBUSY:
    case ENODATA: return GrpcStatus::failed_precondition;
    case EEXIST: return GrpcStatus::already_exists;
    case EINVAL: return GrpcStatus::invalid_argument;
    case ENOENT: return GrpcStatus::not_found;
    default: return GrpcStatus::internal;
  }
}

// The entries that a client requests, as bits by kind.
std::uint64_t wanted(const v1::WatchRecordsRequest& request) {
  return request.acts_only() ? 1U << kAct : 1U << kAct | 1U << kNoAct;
}

std::uint64_t wanted(const v1::WatchEventsRequest& request) {
  if (request.kinds().empty()) return ~(std::uint64_t{1} << v1::Event::EVALUATION);
  std::uint64_t bits = std::uint64_t{1} << v1::Event::LOST;
  for (const int kind : request.kinds()) {
    // Ignores kinds of a later schema; this agent never emits them.
    if (kind >= 0 && kind < 64) bits |= std::uint64_t{1} << kind;
  }
  return bits;
}

}  // namespace

// Reads a log from its position at the time of the request.
template <typename Request>
class AgentService::WatchCall final : public wire::GrpcCall {
 public:
  WatchCall(AgentService& service, const WatchLog& log, std::size_t& watchers,
            wire::GrpcFrame (*lost)(std::uint64_t, const char*))
      : service_(service), log_(log), watchers_(watchers), lost_(lost) {}
  ~WatchCall() override {
    if (!watches_) return;
    --watchers_;
    service_.count_watchers();
  }

  void take(std::string_view message) override {
    Request request;
    if (watches_ || !request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      broken_ = true;
      return;
    }
    wanted_ = wanted(request);
    before_ = service_.kept_for(request);
    place_ = log_.end();
    watches_ = true;
    ++watchers_;
    service_.count_watchers();
  }
  void requests_end() override { broken_ = broken_ || !watches_; }

  GrpcStep next() override {
    if (broken_) {
      return GrpcStep::end(GrpcStatus::invalid_argument,
                           "the request is not a valid " + Request::descriptor()->full_name());
    }
    if (!watches_) return GrpcStep::wait();
    if (!before_.empty()) {
      wire::GrpcFrame frame = std::move(before_.front());
      before_.pop_front();
      return GrpcStep::message(std::move(frame));
    }
    if (const std::uint64_t count = log_.skip_lost(place_); count > 0) {
      service_.services_.drops->dropped += count;
      return GrpcStep::message(lost_(count, "reader"));
    }
    while (const WatchLog::Entry* entry = log_.at(place_)) {
      ++place_;
      if ((wanted_ >> entry->kind & 1) != 0) return GrpcStep::message(entry->frame);
    }
    return GrpcStep::wait();
  }

 private:
  AgentService& service_;
  const WatchLog& log_;
  std::size_t& watchers_;
  wire::GrpcFrame (*const lost_)(std::uint64_t, const char*);
  std::deque<wire::GrpcFrame> before_;  // sent first
  std::uint64_t wanted_ = 0;
  std::uint64_t place_ = 0;
  bool watches_ = false;
  bool broken_ = false;
};

// Waits for the answer of the RankService; one call at a time.
class AgentService::RankCall final : public wire::GrpcCall {
 public:
  explicit RankCall(AgentService& service) : service_(service) {}
  // An answer that arrives later is discarded.
  ~RankCall() override {
    if (service_.ranking_ == this) service_.ranking_ = nullptr;
  }

  void take(std::string_view message) override {
    v1::RankRequest request;
    if (requested_ || !request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      end_ = GrpcStep::end(GrpcStatus::invalid_argument,
                           "the request is not a valid forestall.v1.RankRequest");
    } else if (!service_.may_rank() || !service_.services_.rank->request_ranking(request)) {
      end_ = GrpcStep::end(GrpcStatus::resource_exhausted,
                           "another ranking is in progress; try again later");
    } else {
      service_.ranking_ = this;
    }
    requested_ = true;
  }
  void requests_end() override {
    if (!requested_) end_ = GrpcStep::end(GrpcStatus::invalid_argument, "the request is empty");
  }
  GrpcStep next() override {
    if (end_) return *end_;
    if (service_.ranking_ != this || !service_.rank_answer_) return GrpcStep::wait();
    const Result<v1::RankResponse> answer = *std::exchange(service_.rank_answer_, std::nullopt);
    service_.ranking_ = nullptr;
    if (answer) {
      end_ = GrpcStep::end();
      const auto frame = wire::make_frame(answer->SerializeAsString());
      service_.rankings_reported_.push_back(frame);
      return GrpcStep::message(frame);
    }
    end_ = GrpcStep::end(
        answer.error().code == EINVAL ? GrpcStatus::invalid_argument : GrpcStatus::internal,
        answer.error().message);
    return *end_;
  }

 private:
  AgentService& service_;
  bool requested_ = false;
  std::optional<GrpcStep> end_;
};

Result<std::unique_ptr<AgentService>> AgentService::create(const AgentServices& services) {
  UniqueFd news(epoll_create1(EPOLL_CLOEXEC));
  if (!news) return errno_error("epoll_create1", "for the gRPC service");
  for (const int fd : {services.broadcast->fd(), services.rank->fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(news.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return errno_error("epoll_ctl", "for the gRPC service");
    }
  }
  services.broadcast->always_publish_kills();
  return std::unique_ptr<AgentService>(new AgentService(services, std::move(news)));
}

AgentService::~AgentService() = default;

// Only the agent's own user and root may record: the agent writes the file with its own rights, to
// any requested path.
std::unique_ptr<wire::GrpcCall> AgentService::begin_recording(std::string_view method,
                                                              bool is_owner) {
  if (services_.recording == nullptr) return nullptr;
  const auto allowed = [is_owner, this](auto act) -> GrpcStep {
    if (!is_owner) {
      return GrpcStep::end(GrpcStatus::permission_denied,
                           "recordings are for root and the agent's own user");
    }
    const Result<void> done = act(*services_.recording);
    return done ? GrpcStep() : GrpcStep::end(status_of(done.error()), done.error().text());
  };
  if (method == "StartRecording") {
    return std::make_unique<UnaryCall<v1::StartRecordingRequest, v1::StartRecordingResponse>>(
        [allowed](const v1::StartRecordingRequest& request, v1::StartRecordingResponse&) {
          return allowed([&](RecordingService& service) { return service.start(request); });
        });
  }
  if (method == "StopRecording") {
    return std::make_unique<UnaryCall<v1::StopRecordingRequest, v1::StopRecordingResponse>>(
        [allowed](const v1::StopRecordingRequest&, v1::StopRecordingResponse& response) {
          return allowed([&](RecordingService& service) -> Result<void> {
            response = TRY(service.stop());
            return {};
          });
        });
  }
  return nullptr;
}

// The facts of pods decide what is killed, so a reader of the agent's state may not set them.
std::unique_ptr<wire::GrpcCall> AgentService::begin_update_pods(const wire::GrpcPeer& peer) {
  if (services_.pods == nullptr) return nullptr;
  const bool allowed =
      peer.is_owner || (peer.uid && std::ranges::find(services_.pod_writers, *peer.uid) !=
                                        services_.pod_writers.end());
  return std::make_unique<UnaryCall<v1::UpdatePodsRequest, v1::UpdatePodsResponse>>(
      [allowed, this](const v1::UpdatePodsRequest& request, v1::UpdatePodsResponse& response) {
        if (!allowed) {
          return GrpcStep::end(GrpcStatus::permission_denied,
                               "pods are written by root, the agent's own user and `apiUsers: "
                               "podWriters`");
        }
        const Result<std::size_t> pods = services_.pods->update(request);
        if (!pods) {
          return GrpcStep::end(pods.error().code == EAGAIN ? GrpcStatus::failed_precondition
                                                           : GrpcStatus::invalid_argument,
                               pods.error().message);
        }
        response.set_pods(*pods);
        return GrpcStep();
      });
}

std::unique_ptr<wire::GrpcCall> AgentService::begin(std::string_view method,
                                                    const wire::GrpcPeer& peer) {
  if (method == kReflectionMethod || method == kOldReflectionMethod) {
    return begin_reflection({kService});
  }
  if (!method.starts_with(kPrefix)) return nullptr;
  method.remove_prefix(kPrefix.size());
  if (method == "GetStatus") {
    return std::make_unique<UnaryCall<v1::GetStatusRequest, v1::GetStatusResponse>>(
        [this](const v1::GetStatusRequest&, v1::GetStatusResponse& response) {
          *response.mutable_status() = services_.status();
          return GrpcStep();
        });
  }
  if (method == "Rank") return std::make_unique<RankCall>(*this);
  if (method == "WatchRecords") {
    return std::make_unique<WatchCall<v1::WatchRecordsRequest>>(*this, records_, record_watchers_,
                                                                &record_lost);
  }
  if (method == "WatchEvents") {
    return std::make_unique<WatchCall<v1::WatchEventsRequest>>(*this, events_, event_watchers_,
                                                               &event_lost);
  }
  if (method == "UpdatePods") return begin_update_pods(peer);
  return begin_recording(method, peer.is_owner);
}

std::deque<wire::GrpcFrame> AgentService::kept_for(const v1::WatchRecordsRequest& request) const {
  if (request.recent_kills_ns() <= 0) return {};
  return kills_.since(Duration(request.recent_kills_ns()), SystemClock().now());
}

void AgentService::count_watchers() {
  services_.broadcast->set_watchers(record_watchers_ + event_watchers_);
  if (record_watchers_ == 0) records_.clear();
  if (event_watchers_ == 0) {
    events_.clear();
    evaluation_events_ = EvaluationEvents();
  }
}

bool AgentService::may_rank() {
  std::erase_if(rankings_reported_, [](const auto& each) { return each.expired(); });
  return rankings_reported_.size() < kRankingsUnread;
}

void AgentService::report(const Record& record) {
  v1::WatchRecordsResponse response;
  *response.mutable_record() = to_proto(record);
  kills_.add(response.record(), SystemClock().now());
  if (record_watchers_ > 0) {
    records_.push({wire::make_frame(response.SerializeAsString()), is_act(record) ? kAct : kNoAct});
  }
  if (event_watchers_ > 0) {
    const auto visit = [this](const v1::Event& event) { report(event); };
    evaluation_events_.report(response.record(), visit);
    events_of(response.record(), visit);
  }
}

void AgentService::report(const v1::Event& event) {
  v1::WatchEventsResponse response;
  *response.mutable_event() = event;
  events_.push(
      {wire::make_frame(response.SerializeAsString()), static_cast<std::uint32_t>(kind_of(event))});
}

void AgentService::report_lost(std::uint64_t count) {
  services_.drops->dropped += count;
  if (record_watchers_ > 0) records_.push({record_lost(count, "agent"), kAct});
  if (event_watchers_ > 0) events_.push({event_lost(count, "agent"), v1::Event::LOST});
}

void AgentService::take_news() {
  services_.broadcast->drain([this](const Record& record) { report(record); },
                             [this](const exports::EvaluationNote& note) {
                               if (event_watchers_ == 0) return;
                               evaluation_events_.report(
                                   note, [this](const v1::Event& event) { report(event); });
                             });
  if (const std::uint64_t count = services_.broadcast->take_dropped(); count > 0)
    report_lost(count);
  if (auto answer = services_.rank->answer()) {
    rank_answer_.reset();
    if (ranking_ != nullptr) rank_answer_ = *std::move(answer);
  }
}

}  // namespace forestall::service
