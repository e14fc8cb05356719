// SPDX-License-Identifier: Apache-2.0
// The manager of a user, at the socket of systemd-oomd.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace forestall::test {

// Needs root. Calls wait.
class UserReporter {
 public:
  // Connects as that user to what listens at `path`.
  UserReporter(const std::string& path, uid_t user) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connect(address, sizeof(address), user);
  }
  UserReporter(const UniqueFd& listening, uid_t user) {
    sockaddr_un address{};
    socklen_t size = sizeof(address);
    ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size);
    connect(address, size, user);
  }

  // An element of a report, in JSON.
  static std::string pressure_of(const std::string& cgroup, const std::string& mode,
                                 std::uint32_t limit) {
    return fmt::format(
        R"({{"mode":"{}","path":"{}","property":"ManagedOOMMemoryPressure","limit":{}}})", mode,
        cgroup, limit);
  }
  // `elements` in JSON, with commas between them.
  void report(const std::string& elements) const {
    send(R"({"method":"io.systemd.oom.ReportManagedOOMCGroups","oneway":true,)"
         R"("parameters":{"cgroups":[)" +
         elements + "]}}" + '\0');
  }
  void send(const std::string& bytes) const {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Empty: the connection is closed.
  [[nodiscard]] std::string reply() const {
    std::string text(1024, '\0');
    const auto size = ::recv(socket_.get(), text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }
  // REQUIRES: no reply has come.
  [[nodiscard]] bool is_open() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT) < 0;
  }

 private:
  // The server has the user of this thread at connect(). The C library's setresuid() would
  // change all threads.
  void connect(const sockaddr_un& address, socklen_t size, uid_t user) {
    EXPECT_EQ(::syscall(SYS_setresuid, -1, user, -1), 0);
    const int failed = ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size);
    EXPECT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
    EXPECT_EQ(failed, 0);
  }

  UniqueFd socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

}  // namespace forestall::test
