// SPDX-License-Identifier: Apache-2.0
// One connection of a gRPC server: HTTP/2 bytes in, HTTP/2 bytes out, without I/O, on nghttp2's
// framing (wire/grpc_call.h has the reasons for not using grpc++).
//
// The client may be hostile. Its memory use is limited by the constants below and by HTTP/2's own
// windows, which reopen only for bytes that a call has consumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "wire/grpc_service.h"

struct nghttp2_session;

namespace forestall::wire {

// Limits of a session.
struct GrpcLimits {
  std::size_t streams = 8;                       // concurrent calls
  std::size_t header_bytes = 8 * 1024;           // all fields of one request
  std::size_t message_bytes = 16 * 1024;         // one message of a request
  Duration request = std::chrono::seconds(10);   // time until a request is complete
  Duration patience = std::chrono::seconds(30);  // for a client that does not read
  Duration idle = std::chrono::minutes(5);       // for a connection without calls or traffic
};

struct GrpcTally {
  std::uint64_t calls = 0;         // started
  std::uint64_t slow_readers = 0;  // ended because the client was too slow
};

// Thread rule: one thread.
class GrpcSession {
 public:
  // `service` and `limits` outlive this.
  GrpcSession(GrpcService& service, const GrpcLimits& limits, const GrpcPeer& peer = GrpcPeer());
  GrpcSession(const GrpcSession&) = delete;
  ~GrpcSession();

  // Processes received bytes. False: they are not HTTP/2, and the connection must be closed.
  [[nodiscard]] bool receive(std::string_view bytes, MonotonicTime now);
  // Bytes to send next, valid until the next call; empty: none now.
  [[nodiscard]] std::string_view output(MonotonicTime now);
  // The service has news: waiting calls are polled again.
  void resume(MonotonicTime now);
  // Ends whatever has timed out.
  void expire(MonotonicTime now);
  // When expire() next has work; nothing: no timeout is pending.
  [[nodiscard]] std::optional<MonotonicTime> due() const;
  // Whether all input and output is done and the connection can be closed.
  [[nodiscard]] bool over() const;
  // Current calls, including reset ones whose reset is not sent yet.
  [[nodiscard]] std::size_t calls() const { return streams_.size(); }
  // The same without reset calls.
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
  void return_window(Stream& stream, std::size_t bytes);
  [[nodiscard]] std::optional<MonotonicTime> due_of(const Stream& stream) const;

  GrpcService& service_;
  const GrpcLimits& limits_;
  const GrpcPeer peer_;
  GrpcTally tally_;
  MonotonicTime now_;  // time of the current call of a public member
  std::map<std::int32_t, std::unique_ptr<Stream>> streams_;
  // Last, because it calls the members above.
  std::unique_ptr<nghttp2_session, EndSession> session_;
};

}  // namespace forestall::wire
