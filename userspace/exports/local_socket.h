// SPDX-License-Identifier: Apache-2.0
// A listening socket in the file system, and who is at the other end of a connection to it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::exports {

// Who may use a socket besides root and the user the agent runs as.
struct LocalUsers {
  std::vector<uid_t> uids = {};
  std::vector<gid_t> gids = {};  // of the process, supplementary ones too

  [[nodiscard]] bool empty() const { return uids.empty() && gids.empty(); }
  friend bool operator==(const LocalUsers&, const LocalUsers&) = default;
};

class LocalSocket {
 public:
  // Listens at `path`. A lock on "<path>.lock", held as long as this lives, keeps a second server
  // from the same path (EADDRINUSE, with its pid in words); what a dead one left there is replaced.
  // Anything at the path but a socket that nobody listens at is left alone: EEXIST, or EADDRINUSE.
  //
  // Nobody may connect but the owner (mode 0600), unless others are named: then the kernel lets
  // everybody (0666), and admits() has to be asked.
  static Result<LocalSocket> listen(const std::string& path, const LocalUsers& users);
  LocalSocket(LocalSocket&&) = default;
  LocalSocket& operator=(LocalSocket&&) = default;
  // Removes the socket; the lock file stays, because removing it would let two servers hold two.
  ~LocalSocket();

  [[nodiscard]] int fd() const { return socket_.get(); }
  // Whether the process that made this connection may use it (SO_PEERCRED and SO_PEERGROUPS, taken
  // when it connected: whoever passes a descriptor on passes the right on, too).
  [[nodiscard]] bool admits(int connection) const;
  // Whether it is root's, or of the user the agent runs as: who may do what the agent may.
  [[nodiscard]] static bool is_owners(int connection);

 private:
  LocalSocket(UniqueFd lock, UniqueFd socket, std::string path, LocalUsers users)
      : lock_(std::move(lock)),
        socket_(std::move(socket)),
        path_(std::move(path)),
        users_(std::move(users)) {}

  UniqueFd lock_;
  UniqueFd socket_;  // invalid: moved from
  std::string path_;
  LocalUsers users_;
};

}  // namespace forestall::exports
