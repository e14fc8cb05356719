// SPDX-License-Identifier: Apache-2.0
// What a gRPC server serves, as the server sees it: calls that take whole messages and give whole
// messages. What the messages mean is the service's (api/agent_service.h); connections, streams and
// all of their limits are the server's (exports/grpc_session.h, exports/grpc_server.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "clients/grpc_wire.h"

namespace forestall::exports {

using clients::GrpcStatus;

// Bytes of a message behind their five of length, ready to be sent. Shared, because what many watch
// is made once.
using GrpcFrame = std::shared_ptr<const std::string>;

[[nodiscard]] inline GrpcFrame make_frame(std::string_view message) {
  return std::make_shared<const std::string>(clients::grpc_frame(message));
}

// What a call has to say next.
struct GrpcStep {
  GrpcFrame frame = nullptr;  // set: this message
  bool over = false;          // no message, and none to come: `status` and `text` end the call
  GrpcStatus status = GrpcStatus::ok;
  std::string text = {};  // why, for a status that is not ok

  [[nodiscard]] static GrpcStep message(GrpcFrame frame) { return {std::move(frame)}; }
  // Nothing yet.
  [[nodiscard]] static GrpcStep wait() { return {}; }
  [[nodiscard]] static GrpcStep end(GrpcStatus status = GrpcStatus::ok, std::string text = "") {
    return {nullptr, true, status, std::move(text)};
  }
};

// One call. Thread rule: the server's thread only.
class GrpcCall {
 public:
  virtual ~GrpcCall() = default;
  // One message of the request, whole. The next one comes when next() has said that it waits, so
  // that whoever asks without listening fills the connection's window and not our memory.
  virtual void take(std::string_view message) = 0;
  // The request has no more messages.
  virtual void requests_end() = 0;
  // Asked when the last message was sent; after it said that it waits, when something was taken or
  // the service has something new. Not asked again after an end.
  [[nodiscard]] virtual GrpcStep next() = 0;
};

// Who asks. Everybody who gets here may ask what the agent knows.
struct GrpcPeer {
  bool is_owner = false;  // root, or the user the agent runs as: may have it do things
};

// Thread rule: the server's thread only, but for what the service itself says.
class GrpcService {
 public:
  virtual ~GrpcService() = default;
  // A call of "/package.Service/Method"; null: there is no such method.
  [[nodiscard]] virtual std::unique_ptr<GrpcCall> begin(std::string_view method,
                                                        const GrpcPeer& peer) = 0;
  // Polls readable when there is something new for calls that wait; -1: there never is.
  [[nodiscard]] virtual int news_fd() const = 0;
  // It was readable: takes what is new in.
  virtual void take_news() = 0;
};

}  // namespace forestall::exports
