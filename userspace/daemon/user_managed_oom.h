// SPDX-License-Identifier: Apache-2.0
// The ManagedOOM properties of users' units, which the managers of users report to the socket of
// systemd-oomd. A user may report own cgroups only.
//
// Every local user can connect: a client, a user and all users together have bounds. What a user
// reports concerns own cgroups only; PID 1's rule for one of them holds.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "clients/varlink_messages.h"
#include "daemon/managed_oom_source.h"
#include "exports/log.h"
#include "intake/managed_oom_report.h"

namespace forestall::daemon {

// Adds the descriptor to an epoll instance, for reading.
[[nodiscard]] Result<void> watch_fd(const UniqueFd& epoll, int fd);

// Thread rule: one thread. Never waits.
class UserManagedOom {
 public:
  static constexpr std::size_t kReportBytesMax = std::size_t{128} << 10U;
  static constexpr std::size_t kClientsMax = 128;
  static constexpr std::size_t kClientsOfUserMax = 2;
  // Elements with the mode kill.
  static constexpr std::size_t kElementsMax = 1024;
  static constexpr std::size_t kElementsOfUserMax = 128;

  // Owner of the cgroup's directory; nothing: it cannot be read.
  using OwnerOf = std::function<std::optional<uid_t>(const std::string& cgroup)>;

  // `log` outlives it. `listening`: of the socket unit.
  static Result<std::unique_ptr<UserManagedOom>> start(exports::Log& log, UniqueFd listening,
                                                       OwnerOf owner_of);
  UserManagedOom(const UserManagedOom&) = delete;
  UserManagedOom& operator=(const UserManagedOom&) = delete;

  // Polls readable while process() has something to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  // A bounded part of what came.
  void process();
  // Since refresh().
  [[nodiscard]] bool has_changes() const { return has_changes_; }
  // Drops elements whose cgroup is not the user's any more.
  void refresh();
  [[nodiscard]] std::vector<ReportedElement> elements() const;

 private:
  using Key = std::pair<std::string, rulesets::ManagedOomProperty>;
  using Elements = std::map<Key, rulesets::ManagedOomElement>;
  struct Client {
    UniqueFd fd;
    uid_t user = 0;
    clients::VarlinkMessages messages{kReportBytesMax};
  };

  UserManagedOom(exports::Log& log, UniqueFd listening, UniqueFd epoll, OwnerOf owner_of)
      : log_(log),
        listening_(std::move(listening)),
        epoll_(std::move(epoll)),
        owner_of_(std::move(owner_of)) {}

  void accept_client();
  [[nodiscard]] Result<void> receive(Client& client);
  [[nodiscard]] Result<void> apply(uid_t user, const intake::ManagedOomReport& report);
  void set(uid_t user, const rulesets::ManagedOomElement& element);
  [[nodiscard]] bool may_report(uid_t user, const std::string& cgroup) const;
  [[nodiscard]] std::size_t count() const;
  void note(uid_t user, const std::string& problem);

  exports::Log& log_;
  const UniqueFd listening_;
  const UniqueFd epoll_;
  const OwnerOf owner_of_;
  std::map<int, Client> clients_;  // by descriptor
  std::map<uid_t, Elements> users_;
  std::set<uid_t> noted_;  // users with a line in the log
  bool has_changes_ = false;
};

}  // namespace forestall::daemon
