// SPDX-License-Identifier: Apache-2.0
#include "support/http_get.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

namespace forestall::test {
namespace {

UniqueFd stream_socket() {
  return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

void use_loopback(const UniqueFd& fd, std::uint8_t last, std::uint16_t port,
                  decltype(::connect)* use) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + last);
  // The sockets interface takes the general form of an address.
  if (use(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("127.0.0." + std::to_string(last) + ":" + std::to_string(port) +
                             " is not to be had");
  }
}

}  // namespace

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd = stream_socket();
  use_loopback(fd, 1, port, ::connect);
  return fd;
}

UniqueFd connect_from(std::uint8_t last, std::uint16_t port) {
  UniqueFd fd = stream_socket();
  use_loopback(fd, last, 0, ::bind);
  use_loopback(fd, 1, port, ::connect);
  return fd;
}

UniqueFd begin_connect_from(std::uint8_t last, std::uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  use_loopback(fd, last, 0, ::bind);
  use_loopback(fd, 1, port, [](int socket, const sockaddr* address, socklen_t size) {
    const int result = ::connect(socket, address, size);
    return result != 0 && errno == EINPROGRESS ? 0 : result;
  });
  return fd;
}

std::string answer_of(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

std::string http_get(std::uint16_t port, const std::string& path, const std::string& method) {
  const UniqueFd fd = connect_to(port);
  const std::string request = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  // The server may refuse it before all is sent.
  (void)send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  return answer_of(fd.get());
}

std::string http_body(const std::string& answer) {
  const auto end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

std::uint16_t free_port() {
  const UniqueFd fd = stream_socket();
  use_loopback(fd, 1, 0, ::bind);
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace forestall::test
