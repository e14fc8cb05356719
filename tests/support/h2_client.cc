// SPDX-License-Identifier: Apache-2.0
#include "support/h2_client.h"

#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "wire/grpc_exchange.h"

namespace forestall::test {
namespace {

constexpr Duration kConnectPatience = std::chrono::seconds(30);

UniqueFd connected(const std::string& path) {
  auto socket = wire::connect_to(path, kConnectPatience);
  if (!socket) throw std::runtime_error(socket.error().text());
  return std::move(socket).value();
}

nghttp2_nv field(const std::string& name, const std::string& value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

struct H2Client::Body {
  std::string bytes;
  std::size_t sent = 0;
  bool ends = true;
};

struct H2Client::Callbacks {
  static H2Client& of(void* self) { return *static_cast<H2Client*>(self); }

  static ssize_t body(nghttp2_session*, std::int32_t, std::uint8_t* to, std::size_t room,
                      std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& body = *static_cast<Body*>(source->ptr);
    const std::size_t size = std::min(room, body.bytes.size() - body.sent);
    if (size == 0 && !body.ends) return NGHTTP2_ERR_DEFERRED;
    std::memcpy(to, body.bytes.data() + body.sent, size);
    body.sent += size;
    if (body.sent == body.bytes.size() && body.ends) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }
  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                    std::uint8_t, void* self) {
    of(self).answers_[frame->hd.stream_id].fields.insert_or_assign(
        std::string(reinterpret_cast<const char*>(name), name_size),
        std::string(reinterpret_cast<const char*>(value), value_size));
    return 0;
  }
  static int data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                  std::size_t size, void* self) {
    of(self).answers_[id].body.append(reinterpret_cast<const char*>(bytes), size);
    return 0;
  }
  static int frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    if (frame->hd.type == NGHTTP2_GOAWAY) of(self).goodbye_ = frame->goaway.error_code;
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && ends) {
      of(self).answers_[frame->hd.stream_id].ended = true;
    }
    return 0;
  }
  static int close(nghttp2_session*, std::int32_t id, std::uint32_t error_code, void* self) {
    of(self).answers_[id].closed = error_code;
    return 0;
  }
};

void H2Client::EndSession::operator()(nghttp2_session* session) const {
  nghttp2_session_del(session);
}

H2Client::H2Client(const std::string& socket, Habits habits) : socket_(connected(socket)) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  nghttp2_session* session = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_option_new(&option);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, &Callbacks::header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Callbacks::data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Callbacks::frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Callbacks::close);
  nghttp2_option_set_no_auto_window_update(option, habits.opens_windows ? 0 : 1);
  nghttp2_session_client_new2(&session, callbacks, this, option);
  session_.reset(session);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(option);
  const nghttp2_settings_entry window{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, habits.window};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &window, 1);
  // The connection's window is not a setting, and never smaller than this.
  if (habits.window > 65535) {
    nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                          static_cast<std::int32_t>(habits.window));
  }
  send();
}

H2Client::~H2Client() = default;

std::int32_t H2Client::request(const std::string& path, std::string_view body, bool ends,
                               const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> all{{":method", "POST"}, {":scheme", "http"},
                                         {":path", path},     {":authority", "localhost"},
                                         {"te", "trailers"},  {"content-type", "application/grpc"}};
  for (const auto& [name, value] : more) all.insert_or_assign(name, value);
  std::vector<nghttp2_nv> fields;
  // ':' sorts before letters, as HTTP/2 requires.
  for (const auto& [name, value] : all) fields.push_back(field(name, value));
  bodies_.push_back(std::make_unique<Body>(Body{std::string(body), 0, ends}));
  nghttp2_data_provider provider{};
  provider.source.ptr = bodies_.back().get();
  provider.read_callback = &Callbacks::body;
  const std::int32_t stream = nghttp2_submit_request(session_.get(), nullptr, fields.data(),
                                                     fields.size(), &provider, nullptr);
  if (stream < 0) throw std::runtime_error(nghttp2_strerror(stream));
  send();
  return stream;
}

void H2Client::reset(std::int32_t stream, std::uint32_t error_code) {
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream, error_code);
  send();
}

void H2Client::send_raw(std::string_view bytes) {
  unsent_.append(bytes);
  send();
}

void H2Client::half_close() {
  ::shutdown(socket_.get(), SHUT_WR);
}

void H2Client::send() {
  for (;;) {
    if (unsent_.empty()) {
      const std::uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_.get(), &bytes);
      if (size <= 0) return;
      unsent_.assign(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    const ssize_t sent = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN) unsent_.clear();
      return;
    }
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

void H2Client::receive() {
  std::array<std::uint8_t, 16384> bytes;
  const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (size < 0 && errno == EAGAIN) return;
  if (size <= 0) {
    hung_up_ = true;
    return;
  }
  // Skips what it does not understand.
  (void)nghttp2_session_mem_recv(session_.get(), bytes.data(), static_cast<std::size_t>(size));
}

bool H2Client::run_until(const std::function<bool()>& done, Duration patience) {
  const MonotonicTime until = SystemClock().now() + patience;
  for (;;) {
    send();
    if (done()) return true;
    const Duration left = until - SystemClock().now();
    if (hung_up_ || left <= Duration::zero()) return false;
    pollfd fd{socket_.get(), static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    if (::poll(&fd, 1, static_cast<int>(ms)) > 0) receive();
  }
}

}  // namespace forestall::test
