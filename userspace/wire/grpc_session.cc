// SPDX-License-Identifier: Apache-2.0
#include "wire/grpc_session.h"
#include "wire/nghttp2_parts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

namespace forestall::wire {
namespace {

using wire::GrpcMessageReader;

// Limit of a text in a header: it may quote up to 8 KiB of client input.
constexpr std::size_t kTextBytes = 512;
// HTTP/2's overhead per field in the size of a list (RFC 9113 §6.5.2).
constexpr std::size_t kFieldOverhead = 32;

// grpc-status and grpc-message; valid as long as this object.
class Trailers {
 public:
  Trailers(GrpcStatus status, std::string_view text)
      : status_(std::to_string(static_cast<int>(status))),
        text_(wire::percent_encode(text.substr(0, kTextBytes))) {}

  void append_to(std::vector<nghttp2_nv>& fields) const {
    fields.push_back(header_field("grpc-status", status_));
    if (!text_.empty()) fields.push_back(header_field("grpc-message", text_));
  }

 private:
  std::string status_;
  std::string text_;
};

const nghttp2_nv kStatusOk = header_field(":status", "200");
const nghttp2_nv kContentType = header_field("content-type", "application/grpc");
const nghttp2_nv kAccepts = header_field("grpc-accept-encoding", "identity");

// The fields of a request that the session uses.
struct RequestHead {
  std::string method;
  std::string path;
  std::string type;
  std::string encoding;
  std::string timeout;
  std::size_t bytes = 0;  // of all fields

  void add(std::string_view name, std::string_view value) {
    bytes += name.size() + value.size() + kFieldOverhead;
    if (name == ":method") method = value;
    if (name == ":path") path = value;
    if (name == "content-type") type = value;
    if (name == "grpc-encoding") encoding = value;
    if (name == "grpc-timeout") timeout = value;
  }
};

struct EndOptions {
  void operator()(nghttp2_option* option) const { nghttp2_option_del(option); }
};

}  // namespace

struct GrpcSession::Stream {
  Stream(GrpcSession& owner, std::int32_t number, std::size_t message_bytes, MonotonicTime now)
      : session(&owner), id(number), reader(message_bytes), received_at(now), taken_at(now) {}

  GrpcSession* session;
  std::int32_t id;
  RequestHead head;
  GrpcMessageReader reader;
  std::deque<std::string> inbox;   // messages the call has not taken yet
  std::size_t not_returned = 0;    // bytes of the windows
  bool request_ended = false;      // the client has ended its side
  bool reported_all = false;       // and the call was notified
  std::unique_ptr<GrpcCall> call;  // null: refused, or ended
  GrpcFrame frame;                 // being sent
  std::size_t sent = 0;            // bytes of `frame`
  std::optional<GrpcStep> end;     // sent after `frame`
  bool responded = false;          // HEADERS are submitted
  bool deferred = false;           // HTTP/2 waits for resume_data()
  bool gone = false;               // reset; the close callback follows
  std::optional<MonotonicTime> deadline;
  MonotonicTime received_at;  // last received part of the request
  MonotonicTime taken_at;     // last read by the client, or the start of pending output
};

// nghttp2 callbacks; `self` is the session.
struct GrpcSession::Callbacks {
  static GrpcSession& of(void* self) { return *static_cast<GrpcSession*>(self); }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    GrpcSession& session = of(self);
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    // The client can open more streams than allowed until it acknowledges our SETTINGS.
    if (session.streams_.size() >= session.limits_.streams) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    const std::int32_t id = frame->hd.stream_id;
    session.streams_.emplace(
        id, std::make_unique<Stream>(session, id, session.limits_.message_bytes, session.now_));
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                    std::uint8_t, void* self) {
    Stream* stream = of(self).find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    stream->head.add({reinterpret_cast<const char*>(name), name_size},
                     {reinterpret_cast<const char*>(value), value_size});
    // Resets the stream; otherwise a compressed list could expand to 200 MiB.
    return stream->head.bytes > of(self).limits_.header_bytes
               ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
               : 0;
  }

