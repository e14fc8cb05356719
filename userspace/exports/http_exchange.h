// SPDX-License-Identifier: Apache-2.0
// One request and its answer over one connection, as far as a collector of metrics speaks HTTP/1
// (RFC 9112): a request line, fields that are passed over, no body; the answer ends the connection.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace forestall::exports {

struct HttpRequest {
  std::string_view path;   // without its query
  std::string_view host;   // of the field of that name; empty: there is none
  bool from_here = false;  // over a local socket, or from an address of this host's loopback
};

struct HttpAnswer {
  int status = 200;
  std::string type;  // Content-Type
  std::string body;
  std::string fields = {};  // further header fields, each with its line end
  // Set: the answer goes on after its head, of no known length. Takes the connection over once the
  // head is sent; called by the server's thread, must not block.
  std::function<void(UniqueFd)> follow = nullptr;
  // Let go of once nothing of the answer is kept here any more, taken or not: by it a page can
  // bound how many of its answers wait for readers.
  std::shared_ptr<void> held = nullptr;
};

// What the server has.
using HttpPages = std::function<HttpAnswer(const HttpRequest& request)>;

// The whole answer to a request, from its first line to the blank one, as bytes. `rest` is set to
// what is not bytes: what follows it, and what it holds.
[[nodiscard]] std::string http_answer(std::string_view request, bool from_here,
                                      const HttpPages& pages, HttpAnswer& rest);

// Thread rule: one thread.
class HttpExchange {
 public:
  static constexpr std::size_t kRequestMax = 8192;

  // `fd` is a connected socket that does not block.
  HttpExchange(UniqueFd fd, MonotonicTime deadline);

  [[nodiscard]] int fd() const { return fd_.get(); }
  // When it is to be given up, however far it is.
  [[nodiscard]] MonotonicTime deadline() const { return deadline_; }
  // What to poll for.
  [[nodiscard]] short events() const;
  // Goes on as far as it can without waiting; false when it is over.
  bool advance(const HttpPages& pages);

 private:
  bool receive(const HttpPages& pages);
  bool send_on();
  bool discard();

  UniqueFd fd_;
  MonotonicTime deadline_;
  std::string request_;
  std::string answer_;  // empty: not known yet, or all of it was sent
  std::size_t sent_ = 0;
  bool answered_ = false;
  bool from_here_ = false;
  HttpAnswer rest_;  // what of it is no bytes
};

}  // namespace forestall::exports
