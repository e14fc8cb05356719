// SPDX-License-Identifier: Apache-2.0
// The socket of an agent: with the agent's own store of pods, and records, a status and a
// ranking that a test makes.
#pragma once

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/written_pods.h"
#include "exports/log.h"
#include "forestall/v1/service.pb.h"
#include "service/unary_call.h"
#include "wire/grpc_server.h"

namespace forestall::cluster {

// The agent's socket with the agent's own store of pods.
class ToyAgent final : public wire::GrpcService {
 public:
  explicit ToyAgent(const std::string& socket) {
    pods_ = daemon::WrittenPods::create(clock_, log_).value();
    server_ = wire::GrpcServer::start(socket, {}, *this, counts_).value();
  }
  std::unique_ptr<wire::GrpcCall> begin(std::string_view method, const wire::GrpcPeer&) override {
    if (method == "/forestall.v1.Agent/WatchRecords") return std::make_unique<Records>(*this);
    if (method == "/forestall.v1.Agent/GetStatus") {
      return std::make_unique<service::UnaryCall<v1::GetStatusRequest, v1::GetStatusResponse>>(
          [this](const v1::GetStatusRequest&, v1::GetStatusResponse& response) {
            const std::lock_guard lock(mutex_);
            *response.mutable_status() = status_;
            return wire::GrpcStep();
          });
    }
    if (method == "/forestall.v1.Agent/Rank") {
      return std::make_unique<service::UnaryCall<v1::RankRequest, v1::RankResponse>>(
          [this](const v1::RankRequest&, v1::RankResponse& response) {
            const std::lock_guard lock(mutex_);
            response = ranking_;
            return wire::GrpcStep();
          });
    }
    if (method != "/forestall.v1.Agent/UpdatePods") return nullptr;
    return std::make_unique<service::UnaryCall<v1::UpdatePodsRequest, v1::UpdatePodsResponse>>(
        [this](const v1::UpdatePodsRequest& request, v1::UpdatePodsResponse&) {
          ++calls;
          const auto updated = pods_->update(request);
          return updated ? wire::GrpcStep()
                         : wire::GrpcStep::end(wire::GrpcStatus::failed_precondition,
                                               updated.error().message);
        });
  }
  [[nodiscard]] int news_fd() const override { return news_.get(); }
  void take_news() override {
    eventfd_t count = 0;
    (void)eventfd_read(news_.get(), &count);
  }
  void set_status(const v1::AgentStatus& status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  void set_ranking(const v1::RankResponse& ranking) {
    const std::lock_guard lock(mutex_);
    ranking_ = ranking;
  }
  // A record to all that watch, and later to each that requests recent kills.
  void report(const v1::Record& record) {
    v1::WatchRecordsResponse response;
    *response.mutable_record() = record;
    const std::lock_guard lock(mutex_);
    records_.push_back(response.SerializeAsString());
    (void)eventfd_write(news_.get(), 1);
  }

  // "UID=PRIORITY" of the pods in force.
  std::vector<std::string> in_force() {
    (void)pods_->take();
    std::vector<std::string> all;
    if (!pods_->in_force()) return {"none"};
    for (const auto& each : *pods_->in_force()) {
      all.push_back(fmt::format("{}={}", each->uid, each->priority.value_or(-1)));
    }
    return all;
  }
  // forestall.dev/protected of a pod in force, as the agent received it; empty: none.
  std::string protected_annotation(std::string_view uid) {
    (void)pods_->take();
    if (!pods_->in_force()) return "";
    for (const auto& each : *pods_->in_force()) {
      if (each->uid == uid) return each->annotations.is_protected.value_or("");
    }
    return "";
  }
  [[nodiscard]] std::string problem() const {
    const auto state = pods_->state();
    return state ? state->problem : "none";
  }

  std::atomic<int> calls{0};
  std::atomic<int> watchers{0};

 private:
  class Records final : public wire::GrpcCall {
   public:
    explicit Records(ToyAgent& agent) : agent_(agent) { ++agent_.watchers; }
    ~Records() override { --agent_.watchers; }
    void take(std::string_view message) override {
      v1::WatchRecordsRequest request;
      (void)request.ParseFromArray(message.data(), static_cast<int>(message.size()));
      const std::lock_guard lock(agent_.mutex_);
      if (request.recent_kills_ns() == 0) sent_ = agent_.records_.size();
    }
    void requests_end() override {}
    wire::GrpcStep next() override {
      const std::lock_guard lock(agent_.mutex_);
      if (sent_ == agent_.records_.size()) return wire::GrpcStep::wait();
      return wire::GrpcStep::message(wire::make_frame(agent_.records_[sent_++]));
    }

   private:
    ToyAgent& agent_;
    std::size_t sent_ = 0;
  };

  const UniqueFd news_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::vector<std::string> records_;
  v1::AgentStatus status_;
  v1::RankResponse ranking_;
  SystemClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  wire::GrpcCounts counts_;
  std::unique_ptr<daemon::WrittenPods> pods_;
  std::unique_ptr<wire::GrpcServer> server_;  // last: its thread uses the above
};

// The record of a kill of `uid` by the agent.
[[nodiscard]] v1::Record kill_of(const std::string& uid);
// The first record of a kill of `uid`: its outcome is not known yet.
[[nodiscard]] v1::Record begun_kill_of(const std::string& uid);

}  // namespace forestall::cluster
