// SPDX-License-Identifier: Apache-2.0
#include "wire/local_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/lock_file.h"

namespace forestall::wire {
namespace {

constexpr int kBacklog = 16;

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Error{ENAMETOOLONG, path};
  path.copy(address.sun_path, path.size());
  return address;
}

// The sockets interface takes every kind of address as a generic one.
const sockaddr* general(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Result<UniqueFd> new_socket(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("socket", path);
  return fd;
}

Result<UniqueFd> take_lock(const std::string& path) {
  auto lock = lock_file(path + ".lock");
  if (lock.ok() || lock.error().code != EWOULDBLOCK) return lock;
  return Error{EADDRINUSE,
               fmt::format("another agent ({}) listens at {}", lock.error().message, path)};
}

// Removes the socket of a server that crashed. REQUIRES: the lock.
Result<void> clear_away(const std::string& path, const sockaddr_un& address) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) {
    if (errno == ENOENT) return {};
    return errno_error("stat", path);
  }
  if (!S_ISSOCK(there.st_mode)) {
    return Error{EEXIST, path + " exists and is not a socket; remove it or set apiSocket"};
  }
  // A listener here does not use our lock; a full backlog returns EAGAIN.
  const UniqueFd probe = TRY(new_socket(path));
  if (::connect(probe.get(), general(address), sizeof(address)) == 0 || errno == EAGAIN) {
    return Error{EADDRINUSE, "another program listens at " + path};
  }
  if (errno != ECONNREFUSED) return errno_error("connect", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return errno_error("unlink", path);
  return {};
}

// The process that made the connection; nothing: the kernel does not report it.
std::optional<ucred> peer_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

// Supplementary groups at connect().
std::vector<gid_t> groups_of(int connection) {
  std::vector<gid_t> groups(64);
  auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) {
    if (errno != ERANGE) return {};
    // The kernel has returned the required size.
    groups.resize(size / sizeof(gid_t));
    if (::getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) return {};
  }
  groups.resize(size / sizeof(gid_t));
  return groups;
}

bool contains(const auto& list, auto value) {
  return std::ranges::find(list, value) != list.end();
}

}  // namespace

Result<LocalSocket> LocalSocket::listen(const std::string& path, const LocalUsers& users) {
  const sockaddr_un address = TRY(address_of(path));
  UniqueFd lock = TRY(take_lock(path));
  TRY(clear_away(path, address));
  UniqueFd fd = TRY(new_socket(path));
  if (::bind(fd.get(), general(address), sizeof(address)) != 0) return errno_error("bind", path);
  // Clients cannot connect before listen(), so the mode is always correct.
  const mode_t mode = users.empty() ? 0600 : 0666;
  if (::chmod(path.c_str(), mode) != 0) return errno_error("chmod", path);
  if (::listen(fd.get(), kBacklog) != 0) return errno_error("listen", path);
  return LocalSocket(std::move(lock), std::move(fd), path, users);
}

LocalSocket::~LocalSocket() {
  if (socket_) ::unlink(path_.c_str());
}

bool LocalSocket::is_owners(int connection) {
  const auto peer = peer_of(connection);
  return peer && (peer->uid == 0 || peer->uid == ::geteuid());
}

std::optional<uid_t> LocalSocket::user_of(int connection) {
  const auto peer = peer_of(connection);
  return peer ? std::optional(peer->uid) : std::nullopt;
}

bool LocalSocket::admits(int connection) const {
  if (is_owners(connection)) return true;
  const auto peer = peer_of(connection);
  if (!peer) return false;
  if (contains(users_.uids, peer->uid)) return true;
  if (users_.gids.empty()) return false;
  if (contains(users_.gids, peer->gid)) return true;
  return std::ranges::any_of(groups_of(connection),
                             [this](gid_t group) { return contains(users_.gids, group); });
}

}  // namespace forestall::wire
