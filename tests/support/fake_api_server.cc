// SPDX-License-Identifier: Apache-2.0
#include "support/fake_api_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <stdexcept>
#include <utility>

namespace forestall::test {
namespace {

// Removes one complete request from the front of `bytes`; nothing: it is not complete.
std::optional<ApiRequest> next_request(std::string& bytes) {
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos) return std::nullopt;
  ApiRequest request;
  std::string_view head(bytes.data(), end);
  const auto take_line = [&head] {
    const std::size_t size = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, size);
    head.remove_prefix(std::min(size + 2, head.size()));
    return line;
  };
  const std::string_view first = take_line();
  const std::size_t space = first.find(' ');
  request.method = first.substr(0, space);
  const std::string_view rest = first.substr(space + 1);
  request.target = rest.substr(0, rest.rfind(' '));
  while (!head.empty()) {
    const std::string_view line = take_line();
    const std::size_t colon = line.find(':');
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::size_t value = line.find_first_not_of(' ', colon + 1);
    request.headers[name] = value == std::string_view::npos ? "" : line.substr(value);
  }
  const auto length = request.headers.find("content-length");
  const std::size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
  if (bytes.size() < end + 4 + size) return std::nullopt;
  request.body = bytes.substr(end + 4, size);
  bytes.erase(0, end + 4 + size);
  return request;
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size <= 0) return;  // the client is gone
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace

std::string chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

ApiAnswer json_answer(int code, std::string_view body, std::string_view headers) {
  return {fmt::format("HTTP/1.1 {} Status\r\nContent-Type: application/json\r\n"
                      "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n{}Content-Length: {}\r\n\r\n{}",
                      code, headers, body.size(), body),
          ApiAnswer::Then::keep};
}

ApiAnswer watch_answer(std::string_view lines) {
  return {
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
          (lines.empty() ? "" : chunk(lines)),
      ApiAnswer::Then::hold};
}

struct FakeApiServer::Connection {
  UniqueFd fd;
  std::string received;
  bool held = false;
  std::string target;  // of the last request

  [[nodiscard]] bool holds(const std::string& part) const {
    return held && target.find(part) != std::string::npos;
  }
};

FakeApiServer::FakeApiServer(Answer answer)
    : answer_(std::move(answer)),
      listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listening_.get(), any, size) != 0 || ::listen(listening_.get(), 16) != 0 ||
      ::getsockname(listening_.get(), any, &size) != 0) {
    throw std::runtime_error("no port for the fake API server");
  }
  url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  thread_ = std::thread([this] { serve(); });
}

FakeApiServer::~FakeApiServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  (void)eventfd_write(wake_.get(), 1);
  thread_.join();
}

void FakeApiServer::send_held(std::string_view bytes, std::string_view part) {
  const std::lock_guard lock(mutex_);
  orders_.emplace_back([this, text = std::string(bytes), to = std::string(part)] {
    for (const auto& each : connections_) {
      if (each->holds(to)) send_all(each->fd.get(), text);
    }
  });
  (void)eventfd_write(wake_.get(), 1);
}

void FakeApiServer::cut_held(std::string_view part) {
  const std::lock_guard lock(mutex_);
  orders_.emplace_back([this, to = std::string(part)] {
    std::erase_if(connections_, [&to](const auto& each) { return each->holds(to); });
  });
  (void)eventfd_write(wake_.get(), 1);
}

std::vector<ApiRequest> FakeApiServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeApiServer::serve() {
  for (;;) {
    std::vector<pollfd> fds = {{listening_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    for (const auto& each : connections_) fds.push_back({each->fd.get(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), -1);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    // Backwards, because connections that are over are removed.
    for (std::size_t i = connections_.size(); i-- > 0;) {
      if (fds[i + 2].revents == 0 || advance(*connections_[i])) continue;
      connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (fds[0].revents != 0) accept_one();
    if (fds[1].revents != 0) do_orders();
  }
}

void FakeApiServer::accept_one() {
  UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) return;
  ++accepted_;
  connections_.push_back(std::make_unique<Connection>());
  connections_.back()->fd = std::move(fd);
}

bool FakeApiServer::advance(Connection& connection) {
  std::array<char, 65536> piece{};
  const ssize_t size = ::recv(connection.fd.get(), piece.data(), piece.size(), 0);
  if (size <= 0) return false;
  connection.received.append(piece.data(), static_cast<std::size_t>(size));
  while (const auto request = next_request(connection.received)) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    const ApiAnswer answer = answer_(*request);
    send_all(connection.fd.get(), answer.bytes);
    if (answer.then == ApiAnswer::Then::close) return false;
    connection.target = request->target;
    connection.held = answer.then == ApiAnswer::Then::hold;
  }
  return true;
}

void FakeApiServer::do_orders() {
  eventfd_t count = 0;
  (void)eventfd_read(wake_.get(), &count);
  std::vector<std::function<void()>> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(orders_);
  }
  for (const auto& order : orders) order();
}

}  // namespace forestall::test
