// SPDX-License-Identifier: Apache-2.0
// One connection of a gRPC server: HTTP/2 bytes in, HTTP/2 bytes out, no I/O of its own, on
// nghttp2's framing (clients/grpc_call.h says why not grpc++).
//
// Whoever is at the other end may be hostile: everything it can make us hold is bounded here, by
// the constants below and by HTTP/2's own windows, which are opened again only for bytes that a
// call has taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "exports/grpc_service.h"

struct nghttp2_session;

namespace forestall::exports {

// What a session may cost, and what it did.
struct GrpcLimits {
  std::size_t streams = 8;                       // calls at the same time
  std::size_t header_bytes = 8 * 1024;           // of all fields of one request
  std::size_t message_bytes = 16 * 1024;         // of one message of a request
  Duration request = std::chrono::seconds(10);   // a request must be whole within
  Duration patience = std::chrono::seconds(30);  // for a reader that takes nothing
  Duration idle = std::chrono::minutes(5);       // for a connection without a call or a word
};

struct GrpcTally {
  std::uint64_t calls = 0;         // begun
  std::uint64_t slow_readers = 0;  // ended because they took nothing for too long
};

// Thread rule: one thread.
class GrpcSession {
 public:
  // Service and limits outlive this.
  GrpcSession(GrpcService& service, const GrpcLimits& limits, const GrpcPeer& peer = GrpcPeer());
  GrpcSession(const GrpcSession&) = delete;
  ~GrpcSession();

  // Takes in what has come. False: what came is no HTTP/2, and the connection is to be closed.
  [[nodiscard]] bool receive(std::string_view bytes, MonotonicTime now);
  // Bytes to send next, valid until the next call; empty: none at this time.
  [[nodiscard]] std::string_view output(MonotonicTime now);
  // The service has something new: calls that waited are asked again.
  void resume(MonotonicTime now);
  // Ends what has taken too long, as of now.
  void expire(MonotonicTime now);
  // When expire() has something to do at the earliest; nothing: nothing runs out.
  [[nodiscard]] std::optional<MonotonicTime> due() const;
  // Said and heard all there is: the connection can be closed.
  [[nodiscard]] bool over() const;
  // Calls under way, and those that were reset of which the client has yet to be told.
  [[nodiscard]] std::size_t calls() const { return streams_.size(); }
  // Without the latter.
  [[nodiscard]] std::size_t calls_going_on() const;
  [[nodiscard]] const GrpcTally& tally() const { return tally_; }

 private:
  struct Callbacks;
  struct Stream;
  struct EndSession {
    void operator()(nghttp2_session* session) const;
  };

  [[nodiscard]] Stream* find(std::int32_t id);
  void begin(Stream& stream);
  void pump(Stream& stream);
  void step(Stream& stream);
  void respond(Stream& stream);
  void refuse(Stream& stream, GrpcStatus status, std::string text);
  void reset(Stream& stream, std::uint32_t error_code);
  void give_back(Stream& stream, std::size_t bytes);
  [[nodiscard]] std::optional<MonotonicTime> due_of(const Stream& stream) const;

  GrpcService& service_;
  const GrpcLimits& limits_;
  const GrpcPeer peer_;
  GrpcTally tally_;
  MonotonicTime now_;  // of the call into this that is under way
  std::map<std::int32_t, std::unique_ptr<Stream>> streams_;
  std::unique_ptr<nghttp2_session, EndSession> session_;  // last: it calls the above
};

}  // namespace forestall::exports