  static int frame_received(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    Stream* stream = of(self).find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    stream->received_at = of(self).now_;
    const bool request =
        frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->request_ended = true;
    if (request) of(self).begin(*stream);
    of(self).pump(*stream);
    return 0;
  }

  static int data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                  std::size_t size, void* self) {
    Stream* stream = of(self).find(id);
    if (stream == nullptr) return 0;
    stream->not_returned += size;
    if (stream->call == nullptr) {
      of(self).return_window(*stream, size);
      return 0;
    }
    std::vector<std::string> whole;
    const auto read = stream->reader.read({reinterpret_cast<const char*>(bytes), size}, whole);
    for (std::string& each : whole) stream->inbox.push_back(std::move(each));
    if (!read) {
      const auto status = read.error().code == EMSGSIZE ? GrpcStatus::resource_exhausted
                                                        : GrpcStatus::unimplemented;
      of(self).refuse(*stream, status, read.error().message);
    }
    return 0;
  }

  // If an answer ends before its request, the server requests that the client stop sending (RFC
  // 9113 §8.1).
  static int frame_sent(nghttp2_session* http, const nghttp2_frame* frame, void* self) {
    if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
      return 0;
    }
    const Stream* stream = of(self).find(frame->hd.stream_id);
    if (stream != nullptr && !stream->request_ended) {
      nghttp2_submit_rst_stream(http, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static int close(nghttp2_session* http, std::int32_t id, std::uint32_t, void* self) {
    Stream* stream = of(self).find(id);
    if (stream == nullptr) return 0;
    // The stream's own window ends with it, but the connection's window must be restored.
    if (stream->not_returned > 0) {
      nghttp2_session_consume_connection(http, stream->not_returned);
    }
    of(self).streams_.erase(id);
    return 0;
  }

  static ssize_t body(nghttp2_session* http, std::int32_t id, std::uint8_t* to, std::size_t room,
                      std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    std::size_t filled = 0;
    while (filled < room) {
      if (stream.frame == nullptr) stream.session->step(stream);
      if (stream.frame == nullptr) break;
      const std::size_t size = std::min(room - filled, stream.frame->size() - stream.sent);
      std::memcpy(to + filled, stream.frame->data() + stream.sent, size);
      filled += size;
      stream.sent += size;
      if (stream.sent == stream.frame->size()) stream.frame.reset();
    }
    stream.taken_at = stream.session->now_;
    if (filled > 0) return static_cast<ssize_t>(filled);
    if (!stream.end) {
      stream.deferred = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    const Trailers trailers(stream.end->status, stream.end->text);
    std::vector<nghttp2_nv> fields;
    trailers.append_to(fields);
    nghttp2_submit_trailer(http, id, fields.data(), fields.size());
    return 0;
  }
};

void GrpcSession::EndSession::operator()(nghttp2_session* session) const {
  nghttp2_session_del(session);
}

GrpcSession::GrpcSession(GrpcService& service, const GrpcLimits& limits, const GrpcPeer& peer)
    : service_(service), limits_(limits), peer_(peer) {
  nghttp2_session_callbacks* made = nullptr;
  nghttp2_option* option = nullptr;
  nghttp2_session* session = nullptr;
  if (nghttp2_session_callbacks_new(&made) != 0 || nghttp2_option_new(&option) != 0) return;
  const std::unique_ptr<nghttp2_session_callbacks, CallbacksDeleter> callbacks(made);
  const std::unique_ptr<nghttp2_option, EndOptions> options(option);
  nghttp2_session_callbacks_set_on_begin_headers_callback(made, &Callbacks::begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(made, &Callbacks::header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(made, &Callbacks::frame_received);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &Callbacks::data);
  nghttp2_session_callbacks_set_on_frame_send_callback(made, &Callbacks::frame_sent);
  nghttp2_session_callbacks_set_on_stream_close_callback(made, &Callbacks::close);
  nghttp2_option_set_no_auto_window_update(option, 1);
  if (nghttp2_session_server_new2(&session, made, this, option) != 0) return;
  session_.reset(session);
  const std::array<nghttp2_settings_entry, 2> settings{
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, static_cast<std::uint32_t>(limits.streams)},
       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.header_bytes)}}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
}

