// SPDX-License-Identifier: Apache-2.0
#include "wire/grpc_exchange.h"
#include "wire/nghttp2_parts.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace forestall::wire {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::seconds;

// Flow control window: enough for a long list at once.
constexpr std::int32_t kWindowBytes = 1 << 20;
constexpr std::size_t kReadBytes = 64 * 1024;

timeval as_timeval(Duration duration) {
  // Zero would mean no timeout.
  const auto us = std::max(duration_cast<microseconds>(duration), microseconds(1));
  return {duration_cast<seconds>(us).count(), (us % seconds(1)).count()};
}

}  // namespace

// SO_SNDTIMEO limits the wait for a full backlog, which poll() does not report (net/unix/af_unix.c
// unix_stream_connect()).
Result<UniqueFd> connect_to(const std::string& path, Duration patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Error{ENAMETOOLONG, "connect " + path};
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error("socket", path);
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

// nghttp2 callbacks; `self` is the exchange.
struct GrpcExchange::Callbacks {
  static ssize_t send_body(nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t room,
                           std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& self = *static_cast<GrpcExchange*>(source->ptr);
    const std::size_t size = std::min(room, self.request_.size() - self.sent_);
    std::memcpy(to, self.request_.data() + self.sent_, size);
    self.sent_ += size;
    if (self.sent_ == self.request_.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }

  static int header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                    std::uint8_t, void* self) {
    static_cast<GrpcExchange*>(self)->sink_.header(
        {reinterpret_cast<const char*>(name), name_size},
        {reinterpret_cast<const char*>(value), value_size});
    return 0;
  }

  static int data(nghttp2_session*, std::uint8_t, std::int32_t, const std::uint8_t* bytes,
                  std::size_t size, void* self) {
    auto& exchange = *static_cast<GrpcExchange*>(self);
    // A refused answer ends the call and with it the connection.
    if (!exchange.sink_.data({reinterpret_cast<const char*>(bytes), size})) exchange.ended_ = 0;
    return 0;
  }

  static int close(nghttp2_session*, std::int32_t, std::uint32_t error_code, void* self) {
    static_cast<GrpcExchange*>(self)->ended_ = error_code;
    return 0;
  }
};

void GrpcExchange::EndSession::operator()(nghttp2_session* session) const {
  nghttp2_session_del(session);
}

GrpcExchange::GrpcExchange(UniqueFd socket, GrpcSink& sink)
    : socket_(std::move(socket)), sink_(sink) {}
GrpcExchange::~GrpcExchange() = default;

Result<void> GrpcExchange::open_session() {
  nghttp2_session_callbacks* made = nullptr;
  if (nghttp2_session_callbacks_new(&made) != 0) return error("nghttp2: out of memory");
  const std::unique_ptr<nghttp2_session_callbacks, CallbacksDeleter> callbacks(made);
  nghttp2_session_callbacks_set_on_header_callback(made, &Callbacks::header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &Callbacks::data);
  nghttp2_session_callbacks_set_on_stream_close_callback(made, &Callbacks::close);
  nghttp2_session* session = nullptr;
  if (nghttp2_session_client_new(&session, made, this) != 0) return error("nghttp2: out of memory");
  session_.reset(session);
  const std::array<nghttp2_settings_entry, 2> settings{
      {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindowBytes}}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kWindowBytes);
  return {};
}

Result<void> GrpcExchange::begin(std::string_view method, std::string_view message,
                                 std::optional<Duration> patience) {
  TRY(open_session());
  request_ = grpc_frame(message);
  const std::string timeout = patience ? grpc_timeout(*patience) : "";
  std::vector<nghttp2_nv> fields{header_field(":method", "POST"),
                                 header_field(":scheme", "http"),
                                 header_field(":path", method),
                                 header_field(":authority", "localhost"),
                                 header_field("te", "trailers"),
                                 header_field("content-type", "application/grpc"),
                                 header_field("user-agent", "forestall/" FORESTALL_VERSION)};
  if (patience) fields.push_back(header_field("grpc-timeout", timeout));
  nghttp2_data_provider body{};
  body.source.ptr = this;
  body.read_callback = &Callbacks::send_body;
  const int stream =
      nghttp2_submit_request(session_.get(), nullptr, fields.data(), fields.size(), &body, nullptr);
  if (stream < 0) return error(std::string("nghttp2: ") + nghttp2_strerror(stream));
  return {};
}

short GrpcExchange::events() const {
  return static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT);
}

// Ignores a closed peer: bytes received earlier may contain an answer.
void GrpcExchange::send() {
  for (;;) {
    if (unsent_.empty()) {
      const std::uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_.get(), &bytes);
      if (size <= 0) return;
      unsent_.assign(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    const ssize_t sent = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    unsent_.erase(0, sent < 0 ? unsent_.size() : static_cast<std::size_t>(sent));
  }
}

std::optional<GrpcReply> GrpcExchange::receive() {
  std::array<std::uint8_t, kReadBytes> bytes;
  const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (size <= 0) {
    return GrpcReply{GrpcStatus::unavailable, size < 0 ? errno : ECONNRESET,
                     "the server closed the connection", ""};
  }
  const ssize_t taken =
      nghttp2_session_mem_recv(session_.get(), bytes.data(), static_cast<std::size_t>(size));
  if (taken >= 0) return std::nullopt;
  return GrpcReply{GrpcStatus::internal, EPROTO,
                   std::string("not HTTP/2: ") + nghttp2_strerror(static_cast<int>(taken)), ""};
}

// nghttp2 sends GOAWAY on a protocol violation and stops reading.
bool GrpcExchange::broken() const {
  return nghttp2_session_want_read(session_.get()) == 0;
}

}  // namespace forestall::wire
