// SPDX-License-Identifier: Apache-2.0
// The interface between a gRPC server and its service: calls that take and return complete
// messages. The service (service/agent_service.h) defines the messages; the server
// (wire/grpc_session.h, wire/grpc_server.h) owns connections, streams and all of their
// limits.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "wire/grpc_wire.h"

namespace forestall::wire {

using wire::GrpcStatus;

// A message with its prefix of five bytes, ready to be sent. Shared, so that a message for many
// clients is serialized once.
using GrpcFrame = std::shared_ptr<const std::string>;

[[nodiscard]] inline GrpcFrame make_frame(std::string_view message) {
  return std::make_shared<const std::string>(wire::grpc_frame(message));
}

// The next output of a call.
struct GrpcStep {
  GrpcFrame frame = nullptr;  // set: the next message
  bool over = false;          // no more messages: `status` and `text` end the call
  GrpcStatus status = GrpcStatus::ok;
  std::string text = {};  // error text for a status that is not ok

  [[nodiscard]] static GrpcStep message(GrpcFrame frame) { return {std::move(frame)}; }
  // No output yet.
  [[nodiscard]] static GrpcStep wait() { return {}; }
  [[nodiscard]] static GrpcStep end(GrpcStatus status = GrpcStatus::ok, std::string text = "") {
    return {nullptr, true, status, std::move(text)};
  }
};

// One call. Thread rule: the server's thread only.
class GrpcCall {
 public:
  virtual ~GrpcCall() = default;
  // Takes one complete message of the request. The next one follows only after next() returned
  // wait(), so that requests of a client that does not read fill the connection's window instead of
  // the agent's memory.
  virtual void take(std::string_view message) = 0;
  // The request has no more messages.
  virtual void requests_end() = 0;
  // Called when the last message was sent and, after wait(), when a message was taken or the
  // service has news. Not called after an end.
  [[nodiscard]] virtual GrpcStep next() = 0;
};

// The client. Every client that is admitted may read all of the agent's state.
struct GrpcPeer {
  bool is_owner = false;                    // root or the agent's own user: may control the agent
  std::optional<uid_t> uid = std::nullopt;  // nothing: unknown
};

// Thread rule: the server's thread only, unless the service states otherwise.
class GrpcService {
 public:
  virtual ~GrpcService() = default;
  // Starts a call of "/package.Service/Method"; null: there is no such method.
  [[nodiscard]] virtual std::unique_ptr<GrpcCall> begin(std::string_view method,
                                                        const GrpcPeer& peer) = 0;
  // Readable if there is news for waiting calls; -1: never.
  [[nodiscard]] virtual int news_fd() const = 0;
  // Processes the news once news_fd() is readable.
  virtual void take_news() = 0;
};

}  // namespace forestall::wire
