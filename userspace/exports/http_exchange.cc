// SPDX-License-Identifier: Apache-2.0
#include "exports/http_exchange.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

#include <array>

#include "base/parse.h"

namespace forestall::exports {
namespace {

constexpr std::string_view kEndOfLine = "\r\n";
constexpr std::string_view kEndOfHead = "\r\n\r\n";

std::string_view phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Unknown";
  }
}

std::string head_of(const HttpAnswer& answer) {
  // Without a length, the end of the connection ends the answer.
  const std::string length =
      answer.follow ? std::string() : fmt::format("Content-Length: {}\r\n", answer.body.size());
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}{}{}Connection: close\r\n\r\n",
                     answer.status, phrase(answer.status), answer.type, length, answer.fields,
                     answer.status == 405 ? "Allow: GET, HEAD\r\n" : "");
}

std::string whole(const HttpAnswer& answer) {
  return head_of(answer) + answer.body;
}

// The value of the first field with that name, without surrounding blanks.
std::string_view field_of(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const auto end = head.find(kEndOfLine);
    std::string_view line = head.substr(0, end);
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + kEndOfLine.size());
    const auto colon = line.find(':');
    if (colon != name.size() || strncasecmp(line.data(), name.data(), colon) != 0) continue;
    line.remove_prefix(colon + 1);
    while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
    while (line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
    return line;
  }
  return {};
}

// Whether the peer is on this host, by its address.
bool is_here(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  // The sockets interface returns every kind of address as a generic one.
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.ss_family == AF_UNIX) return true;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (address.ss_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  constexpr std::size_t kMappedAt = 12;
  return IN6_IS_ADDR_LOOPBACK(&v6) ||
         (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[kMappedAt] == IN_LOOPBACKNET);
}

bool would_wait() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

bool is_own_name(std::string_view host) {
  if (host.empty()) return true;  // not a browser
  std::string name(host);
  if (name.starts_with('[')) {
    name = name.substr(1, name.find(']') - 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  if (name == "localhost") return true;
  in6_addr address{};
  return inet_pton(AF_INET, name.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

std::string http_answer(std::string_view request, bool from_here, const HttpPages& pages,
                        HttpAnswer& rest) {
  const auto end = request.find(kEndOfLine);
  std::string_view line = request.substr(0, end);
  const std::string_view method = next_field(line, ' ');
  std::string_view target = next_field(line, ' ');
  if (method.empty() || !target.starts_with('/') || !line.starts_with("HTTP/1.")) {
    return whole({400, kPlainType, "not an HTTP/1 request\n"});
  }
  if (method != "GET" && method != "HEAD") {
    return whole({405, kPlainType, "only GET and HEAD are supported\n"});
  }
  const std::string_view fields =
      end == std::string_view::npos ? std::string_view() : request.substr(end + kEndOfLine.size());
  HttpAnswer answer = pages({next_field(target, '?'), field_of(fields, "Host"), from_here});
  std::string text = method == "HEAD" ? head_of(answer) : whole(answer);
  if (method != "HEAD") rest.follow = std::move(answer.follow);
  rest.held = std::move(answer.held);
  return text;
}

HttpExchange::HttpExchange(UniqueFd fd, MonotonicTime deadline,
                           std::unique_ptr<HttpTransport> transport)
    : fd_(std::move(fd)),
      transport_(std::move(transport)),
      deadline_(deadline),
      from_here_(is_here(fd_.get())) {}

short HttpExchange::events() const {
  const short wanted = transport_ ? transport_->awaits() : short{0};
  if (wanted != 0) return wanted;
  return answer_.empty() ? POLLIN : POLLOUT;
}

ssize_t HttpExchange::read_some(std::span<char> out) {
  return transport_ ? transport_->receive(out) : recv(fd_.get(), out.data(), out.size(), 0);
}

bool HttpExchange::advance(const HttpPages& pages) {
  if (answered_) return discard();
  return answer_.empty() ? receive(pages) : send_on();
}

bool HttpExchange::receive(const HttpPages& pages) {
  std::array<char, 2048> part;
  do {
    const ssize_t n = read_some(part);
    if (n < 0) return would_wait();
    if (n == 0) return false;  // the client closed the connection
    request_.append(part.data(), static_cast<std::size_t>(n));
  } while (has_buffered() && request_.size() <= kRequestMax);
  if (request_.find(kEndOfHead) != std::string::npos) {
    answer_ = http_answer(request_, from_here_, pages, rest_);
  } else if (request_.size() > kRequestMax) {
    answer_ =
        whole({431, kPlainType, fmt::format("the request is longer than {} bytes\n", kRequestMax)});
  } else {
    return true;
  }
  return send_on();
}

bool HttpExchange::send_on() {
  while (sent_ < answer_.size()) {
    const std::string_view rest = std::string_view(answer_).substr(sent_);
    const ssize_t n = transport_ ? transport_->send(rest)
                                 : send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0) return would_wait();
    sent_ += static_cast<std::size_t>(n);
  }
  answered_ = true;
  answer_ = std::string();
  rest_.held.reset();
  if (rest_.follow) {
    if (!transport_) rest_.follow(std::move(fd_));
    return false;
  }
  if (transport_) transport_->finish();
  // Closing with unread input would reset the connection, and the client could lose the end of the
  // answer; so the client must close first.
  shutdown(fd_.get(), SHUT_WR);
  return discard();
}

bool HttpExchange::discard() {
  // One part at a time, so that a client with unlimited input does not starve the others.
  std::array<char, 2048> part;
  do {
    const ssize_t n = read_some(part);
    if (n < 0) return would_wait();
    if (n == 0) return false;
  } while (has_buffered());
  return true;
}

}  // namespace forestall::exports
