// SPDX-License-Identifier: Apache-2.0
// One request and its answer on one connection, with the part of HTTP/1 (RFC 9112) that a metrics
// scraper uses: a request line, header fields, no body; the answer ends the connection.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace forestall::exports {

// Content-Type of a text for people.
inline constexpr const char* kPlainType = "text/plain; charset=utf-8";

struct HttpRequest {
  std::string_view path;   // without the query
  std::string_view host;   // the Host field; empty: missing
  bool from_here = false;  // over a unix socket, or from a loopback address
};

struct HttpAnswer {
  int status = 200;
  std::string type;  // Content-Type
  std::string body;
  std::string fields = {};  // further header fields, each with its line end
  // Set: after its head, the answer continues with unknown length. Takes over the connection once
  // the head is sent. Called by the server's thread; must not block.
  std::function<void(UniqueFd)> follow = nullptr;
  // Released once no part of the answer is stored here any more, sent or not. A page can use it to
  // limit the number of its pending answers.
  std::shared_ptr<void> held = nullptr;
};

// The server's pages.
using HttpPages = std::function<HttpAnswer(const HttpRequest& request)>;

// Whether a Host field is "localhost" or an address, with or without a port, or missing: no browser
// sends none. A page of another site could point its own name at this host (DNS rebinding) and read
// the answers.
[[nodiscard]] bool is_own_name(std::string_view host);

// The complete answer to a request as bytes, or its head if `follow` is set. `rest` receives the
// parts that are not bytes: `follow` and `held`.
[[nodiscard]] std::string http_answer(std::string_view request, bool from_here,
                                      const HttpPages& pages, HttpAnswer& rest);

// How an exchange reads and writes a connected, non-blocking socket, if not as it is: with TLS.
class HttpTransport {
 public:
  HttpTransport() = default;
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;
  virtual ~HttpTransport() = default;

  // As recv() and send(): how many bytes; 0 at the end of the input; -1 and errno, of which EAGAIN
  // means that the socket must become ready for awaits().
  [[nodiscard]] virtual ssize_t receive(std::span<char> out) = 0;
  [[nodiscard]] virtual ssize_t send(std::string_view bytes) = 0;
  // Events of poll(); 0: those that the exchange needs.
  [[nodiscard]] virtual short awaits() const = 0;
  // Whether receive() has bytes that the socket does not show any more.
  [[nodiscard]] virtual bool has_buffered() const = 0;
  // No send() follows.
  virtual void finish() = 0;
};
// Of a new connection, which outlives it; null: the connection is closed.
using HttpTransports = std::function<std::unique_ptr<HttpTransport>(int fd)>;

// Thread rule: one thread.
class HttpExchange {
 public:
  static constexpr std::size_t kRequestMax = 8192;

  // `fd` is a connected, non-blocking socket. `transport`: null: none. With one, answers that are
  // continued by others (`follow`) are not possible.
  HttpExchange(UniqueFd fd, MonotonicTime deadline,
               std::unique_ptr<HttpTransport> transport = nullptr);

  [[nodiscard]] int fd() const { return fd_.get(); }
  // When to give up, in any state.
  [[nodiscard]] MonotonicTime deadline() const { return deadline_; }
  // Events to poll for.
  [[nodiscard]] short events() const;
  // Whether the client is awaited: its request, or its end of the answered connection.
  [[nodiscard]] bool idle() const { return answered_ || answer_.empty(); }
  // Whether its request has not arrived completely: it holds little memory.
  [[nodiscard]] bool awaits_request() const { return !answered_ && answer_.empty(); }
  // Continues as far as possible without blocking; false once it has ended.
  bool advance(const HttpPages& pages);

 private:
  bool receive(const HttpPages& pages);
  bool send_on();
  bool discard();
  [[nodiscard]] ssize_t read_some(std::span<char> out);
  [[nodiscard]] bool has_buffered() const { return transport_ && transport_->has_buffered(); }

  UniqueFd fd_;
  std::unique_ptr<HttpTransport> transport_;
  MonotonicTime deadline_;
  std::string request_;
  std::string answer_;  // empty: not computed yet, or completely sent
  std::size_t sent_ = 0;
  bool answered_ = false;
  bool from_here_ = false;
  HttpAnswer rest_;  // its parts that are not bytes
};

}  // namespace forestall::exports
