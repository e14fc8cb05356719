// SPDX-License-Identifier: Apache-2.0
// The part of a service manager that keeps descriptors: NOTIFY_SOCKET, and LISTEN_FDS for the next
// process (sd_notify(3), sd_listen_fds(3)).
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "support/temp_tree.h"

namespace forestall::test {

// Sets NOTIFY_SOCKET of this process while it lives.
class DescriptorStore {
 public:
  DescriptorStore() : path_(place_ / "notify") {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_ ||
        ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      fail("bind the notify socket");
    }
    ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  DescriptorStore(const DescriptorStore&) = delete;
  DescriptorStore& operator=(const DescriptorStore&) = delete;
  ~DescriptorStore() { ::unsetenv("NOTIFY_SOCKET"); }

  // Takes every message that was sent. Adds and removes descriptors by name.
  void receive() {
    while (receive_one()) {
    }
  }
  // Takes messages until one contains `text`. False at the deadline.
  [[nodiscard]] bool wait_for(std::string_view text, MonotonicTime deadline) {
    found_ = false;
    for (;;) {
      wanted_ = text;
      receive();
      wanted_ = {};
      const Duration left = deadline - SystemClock().now();
      if (found_ || left <= Duration::zero()) return found_;
      pollfd ready{socket_.get(), POLLIN, 0};
      ::poll(&ready, 1, static_cast<int>(left / std::chrono::milliseconds(1)) + 1);
    }
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, fd] : kept_) names.push_back(name);
    return names;
  }
  // Messages with FDSTORE=1 and without FDPOLL=0: the service manager would remove these.
  [[nodiscard]] int polled() const { return polled_; }
  // In a forked child: passes the descriptors as to a new process of the unit. Other descriptors of
  // the same numbers are closed.
  void pass() const {
    std::string names;
    std::vector<int> high;
    for (const auto& [name, fd] : kept_) {
      names += (names.empty() ? "" : ":") + name;
      high.push_back(::fcntl(fd.get(), F_DUPFD, 200));
    }
    for (std::size_t i = 0; i < high.size(); ++i) {
      if (::dup2(high[i], 3 + static_cast<int>(i)) < 0) fail("dup2");
      ::close(high[i]);
    }
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", std::to_string(high.size()).c_str(), 1);
    ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::generic_category().message(errno));
  }

  bool receive_one() {
    std::array<char, 512> text{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (size < 0) return false;
    UniqueFd fd;
    const cmsghdr* head = CMSG_FIRSTHDR(&message);
    if (head != nullptr && head->cmsg_type == SCM_RIGHTS) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(head), sizeof(passed));
      fd.reset(passed);
    }
    take(std::string_view(text.data(), static_cast<std::size_t>(size)), std::move(fd));
    return true;
  }

  void take(std::string_view message, UniqueFd fd) {
    if (!wanted_.empty() && message.find(wanted_) != std::string_view::npos) found_ = true;
    constexpr std::string_view kName = "FDNAME=";
    const auto at = message.find(kName);
    if (at == std::string_view::npos) return;
    const auto end = message.find('\n', at);
    const std::string name(message.substr(
        at + kName.size(), end == std::string_view::npos ? end : end - at - kName.size()));
    if (message.starts_with("FDSTOREREMOVE=1\n")) {
      std::erase_if(kept_, [&](const auto& kept) { return kept.first == name; });
    } else if (message.starts_with("FDSTORE=1\n") && fd) {
      if (message.find("\nFDPOLL=0") == std::string_view::npos) ++polled_;
      kept_.emplace_back(name, std::move(fd));
    }
  }

  TempTree place_;
  std::string path_;
  UniqueFd socket_;
  std::vector<std::pair<std::string, UniqueFd>> kept_;
  int polled_ = 0;
  std::string_view wanted_;
  bool found_ = false;
};

}  // namespace forestall::test
