// SPDX-License-Identifier: Apache-2.0
// A listening unix socket, and the identity of its clients.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::wire {

// Users of a socket in addition to root and the agent's own user.
struct LocalUsers {
  std::vector<uid_t> uids = {};
  std::vector<gid_t> gids = {};  // of the process, supplementary groups included

  [[nodiscard]] bool empty() const { return uids.empty() && gids.empty(); }
  friend bool operator==(const LocalUsers&, const LocalUsers&) = default;
};

class LocalSocket {
 public:
  // Listens at `path`. A lock on "<path>.lock", held during the lifetime of this object, keeps a
  // second server off the same path (EADDRINUSE, with its pid in the text); the socket of a dead
  // server is replaced. Anything else at the path is kept: EEXIST, or EADDRINUSE for a socket with
  // a listener.
  //
  // Only the owner may connect (mode 0600), unless `users` are given. Then the kernel admits every
  // process (0666), and the caller must check admits().
  static Result<LocalSocket> listen(const std::string& path, const LocalUsers& users);
  LocalSocket(LocalSocket&&) = default;
  LocalSocket& operator=(LocalSocket&&) = default;
  // Removes the socket. The lock file remains: if it were removed, two servers could each hold a
  // lock on the path.
  ~LocalSocket();

  [[nodiscard]] int fd() const { return socket_.get(); }
  // Whether the process that made this connection may use it. SO_PEERCRED and SO_PEERGROUPS are
  // those at connect(): a passed descriptor keeps its rights.
  [[nodiscard]] bool admits(int connection) const;
  // Whether the client is root or the agent's own user: these may control the agent.
  [[nodiscard]] static bool is_owners(int connection);
  // The client's user, as at connect(); nothing: unknown.
  [[nodiscard]] static std::optional<uid_t> user_of(int connection);

 private:
  LocalSocket(UniqueFd lock, UniqueFd socket, std::string path, LocalUsers users)
      : lock_(std::move(lock)),
        socket_(std::move(socket)),
        path_(std::move(path)),
        users_(std::move(users)) {}

  UniqueFd lock_;
  UniqueFd socket_;  // invalid after a move
  std::string path_;
  LocalUsers users_;
};

}  // namespace forestall::wire
