// SPDX-License-Identifier: Apache-2.0
#include "base/lock_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "support/temp_tree.h"

namespace forestall {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat file {};
  EXPECT_EQ(::stat(path.c_str(), &file), 0) << path;
  return file.st_mode & 07777;
}

TEST(LockFile, IsHeldByOneAndNamesItsPid) {
  const test::TempTree tree({});
  const std::string path = tree / "lock";
  {
    const auto first = lock_file(path);
    ASSERT_TRUE(first) << first.error().text();
    const auto second = lock_file(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EWOULDBLOCK);
    EXPECT_EQ(second.error().message, fmt::format("pid {}", ::getpid()));
  }
  EXPECT_TRUE(lock_file(path));
}

// flock(2) needs no more than an open file, even one opened for reading.
TEST(LockFile, OtherUsersCannotOpenIt) {
  const test::TempTree tree({{"left-0644", "7\n"}});
  ASSERT_EQ(::chmod((tree / "left-0644").c_str(), 0644), 0);
  for (const char* name : {"new", "left-0644"}) {
    const auto lock = lock_file(tree / name);
    ASSERT_TRUE(lock) << lock.error().text();
    EXPECT_EQ(mode_of(tree / name), 0600U) << name;
  }
}

TEST(LockFile, FilesOfOtherKindsAndUsersAreRefused) {
  const test::TempTree tree({{"target", ""}});
  ASSERT_EQ(::symlink((tree / "target").c_str(), (tree / "link").c_str()), 0);
  EXPECT_EQ(lock_file(tree / "link").error().code, ELOOP);
  ASSERT_EQ(::mkfifo((tree / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(lock_file(tree / "pipe").error().text(),
            tree / "pipe" + " is not a regular file; remove it");
  if (::geteuid() != 0)
    GTEST_SKIP() << "not applicable: only root can give a file away; runs as root, as in CI and in "
                    "the VM tests";
  ASSERT_EQ(::chown((tree / "target").c_str(), 65534, 65534), 0);
  EXPECT_EQ(lock_file(tree / "target").error().text(),
            tree / "target" + " belongs to uid 65534; the agent runs as uid 0; remove it");
}

}  // namespace
}  // namespace forestall
