// SPDX-License-Identifier: Apache-2.0
// The gRPC service of a running agent (proto/forestall/v1/service.proto), and reflection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "exports/drop_counts.h"
#include "exports/event_broadcast.h"
#include "forestall/v1/service.pb.h"
#include "service/events.h"
#include "service/recent_kills.h"
#include "service/watch_log.h"
#include "wire/grpc_service.h"

namespace forestall::service {

// Ranks in a separate thread, because reading many workloads takes long. Thread rule: the server's
// thread.
class RankService {
 public:
  virtual ~RankService() = default;
  // False: another request is in progress.
  [[nodiscard]] virtual bool request_ranking(const v1::RankRequest& request) = 0;
  // Readable while an answer is available.
  [[nodiscard]] virtual int fd() const = 0;
  // The answer to the last request; nothing: not available yet. An error with EINVAL is the
  // client's.
  [[nodiscard]] virtual std::optional<Result<v1::RankResponse>> answer() = 0;
};

// Makes recordings. Thread rule: the server's thread, which blocks on the file system.
class RecordingService {
 public:
  virtual ~RecordingService() = default;
  // Errors: EALREADY while a recording is running; EEXIST; EINVAL for an invalid request; file
  // system errors.
  [[nodiscard]] virtual Result<void> start(const v1::StartRecordingRequest& request) = 0;
  // Errors: ENODATA if no recording of start() is running; why the recording is not complete.
  [[nodiscard]] virtual Result<v1::StopRecordingResponse> stop() = 0;
};

// Takes the pods of this node. Thread rule: the server's thread.
class PodReceiver {
 public:
  virtual ~PodReceiver() = default;
  // The number of pods in force. Errors: EINVAL for a pod that cannot be read; EAGAIN for a change
  // without a list of the same writer. An error changes nothing.
  [[nodiscard]] virtual Result<std::size_t> update(const v1::UpdatePodsRequest& request) = 0;
};

// The service's interfaces to the agent; all outlive the service. Called from the server's thread.
struct AgentServices {
  std::function<v1::AgentStatus()> status;
  exports::EventBroadcast* broadcast = nullptr;
  exports::DropCounts* drops = nullptr;
  RankService* rank = nullptr;
  RecordingService* recording = nullptr;  // null: recordings are not supported
  PodReceiver* pods = nullptr;            // null: pods cannot be written
  // Users besides the owner that may write pods.
  std::vector<std::uint32_t> pod_writers = {};
};

class AgentService final : public wire::GrpcService {
 public:
  // Limit of rankings that were sent but not read completely. With thousands of workloads, each
  // takes megabytes; clients that request without reading must not accumulate them.
  static constexpr std::size_t kRankingsUnread = 4;

  static Result<std::unique_ptr<AgentService>> create(const AgentServices& services);
  ~AgentService() override;

  [[nodiscard]] std::unique_ptr<wire::GrpcCall> begin(std::string_view method,
                                                      const wire::GrpcPeer& peer) override;
  [[nodiscard]] int news_fd() const override { return news_.get(); }
  void take_news() override;

 private:
  template <typename Request>
  class WatchCall;
  class RankCall;

  [[nodiscard]] std::unique_ptr<wire::GrpcCall> begin_recording(std::string_view method,
                                                                bool is_owner);
  [[nodiscard]] std::unique_ptr<wire::GrpcCall> begin_update_pods(const wire::GrpcPeer& peer);

  AgentService(const AgentServices& services, UniqueFd news)
      : services_(services), news_(std::move(news)) {}
  // What a new client receives first.
  [[nodiscard]] std::deque<wire::GrpcFrame> kept_for(const v1::WatchRecordsRequest& request) const;
  [[nodiscard]] static std::deque<wire::GrpcFrame> kept_for(const v1::WatchEventsRequest&) {
    return {};
  }
  void report(const Record& record);
  void report(const v1::Event& event);
  void report_lost(std::uint64_t count);
  void count_watchers();
  [[nodiscard]] bool may_rank();

  const AgentServices services_;
  const UniqueFd news_;  // an epoll descriptor for all sources of news
  EvaluationEvents evaluation_events_;
  RecentKills kills_;
  WatchLog records_;
  WatchLog events_;
  std::size_t record_watchers_ = 0;
  std::size_t event_watchers_ = 0;
  const RankCall* ranking_ = nullptr;                    // the call that waits for an answer
  std::optional<Result<v1::RankResponse>> rank_answer_;  // the answer for `ranking_`
  std::vector<std::weak_ptr<const std::string>> rankings_reported_;  // expired: read completely
};

}  // namespace forestall::service