GrpcSession::~GrpcSession() = default;

GrpcSession::Stream* GrpcSession::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

bool GrpcSession::receive(std::string_view bytes, MonotonicTime now) {
  now_ = now;
  if (session_ == nullptr) return false;
  return nghttp2_session_mem_recv(session_.get(),
                                  reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                  bytes.size()) >= 0;
}

std::string_view GrpcSession::output(MonotonicTime now) {
  now_ = now;
  const std::uint8_t* bytes = nullptr;
  if (session_ == nullptr) return {};
  const ssize_t size = nghttp2_session_mem_send(session_.get(), &bytes);
  if (size < 0) session_.reset();
  if (size <= 0) return {};
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

bool GrpcSession::over() const {
  return session_ == nullptr || (nghttp2_session_want_read(session_.get()) == 0 &&
                                 nghttp2_session_want_write(session_.get()) == 0);
}

std::size_t GrpcSession::calls_going_on() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(streams_, [](const auto& each) { return !each.second->gone; }));
}

// All fields of the request are complete and can be validated.
void GrpcSession::begin(Stream& stream) {
  ++tally_.calls;
  const RequestHead& head = stream.head;
  if (head.method != "POST" || !head.type.starts_with("application/grpc")) {
    // A client that does not use gRPC reads HTTP's own status.
    const nghttp2_nv status = header_field(":status", head.method != "POST" ? "405" : "415");
    nghttp2_submit_response(session_.get(), stream.id, &status, 1, nullptr);
    stream.responded = true;
    return;
  }
  if (!head.encoding.empty() && head.encoding != "identity") {
    refuse(stream, GrpcStatus::unimplemented, "compressed messages are not supported");
    return;
  }
  if (!head.timeout.empty()) {
    const auto timeout = wire::parse_grpc_timeout(head.timeout);
    if (!timeout) {
      refuse(stream, GrpcStatus::invalid_argument, "invalid grpc-timeout '" + head.timeout + "'");
      return;
    }
    // A day is practically unlimited, and does not overflow.
    stream.deadline = now_ + std::min<Duration>(*timeout, std::chrono::hours(24));
  }
  stream.call = service_.begin(head.path, peer_);
  if (stream.call == nullptr) {
    refuse(stream, GrpcStatus::unimplemented, "unknown method " + head.path);
  }
}

// Passes input to the call, and its output to HTTP/2.
void GrpcSession::pump(Stream& stream) {
  if (stream.call == nullptr) return;
  step(stream);
  respond(stream);
}

// Runs the call until it has output, ends or waits. Sends nothing.
void GrpcSession::step(Stream& stream) {
  while (stream.call != nullptr && stream.frame == nullptr && !stream.end) {
    GrpcStep next = stream.call->next();
    stream.sent = 0;
    if (next.over) {
      stream.end = std::move(next);
      stream.call.reset();
      stream.inbox.clear();
      return_window(stream, stream.not_returned);
    } else if (next.frame != nullptr) {
      stream.frame = std::move(next.frame);
    } else if (!stream.inbox.empty()) {
      const std::string message = std::move(stream.inbox.front());
      stream.inbox.pop_front();
      stream.call->take(message);
      return_window(stream, wire::grpc_frame("").size() + message.size());
    } else if (stream.request_ended && !stream.reader.between_messages()) {
      stream.end = GrpcStep::end(GrpcStatus::internal, "the request is truncated");
      stream.call.reset();
    } else if (stream.request_ended && !stream.reported_all) {
      stream.reported_all = true;
      stream.call->requests_end();
    } else {
      return;
    }
  }
}

