// SPDX-License-Identifier: Apache-2.0
#include "daemon/user_managed_oom.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/printable.h"
#include "rulesets/managed_rulesets.h"
#include "wire/local_socket.h"

namespace forestall::daemon {
namespace {

using exports::LogLevel;
using exports::LogLine;

// Of one process(), with one receive each.
constexpr int kEventsMax = 4;
constexpr std::size_t kNotedMax = 64;
constexpr std::string_view kReply{"{\"parameters\":{}}\0", 18};

}  // namespace

Result<void> watch_fd(const UniqueFd& epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return errno_error("epoll_ctl", "managedOOM of users");
  }
  return {};
}

Result<std::unique_ptr<UserManagedOom>> UserManagedOom::start(exports::Log& log, UniqueFd listening,
                                                              OwnerOf owner_of) {
  const int flags = ::fcntl(listening.get(), F_GETFL);
  if (flags < 0 || ::fcntl(listening.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return errno_error("fcntl", "managedOOM of users");
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error("epoll_create1", "managedOOM of users");
  TRY(watch_fd(epoll, listening.get()));
  return std::unique_ptr<UserManagedOom>(
      new UserManagedOom(log, std::move(listening), std::move(epoll), std::move(owner_of)));
}

void UserManagedOom::process() {
  std::array<epoll_event, kEventsMax> events{};
  // More of them are readable still, and are next.
  const int ready = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, 0);
  for (int i = 0; i < ready; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == listening_.get()) {
      accept_client();
      continue;
    }
    const auto client = clients_.find(fd);
    if (client == clients_.end()) continue;
    const auto received = receive(client->second);
    if (received) continue;
    if (!received.error().message.empty()) note(client->second.user, received.error().text());
    clients_.erase(client);
  }
}

void UserManagedOom::accept_client() {
  UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return;  // the client left
  const auto user = wire::LocalSocket::user_of(fd.get());
  if (!user) return;
  const auto others =
      std::ranges::count_if(clients_, [&](const auto& each) { return each.second.user == *user; });
  if (clients_.size() >= kClientsMax || static_cast<std::size_t>(others) >= kClientsOfUserMax) {
    return note(*user, "too many connections");
  }
  if (const auto watched = watch_fd(epoll_, fd.get()); !watched) {
    return note(*user, watched.error().text());
  }
  const int key = fd.get();
  Client client;
  client.fd = std::move(fd);
  client.user = *user;
  clients_.insert_or_assign(key, std::move(client));
}

// An error without text: the client left.
Result<void> UserManagedOom::receive(Client& client) {
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const auto size = ::recv(client.fd.get(), buffer.data(), buffer.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (size <= 0) return error("");
  for (const std::string& each :
       TRY(client.messages.add({buffer.data(), static_cast<std::size_t>(size)}))) {
    const auto report = TRY(intake::read_managed_oom_report(each));
    TRY(apply(client.user, report));
    if (report.oneway) continue;
    const auto sent = ::send(client.fd.get(), kReply.data(), kReply.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(kReply.size())) return error("takes no replies");
  }
  return {};
}

bool UserManagedOom::may_report(uid_t user, const std::string& cgroup) const {
  if (user == 0) return true;
  const auto owner = owner_of_(cgroup);
  return owner && *owner == user;
}

// Elements before one of another owner stay applied, as in systemd-oomd.
Result<void> UserManagedOom::apply(uid_t user, const intake::ManagedOomReport& report) {
  for (const rulesets::ManagedOomElement& each : report.elements) {
    if (!rulesets::literal_pattern(each.path)) continue;
    const auto owner = user == 0 ? std::optional<uid_t>(0) : owner_of_(each.path);
    if (!owner) continue;
    if (*owner != user) {
      return error(fmt::format("reports {}, which uid {} owns", printable(each.path), *owner));
    }
    set(user, each);
  }
  return {};
}

void UserManagedOom::set(uid_t user, const rulesets::ManagedOomElement& element) {
  Elements& own = users_[user];
  const Key key(element.path, element.property);
  const auto known = own.find(key);
  if (!element.kill) {
    has_changes_ = own.erase(key) > 0 || has_changes_;
  } else if (known != own.end()) {
    has_changes_ = has_changes_ || known->second != element;
    known->second = element;
  } else if (own.size() < kElementsOfUserMax && count() < kElementsMax) {
    has_changes_ = true;
    own.emplace(key, element);
  } else {
    note(user, "reports more cgroups than are followed");
  }
}

void UserManagedOom::refresh() {
  has_changes_ = false;
  for (auto& [user, elements] : users_) {
    std::erase_if(elements, [&, user = user](const auto& each) {
      return !may_report(user, each.first.first);
    });
  }
  std::erase_if(users_, [](const auto& each) { return each.second.empty(); });
}

std::vector<ReportedElement> UserManagedOom::elements() const {
  std::vector<ReportedElement> found;
  for (const auto& [user, elements] : users_) {
    for (const auto& [key, element] : elements) {
      found.push_back({printable(element.path), element});
    }
  }
  return found;
}

std::size_t UserManagedOom::count() const {
  std::size_t all = 0;
  for (const auto& [user, elements] : users_) all += elements.size();
  return all;
}

// Once for each user: every local one can cause it.
void UserManagedOom::note(uid_t user, const std::string& problem) {
  if (noted_.size() >= kNotedMax || !noted_.insert(user).second) return;
  log_.write(LogLevel::warning,
             LogLine("managed-oom-user").field("uid", user).field("problem", problem));
}

}  // namespace forestall::daemon
