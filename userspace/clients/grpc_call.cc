// SPDX-License-Identifier: Apache-2.0
#include "clients/grpc_call.h"

#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::clients {
namespace {

using std::chrono::ceil;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// How much the server may send before we take it in: enough for a long list in one go.
constexpr std::int32_t kWindowBytes = 1 << 20;
constexpr std::size_t kReadBytes = 64 * 1024;

GrpcReply failed(GrpcStatus status, int code, std::string message) {
  return {status, code, std::move(message), ""};
}

GrpcReply timed_out(Duration patience) {
  return failed(
      GrpcStatus::deadline_exceeded, ETIMEDOUT,
      "no answer within " + std::to_string(duration_cast<milliseconds>(patience).count()) + " ms");
}

timeval as_timeval(Duration duration) {
  // Zero would mean for ever.
  const auto us = std::max(duration_cast<microseconds>(duration), microseconds(1));
  return {duration_cast<seconds>(us).count(), (us % seconds(1)).count()};
}

// A connected, non-blocking socket. Connecting itself blocks: on a unix socket that does so only
// when the backlog is full, poll() does not report when there is room again, and SO_SNDTIMEO
// bounds it (net/unix/af_unix.c unix_stream_connect).
Result<UniqueFd> connect_to(const std::string& path, Duration patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Error{ENAMETOOLONG, "connect " + path};
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error("socket", "for the container runtime");
  const timeval limit = as_timeval(patience);
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0) {
    return errno_error("setsockopt SO_SNDTIMEO", path);
  }
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EAGAIN) errno = ETIMEDOUT;
    return errno_error("connect", path);
  }
  if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) return errno_error("fcntl", path);
  return socket;
}

nghttp2_nv field(std::string_view name, std::string_view value) {
  // nghttp2 copies both; its type is not const because others may forbid the copy.
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

// The one stream of a connection, as nghttp2's callbacks see it.
class Exchange {
 public:
  Exchange(std::string request, std::size_t max_reply)
      : request_(std::move(request)), reader_(max_reply) {}

  Result<void> begin(std::string_view method, Duration patience);
  [[nodiscard]] nghttp2_session* session() const { return session_.get(); }
  [[nodiscard]] bool ended() const { return ended_.has_value(); }
  // REQUIRES: ended().
  [[nodiscard]] GrpcReply take_reply() { return std::move(reader_).finish(*ended_); }

 private:
  struct EndSession {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };
  struct EndCallbacks {
    void operator()(nghttp2_session_callbacks* callbacks) const {
      nghttp2_session_callbacks_del(callbacks);
    }
  };

  Result<void> open_session();
  static ssize_t on_send_body(nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t room,
                              std::uint32_t* flags, nghttp2_data_source* source, void*);
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* self);
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t, const std::uint8_t* bytes,
                     std::size_t size, void* self);
  static int on_close(nghttp2_session*, std::int32_t, std::uint32_t error_code, void* self);

  std::string request_;
  std::size_t sent_ = 0;  // of request_
  GrpcReplyReader reader_;
  std::optional<std::uint32_t> ended_;  // HTTP/2 error code
  std::unique_ptr<nghttp2_session, EndSession> session_;
};

ssize_t Exchange::on_send_body(nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t room,
                               std::uint32_t* flags, nghttp2_data_source* source, void*) {
  auto& self = *static_cast<Exchange*>(source->ptr);
  const std::size_t size = std::min(room, self.request_.size() - self.sent_);
  std::memcpy(to, self.request_.data() + self.sent_, size);
  self.sent_ += size;
  if (self.sent_ == self.request_.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(size);
}

int Exchange::on_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name,
                        std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                        std::uint8_t, void* self) {
  static_cast<Exchange*>(self)->reader_.header({reinterpret_cast<const char*>(name), name_size},
                                               {reinterpret_cast<const char*>(value), value_size});
  return 0;
}

int Exchange::on_data(nghttp2_session*, std::uint8_t, std::int32_t, const std::uint8_t* bytes,
                      std::size_t size, void* self) {
  auto& exchange = *static_cast<Exchange*>(self);
  // What is refused need not be waited for: the connection ends with the call anyway.
  if (!exchange.reader_.data({reinterpret_cast<const char*>(bytes), size})) exchange.ended_ = 0;
  return 0;
}

int Exchange::on_close(nghttp2_session*, std::int32_t, std::uint32_t error_code, void* self) {
  static_cast<Exchange*>(self)->ended_ = error_code;
  return 0;
}

Result<void> Exchange::open_session() {
  nghttp2_session_callbacks* made = nullptr;
  if (nghttp2_session_callbacks_new(&made) != 0) return error("nghttp2: out of memory");
  const std::unique_ptr<nghttp2_session_callbacks, EndCallbacks> callbacks(made);
  nghttp2_session_callbacks_set_on_header_callback(made, &on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(made, &on_close);
  nghttp2_session* session = nullptr;
  if (nghttp2_session_client_new(&session, made, this) != 0) return error("nghttp2: out of memory");
  session_.reset(session);
  const std::array<nghttp2_settings_entry, 2> settings{
      {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindowBytes}}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kWindowBytes);
  return {};
}

