// SPDX-License-Identifier: Apache-2.0
// Reads the state of the node from a running agent, over its socket.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "forestall/internal/top.pb.h"
#include "forestall/v1/service.pb.h"
#include "wire/grpc_stream.h"

namespace forestall::top {

// Thread rule: one thread.
class AgentSource {
 public:
  // If `cancel_fd` is readable, requests are aborted.
  AgentSource(std::string socket, int cancel_fd);

  // Requests the status and the eviction order. If `ranking` is empty, the configuration's applies.
  // While the agent serves another ranking, the last order is used again. Errors: those of
  // connect(2), ETIMEDOUT, ECANCELED, and the agent's.
  [[nodiscard]] Result<void> read(const std::string& ranking, internal::TopReport& report);

  // Readable after the agent acted or exited: sample again. -1: no stream.
  [[nodiscard]] int news_fd() const { return records_ ? records_->fd() : -1; }
  [[nodiscard]] short news_events() const { return records_ ? records_->events() : short{0}; }
  // Whether there was news. The next sample shows it.
  [[nodiscard]] bool take_news();

 private:
  template <typename Response>
  [[nodiscard]] Result<Response> call(const char* method, const std::string& request,
                                      bool& busy) const;

  const std::string socket_;
  const int cancel_fd_;
  std::optional<v1::RankResponse> ranked_;
  std::unique_ptr<wire::GrpcStream> records_;
};

}  // namespace forestall::top
