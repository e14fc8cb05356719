// SPDX-License-Identifier: Apache-2.0
#include "exports/http_exchange.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "base/parse.h"

namespace forestall::exports {
namespace {

constexpr const char* kPlainType = "text/plain; charset=utf-8";
constexpr std::string_view kEndOfLine = "\r\n";
constexpr std::string_view kEndOfHead = "\r\n\r\n";

std::string_view phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Unknown";
  }
}

std::string head_of(const HttpAnswer& answer) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n",
      answer.status, phrase(answer.status), answer.type, answer.body.size(),
      answer.status == 405 ? "Allow: GET, HEAD\r\n" : "");
}

std::string whole(const HttpAnswer& answer) {
  return head_of(answer) + answer.body;
}

bool would_wait() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

std::string http_answer(std::string_view request, const HttpPages& pages) {
  std::string_view line = request.substr(0, request.find(kEndOfLine));
  const std::string_view method = next_field(line, ' ');
  std::string_view target = next_field(line, ' ');
  if (method.empty() || !target.starts_with('/') || !line.starts_with("HTTP/1.")) {
    return whole({400, kPlainType, "this is no HTTP/1 request\n"});
  }
  if (method != "GET" && method != "HEAD") {
    return whole({405, kPlainType, "only GET is served here\n"});
  }
  const HttpAnswer answer = pages(next_field(target, '?'));
  return method == "HEAD" ? head_of(answer) : whole(answer);
}

short HttpExchange::events() const {
  return sent_ < answer_.size() ? POLLOUT : POLLIN;
}

bool HttpExchange::advance(const HttpPages& pages) {
  if (answer_.empty()) return receive(pages);
  return sent_ < answer_.size() ? send_on() : discard();
}

bool HttpExchange::receive(const HttpPages& pages) {
  std::array<char, 2048> part;
  const ssize_t n = recv(fd_.get(), part.data(), part.size(), 0);
  if (n < 0) return would_wait();
  if (n == 0) return false;  // it has hung up
  request_.append(part.data(), static_cast<std::size_t>(n));
  if (request_.find(kEndOfHead) != std::string::npos) {
    answer_ = http_answer(request_, pages);
  } else if (request_.size() > kRequestMax) {
    answer_ = whole({431, kPlainType, "the request is too long\n"});
  } else {
    return true;
  }
  return send_on();
}

bool HttpExchange::send_on() {
  while (sent_ < answer_.size()) {
    const ssize_t n = send(fd_.get(), answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0) return would_wait();
    sent_ += static_cast<std::size_t>(n);
  }
  // Closing with something of the request unread would reset the connection, and may take the end
  // of the answer from the client: it closes first.
  shutdown(fd_.get(), SHUT_WR);
  return discard();
}

bool HttpExchange::discard() {
  // One part at a time: a client that never stops sending must not keep the thread from the others.
  std::array<char, 2048> part;
  const ssize_t n = recv(fd_.get(), part.data(), part.size(), 0);
  if (n < 0) return would_wait();
  return n > 0;
}

}  // namespace forestall::exports
