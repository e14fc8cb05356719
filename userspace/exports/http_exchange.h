// SPDX-License-Identifier: Apache-2.0
// One request and its answer over one connection, as far as a collector of metrics speaks HTTP/1
// (RFC 9112): a request line, fields that are passed over, no body; the answer ends the connection.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace forestall::exports {

struct HttpAnswer {
  int status = 200;
  std::string type;  // Content-Type
  std::string body;
};

// What the server has at a path, without its query.
using HttpPages = std::function<HttpAnswer(std::string_view path)>;

// The whole answer to a request, from its first line to the blank one.
[[nodiscard]] std::string http_answer(std::string_view request, const HttpPages& pages);

// Thread rule: one thread.
class HttpExchange {
 public:
  static constexpr std::size_t kRequestMax = 8192;

  // `fd` is a connected socket that does not block.
  HttpExchange(UniqueFd fd, MonotonicTime deadline) : fd_(std::move(fd)), deadline_(deadline) {}

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
  std::string answer_;
  std::size_t sent_ = 0;
};

}  // namespace forestall::exports
