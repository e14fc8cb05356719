// SPDX-License-Identifier: Apache-2.0
#include "wire/local_socket.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "support/temp_tree.h"

namespace forestall::wire {
namespace {

using testing::HasSubstr;

class LocalSocketTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return directory_ / "s"; }
  [[nodiscard]] mode_t mode() const {
    struct stat there {};
    EXPECT_EQ(::stat(path().c_str(), &there), 0);
    return there.st_mode & 0777;
  }
  [[nodiscard]] sockaddr_un address() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
  }
  [[nodiscard]] int connect_here() const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un to = address();
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 ? fd : -1;
  }
  // Whether a process of these ids is accepted; nothing: it could not connect.
  std::optional<bool> admits(const LocalSocket& socket, uid_t uid, gid_t gid,
                             std::vector<gid_t> groups = {}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgroups(groups.size(), groups.data()) != 0 || ::setgid(gid) != 0 ||
          ::setuid(uid) != 0) {
        ::_exit(2);
      }
      ::_exit(connect_here() >= 0 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), 2) << "needs root";
    if (WEXITSTATUS(status) != 0) return std::nullopt;
    const UniqueFd connection(::accept4(socket.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_EQ(LocalSocket::is_owners(connection.get()), uid == 0);
    return socket.admits(connection.get());
  }
  // Only the owner may enter the temporary directory.
  void open_directory() { ASSERT_EQ(::chmod((directory_ / "").c_str(), 0755), 0); }

  test::TempTree directory_;
};

TEST_F(LocalSocketTest, IsItsOwnersAlone) {
  open_directory();
  auto socket = LocalSocket::listen(path(), LocalUsers());
  ASSERT_TRUE(socket.ok()) << socket.error().text();
  EXPECT_EQ(mode(), 0600U);
  EXPECT_EQ(admits(*socket, 0, 0), true);
  EXPECT_EQ(admits(*socket, 65534, 65534), std::nullopt);
}

TEST_F(LocalSocketTest, AdmitsOnlyConfiguredUsers) {
  open_directory();
  auto socket = LocalSocket::listen(path(), {{1234}, {5678}});
  ASSERT_TRUE(socket.ok()) << socket.error().text();
  EXPECT_EQ(mode(), 0666U);
  EXPECT_EQ(admits(*socket, 0, 0), true);
  EXPECT_EQ(admits(*socket, 1234, 100), true);
  EXPECT_EQ(admits(*socket, 1235, 5678), true);
  EXPECT_EQ(admits(*socket, 1235, 100, {99, 5678}), true);
  EXPECT_EQ(admits(*socket, 1235, 100, {99}), false);
  EXPECT_EQ(admits(*socket, 5678, 1234), false) << "a uid is no gid";
}

// More groups than the first call has room for.
TEST_F(LocalSocketTest, AdmitsByTheLastOfManyGroups) {
  open_directory();
  auto socket = LocalSocket::listen(path(), {{}, {5678}});
  ASSERT_TRUE(socket.ok()) << socket.error().text();
  std::vector<gid_t> groups;
  for (gid_t i = 0; i < 300; ++i) groups.push_back(10'000 + i);
  EXPECT_EQ(admits(*socket, 1235, 100, groups), false);
  groups.push_back(5678);
  EXPECT_EQ(admits(*socket, 1235, 100, groups), true);
}

TEST_F(LocalSocketTest, RefusesASecondSocketWithAReason) {
  auto first = LocalSocket::listen(path(), LocalUsers());
  ASSERT_TRUE(first.ok()) << first.error().text();
  const auto second = LocalSocket::listen(path(), LocalUsers());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, EADDRINUSE);
  EXPECT_THAT(second.error().message, HasSubstr("pid " + std::to_string(::getpid())));
  EXPECT_GE(connect_here(), 0) << "the first one still listens";
}

TEST_F(LocalSocketTest, ReplacesTheSocketOfADeadProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto socket = LocalSocket::listen(path(), LocalUsers());
    ::_exit(socket.ok() ? 0 : 1);  // as after SIGKILL: nothing is cleaned up
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(::access(path().c_str(), F_OK), 0);
  EXPECT_LT(connect_here(), 0);
  const auto socket = LocalSocket::listen(path(), LocalUsers());
  ASSERT_TRUE(socket.ok()) << socket.error().text();
  EXPECT_GE(connect_here(), 0);
}

TEST_F(LocalSocketTest, KeepsForeignSocketsAndOtherFiles) {
  std::ofstream(path()) << "precious";
  const auto on_file = LocalSocket::listen(path(), LocalUsers());
  ASSERT_FALSE(on_file.ok());
  EXPECT_EQ(on_file.error().code, EEXIST);
  ASSERT_EQ(::access(path().c_str(), F_OK), 0);
  ::unlink(path().c_str());

  const UniqueFd stranger(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un here = address();
  ASSERT_EQ(::bind(stranger.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0);
  ASSERT_EQ(::listen(stranger.get(), 1), 0);
  const auto on_stranger = LocalSocket::listen(path(), LocalUsers());
  ASSERT_FALSE(on_stranger.ok());
  EXPECT_EQ(on_stranger.error().code, EADDRINUSE);
  EXPECT_THAT(on_stranger.error().message, HasSubstr("another program"));
  EXPECT_GE(connect_here(), 0);
}

TEST_F(LocalSocketTest, IsRemovedInTheEnd) {
  {
    auto socket = LocalSocket::listen(path(), LocalUsers());
    ASSERT_TRUE(socket.ok());
    const LocalSocket moved = std::move(*socket);
    EXPECT_EQ(::access(path().c_str(), F_OK), 0);
  }
  EXPECT_NE(::access(path().c_str(), F_OK), 0);
}

TEST_F(LocalSocketTest, APathThatCannotBeIsAnError) {
  EXPECT_EQ(LocalSocket::listen(directory_ / std::string(200, 'x'), {}).error().code, ENAMETOOLONG);
  EXPECT_EQ(LocalSocket::listen(directory_ / "no/such", {}).error().code, ENOENT);
}

}  // namespace
}  // namespace forestall::wire
