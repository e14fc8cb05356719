// SPDX-License-Identifier: Apache-2.0
// The run directory: another user that can write to it, or lock a file in it, could prevent the
// agent's next start.
#include "agent/instance_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::agent {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& directory) {
  const auto lock = InstanceLock::take(directory);
  return lock ? "none" : lock.error().text();
}

TEST(InstanceLock, CreatesTheRunDirectory) {
  const test::TempTree tree({});
  const std::string directory = tree / "a/run";
  const auto lock = InstanceLock::take(directory);
  ASSERT_TRUE(lock) << lock.error().text();
  struct stat made {};
  ASSERT_EQ(::stat(directory.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 022, 0U);
  ASSERT_EQ(::stat((directory + "/agent.lock").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0600U);
}

TEST(InstanceLock, DirectoriesThatOthersCanWriteAreRefused) {
  const test::TempTree tree({{"open/", ""}, {"group/", ""}, {"file", ""}});
  ASSERT_EQ(::chmod((tree / "open").c_str(), 01777), 0);
  ASSERT_EQ(::chmod((tree / "group").c_str(), 0770), 0);
  EXPECT_THAT(refusal(tree / "open"), HasSubstr("has mode 1777: other users can write to it"));
  EXPECT_THAT(refusal(tree / "group"), HasSubstr("has mode 0770: other users can write to it"));
  EXPECT_THAT(refusal(tree / "file"), HasSubstr("is a symbolic link or not a directory"));
}

TEST(InstanceLock, SymbolicLinksAreRefused) {
  const test::TempTree tree({{"target/", ""}});
  ASSERT_EQ(::symlink((tree / "target").c_str(), (tree / "link").c_str()), 0);
  for (const char* name : {"link", "link/"}) {
    EXPECT_THAT(refusal(tree / name), HasSubstr("is a symbolic link or not a directory")) << name;
  }
}

TEST(InstanceLock, DirectoriesOfOtherUsersAreRefused) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "not applicable: only root can give a directory away; runs as root, as in CI "
                    "and in the VM tests";
  const test::TempTree tree({{"theirs/", ""}});
  ASSERT_EQ(::chown((tree / "theirs").c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal(tree / "theirs"), HasSubstr("belongs to uid 65534; give it to uid 0"));
}

// An agent of an earlier version has left its lock with mode 0644, and a local user locks it.
TEST(InstanceLock, AnotherUserCannotHoldIt) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "not applicable: only root can become another user; runs as root, as in CI and "
                    "in the VM tests";
  const test::TempTree tree({{"agent.lock", "7\n"}});
  const std::string path = tree / "agent.lock";
  ASSERT_EQ(::chmod(tree.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  { ASSERT_EQ(refusal(tree.path()), "none"); }
  test::Child user([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 2;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    return fd < 0 && errno == EACCES ? 0 : 1;
  });
  ASSERT_TRUE(user.wait_exit());
  const int status = user.reap();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(refusal(tree.path()), "none");
}

}  // namespace
}  // namespace forestall::agent