Result<void> Exchange::begin(std::string_view method, Duration patience) {
  TRY(open_session());
  // At most eight digits, the protocol says: enough for a day in milliseconds.
  const auto ms =
      std::clamp(ceil<milliseconds>(patience), milliseconds(1), milliseconds(99'999'999));
  const std::string timeout = std::to_string(ms.count()) + "m";
  const std::array fields{field(":method", "POST"),
                          field(":scheme", "http"),
                          field(":path", method),
                          field(":authority", "localhost"),
                          field("te", "trailers"),
                          field("content-type", "application/grpc"),
                          field("user-agent", "forestall/" FORESTALL_VERSION),
                          field("grpc-timeout", timeout)};
  nghttp2_data_provider body{};
  body.source.ptr = this;
  body.read_callback = &on_send_body;
  const int stream =
      nghttp2_submit_request(session_.get(), nullptr, fields.data(), fields.size(), &body, nullptr);
  if (stream < 0) return error(std::string("nghttp2: ") + nghttp2_strerror(stream));
  return {};
}

// Sends what waits, as far as the socket takes it; what is left stays in `unsent`. To a peer that
// has closed, nothing: what it said before may still be an answer.
void send_waiting(int socket, nghttp2_session* session, std::string& unsent) {
  for (;;) {
    if (unsent.empty()) {
      const std::uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session, &bytes);
      if (size <= 0) return;
      unsent.assign(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    const ssize_t sent = ::send(socket, unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    unsent.erase(0, sent < 0 ? unsent.size() : static_cast<std::size_t>(sent));
  }
}

// Takes in what has come. Nothing: go on; else why the connection is of no use any more.
std::optional<GrpcReply> receive(int socket, nghttp2_session* session) {
  std::array<std::uint8_t, kReadBytes> bytes;
  const ssize_t size = ::recv(socket, bytes.data(), bytes.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (size <= 0) {
    return failed(GrpcStatus::unavailable, size < 0 ? errno : ECONNRESET,
                  "the runtime closed the connection");
  }
  const ssize_t taken =
      nghttp2_session_mem_recv(session, bytes.data(), static_cast<std::size_t>(size));
  if (taken >= 0) return std::nullopt;
  return failed(GrpcStatus::internal, EPROTO,
                std::string("no HTTP/2: ") + nghttp2_strerror(static_cast<int>(taken)));
}

// Waits for the socket, for `left` at most. Nothing: there is something to do.
std::optional<GrpcReply> await_peer(int socket, short events, int cancel_fd, Duration left) {
  const auto whole = duration_cast<seconds>(left);
  const timespec patience{whole.count(), (left - whole).count()};
  std::array<pollfd, 2> fds{{{socket, events, 0}, {cancel_fd, POLLIN, 0}}};
  if (::ppoll(fds.data(), fds.size(), &patience, nullptr) < 0 && errno != EINTR) {
    return failed(GrpcStatus::internal, errno, "poll");
  }
  if (fds[1].revents != 0) return failed(GrpcStatus::cancelled, ECANCELED, "called off");
  return std::nullopt;
}

// Drives the exchange to its end.
GrpcReply converse(int socket, int cancel_fd, Exchange& exchange, MonotonicTime until,
                   Duration patience) {
  std::string unsent;
  for (;;) {
    send_waiting(socket, exchange.session(), unsent);
    if (exchange.ended()) return exchange.take_reply();
    // nghttp2 answers what breaks the protocol with a goodbye of its own and reads no further.
    if (nghttp2_session_want_read(exchange.session()) == 0) {
      return failed(GrpcStatus::internal, EPROTO, "no HTTP/2: the runtime broke the protocol");
    }
    const Duration left = until - SystemClock().now();
    if (left <= Duration::zero()) return timed_out(patience);
    const short events = static_cast<short>(unsent.empty() ? POLLIN : POLLIN | POLLOUT);
    if (auto over = await_peer(socket, events, cancel_fd, left)) return *std::move(over);
    if (auto broken = receive(socket, exchange.session())) {
      return exchange.ended() ? exchange.take_reply() : *std::move(broken);
    }
  }
}

}  // namespace

GrpcReply grpc_call(const GrpcTarget& target, std::string_view method, std::string_view message,
                    Duration patience) {
  const MonotonicTime until = SystemClock().now() + patience;
  pollfd cancelled{target.cancel_fd, POLLIN, 0};
  if (::poll(&cancelled, 1, 0) > 0) return failed(GrpcStatus::cancelled, ECANCELED, "called off");
  auto socket = connect_to(target.socket, patience);
  if (!socket) {
    const auto status =
        socket.error().code == ETIMEDOUT ? GrpcStatus::deadline_exceeded : GrpcStatus::unavailable;
    return failed(status, socket.error().code, socket.error().message);
  }
  Exchange exchange(grpc_frame(message), target.max_reply_bytes);
  if (auto begun = exchange.begin(method, patience); !begun) {
    return failed(GrpcStatus::internal, EPROTO, begun.error().message);
  }
  return converse(socket->get(), target.cancel_fd, exchange, until, patience);
}

}  // namespace forestall::clients