void GrpcSession::respond(Stream& stream) {
  const bool has_something = stream.frame != nullptr || stream.end;
  if (stream.gone) return;
  if (stream.responded) {
    if (!stream.deferred || !has_something) return;
    stream.deferred = false;
    stream.taken_at = now_;
    nghttp2_session_resume_data(session_.get(), stream.id);
    return;
  }
  if (stream.frame == nullptr && stream.end) {
    const GrpcStep end = *stream.end;
    refuse(stream, end.status, end.text);
    return;
  }
  // HEADERS without a message yet show the client that the call was accepted.
  if (!has_something && !stream.reported_all) return;
  const std::array<nghttp2_nv, 3> fields{kStatusOk, kContentType, kAccepts};
  nghttp2_data_provider body{};
  body.source.ptr = &stream;
  body.read_callback = &Callbacks::body;
  nghttp2_submit_response(session_.get(), stream.id, fields.data(), fields.size(), &body);
  stream.responded = true;
  stream.taken_at = now_;
}

// Ends a call with a status that is not its own, or that comes without any message.
void GrpcSession::refuse(Stream& stream, GrpcStatus status, std::string text) {
  stream.call.reset();
  stream.inbox.clear();
  return_window(stream, stream.not_returned);
  if (stream.responded) {
    stream.end = GrpcStep::end(status, std::move(text));
    if (stream.deferred) respond(stream);
    return;
  }
  std::vector<nghttp2_nv> fields{kStatusOk, kContentType, kAccepts};
  const Trailers trailers(status, text);
  trailers.append_to(fields);
  nghttp2_submit_response(session_.get(), stream.id, fields.data(), fields.size(), nullptr);
  stream.responded = true;
}

void GrpcSession::reset(Stream& stream, std::uint32_t error_code) {
  stream.gone = true;
  stream.call.reset();
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream.id, error_code);
}

void GrpcSession::return_window(Stream& stream, std::size_t bytes) {
  const std::size_t given = std::min(bytes, stream.not_returned);
  if (given == 0) return;
  stream.not_returned -= given;
  nghttp2_session_consume(session_.get(), stream.id, given);
}

void GrpcSession::resume(MonotonicTime now) {
  now_ = now;
  if (session_ == nullptr) return;
  for (const auto& [id, stream] : streams_) {
    if (stream->deferred) pump(*stream);
  }
}

// The earliest time at which one of the stream's limits expires.
std::optional<MonotonicTime> GrpcSession::due_of(const Stream& stream) const {
  std::optional<MonotonicTime> due = stream.gone ? std::nullopt : stream.deadline;
  const auto at = [&due](MonotonicTime time) { due = due ? std::min(*due, time) : time; };
  if (stream.gone) return due;
  if (!stream.request_ended && stream.frame == nullptr) at(stream.received_at + limits_.request);
  if (stream.responded && !stream.deferred) at(stream.taken_at + limits_.patience);
  return due;
}

void GrpcSession::expire(MonotonicTime now) {
  now_ = now;
  if (session_ == nullptr) return;
  for (const auto& [id, stream] : streams_) {
    const auto due = due_of(*stream);
    if (!due || *due > now) continue;
    if (stream->responded && !stream->deferred) {
      // The client does not read. If only its deadline has passed, a reset without a status is
      // enough, because the client tracks the deadline too.
      if (stream->taken_at + limits_.patience <= now) {
        ++tally_.slow_readers;
        reset(*stream, NGHTTP2_ENHANCE_YOUR_CALM);
      } else {
        reset(*stream, NGHTTP2_CANCEL);
      }
    } else {
      refuse(*stream, GrpcStatus::deadline_exceeded,
             stream->deadline && *stream->deadline <= now
                 ? "the client's deadline has expired"
                 : "timeout while waiting for the request");
    }
  }
}

std::optional<MonotonicTime> GrpcSession::due() const {
  std::optional<MonotonicTime> first;
  for (const auto& [id, stream] : streams_) {
    const auto due = due_of(*stream);
    if (due) first = first ? std::min(*first, *due) : *due;
  }
  return first;
}

}  // namespace forestall::wire
