// SPDX-License-Identifier: Apache-2.0
#include "clients/varlink_subscription.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <utility>

#include "wire/local_socket.h"

namespace forestall::clients {
namespace {

// Of one receive(): the caller polls again for more.
constexpr std::size_t kReceivedMax = std::size_t{1} << 20U;

Result<UniqueFd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Error{ENAMETOOLONG, path};
  path.copy(address.sun_path, path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_error("socket", path);
  const auto* general = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket.get(), general, sizeof(address)) != 0) return errno_error("connect", path);
  return socket;
}

Result<UniqueFd> connect_to_first(const std::vector<std::string>& sockets) {
  Error first = error("no socket");
  for (const std::string& path : sockets) {
    auto socket = connect_to(path);
    if (socket) return socket;
    const bool is_absent = socket.error().code == ENOENT || socket.error().code == ECONNREFUSED;
    if (!is_absent) return socket.error();
    if (&path == &sockets.front()) first = socket.error();
  }
  return first;
}

}  // namespace

Result<VarlinkSubscription> VarlinkSubscription::start(const std::vector<std::string>& sockets,
                                                       std::string_view method) {
  UniqueFd socket = TRY(connect_to_first(sockets));
  if (!wire::LocalSocket::is_owners(socket.get())) {
    return error("the listener of the socket is neither root nor the agent's user");
  }
  std::string call = fmt::format(R"({{"method":"{}","more":true}})", method);
  call += '\0';
  const auto sent = ::send(socket.get(), call.data(), call.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno_error("send", method);
  if (static_cast<std::size_t>(sent) != call.size()) return error("the call was cut off");
  return VarlinkSubscription(std::move(socket));
}

Result<std::vector<std::string>> VarlinkSubscription::receive() {
  std::vector<std::string> all;
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t received = 0; received < kReceivedMax;) {
    const auto size = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0) return errno_error("receive", "replies");
    if (size == 0) {
      if (all.empty()) return error("the server closed the connection");
      break;
    }
    received += static_cast<std::size_t>(size);
    for (std::string& each : TRY(messages_.add({buffer.data(), static_cast<std::size_t>(size)}))) {
      all.push_back(std::move(each));
    }
  }
  return all;
}

}  // namespace forestall::clients
