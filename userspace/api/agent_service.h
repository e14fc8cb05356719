// SPDX-License-Identifier: Apache-2.0
// The gRPC service of a running agent (proto/forestall/v1/service.proto), and reflection.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/events.h"
#include "api/watch_log.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "exports/drop_counts.h"
#include "exports/feed.h"
#include "exports/grpc_service.h"
#include "forestall/v1/service.pb.h"

namespace forestall::api {

// Ranks on a thread of its own, because reading the workloads takes as long as there are many.
// Thread rule: the server's thread.
class RankDoor {
 public:
  virtual ~RankDoor() = default;
  // False: another one is under way.
  [[nodiscard]] virtual bool ask(const v1::RankRequest& request) = 0;
  // Polls readable once there is an answer, until it is taken.
  [[nodiscard]] virtual int fd() const = 0;
  // The answer to what was asked last; nothing: not there yet. An error with EINVAL is the asker's.
  [[nodiscard]] virtual std::optional<Result<v1::RankResponse>> answer() = 0;
};

// Makes recordings. Thread rule: the server's thread, which waits for the file system meanwhile.
class RecordingDoor {
 public:
  virtual ~RecordingDoor() = default;
  // Errors: EALREADY while a recording is made; EEXIST; EINVAL is the asker's; others of the file
  // system.
  [[nodiscard]] virtual Result<void> start(const v1::StartRecordingRequest& request) = 0;
  // Errors: ENODATA if start() began none that still goes on; what kept it from a clean end.
  [[nodiscard]] virtual Result<v1::StopRecordingResponse> stop() = 0;
};

// What the service speaks for; all of it outlives the service. Called from the server's thread.
struct AgentDoors {
  std::function<v1::AgentStatus()> status;
  exports::Feed* feed = nullptr;
  exports::DropCounts* drops = nullptr;
  RankDoor* rank = nullptr;
  RecordingDoor* recording = nullptr;  // null: no recordings are made
};

class AgentService final : public exports::GrpcService {
 public:
  // Rankings whose reader has yet to take all of them: with thousands of workloads each is
  // megabytes, and whoever asks again and again without reading must not have them pile up.
  static constexpr std::size_t kRankingsUnread = 4;

  static Result<std::unique_ptr<AgentService>> create(const AgentDoors& doors);
  ~AgentService() override;

  [[nodiscard]] std::unique_ptr<exports::GrpcCall> begin(std::string_view method,
                                                         const exports::GrpcPeer& peer) override;
  [[nodiscard]] int news_fd() const override { return news_.get(); }
  void take_news() override;

 private:
  template <typename Request>
  class WatchCall;
  class RankCall;

  [[nodiscard]] std::unique_ptr<exports::GrpcCall> begin_recording(std::string_view method,
                                                                   bool is_owner);

  AgentService(const AgentDoors& doors, UniqueFd news) : doors_(doors), news_(std::move(news)) {}
  void tell(const Record& record);
  void tell(const v1::Event& event);
  void tell_lost(std::uint64_t count);
  void count_watchers();
  [[nodiscard]] bool may_rank();

  const AgentDoors doors_;
  const UniqueFd news_;  // an epoll descriptor over all that may have news
  LookEvents look_events_;
  WatchLog records_;
  WatchLog events_;
  std::size_t record_watchers_ = 0;
  std::size_t event_watchers_ = 0;
  const RankCall* ranking_ = nullptr;                            // who waits for an answer
  std::optional<Result<v1::RankResponse>> rank_answer_;          // for it
  std::vector<std::weak_ptr<const std::string>> rankings_told_;  // expired: taken
};

}  // namespace forestall::api
