// SPDX-License-Identifier: Apache-2.0
// The sole owner of a descriptor: closes once, on every path, also after a move to itself.
#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <utility>

namespace forestall {
namespace {

int make() {
  return ::eventfd(0, EFD_CLOEXEC);
}
bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(UniqueFdTest, ClosesAtTheEndOfItsLife) {
  int number = -1;
  {
    const UniqueFd fd(make());
    number = fd.get();
    ASSERT_TRUE(fd.valid());
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFdTest, AnEmptyOneOwnsNothing) {
  const UniqueFd fd;
  EXPECT_FALSE(fd);
  EXPECT_EQ(fd.get(), -1);
}

TEST(UniqueFdTest, MovingHandsOverAndEmptiesTheSource) {
  UniqueFd from(make());
  const int number = from.get();
  const UniqueFd to(std::move(from));
  EXPECT_FALSE(from.valid());  // NOLINT: under test
  EXPECT_EQ(to.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFdTest, AssignmentClosesTheOldDescriptor) {
  UniqueFd held(make());
  const int old_number = held.get();
  UniqueFd other(make());
  const int new_number = other.get();
  held = std::move(other);
  EXPECT_FALSE(is_open(old_number));
  EXPECT_EQ(held.get(), new_number);
  EXPECT_TRUE(is_open(new_number));
}

TEST(UniqueFdTest, AssigningToItselfKeepsTheDescriptor) {
  UniqueFd fd(make());
  const int number = fd.get();
  UniqueFd& same = fd;
  fd = std::move(same);
  EXPECT_EQ(fd.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFdTest, ReleaseGivesUpOwnership) {
  UniqueFd fd(make());
  const int number = fd.release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(is_open(number));
  const UniqueFd owner(number);
}

TEST(UniqueFdTest, ResetClosesAndTakesAnother) {
  UniqueFd fd(make());
  const int old_number = fd.get();
  const int next = make();
  fd.reset(next);
  EXPECT_FALSE(is_open(old_number));
  EXPECT_EQ(fd.get(), next);
  fd.reset();
  EXPECT_FALSE(is_open(next));
}

}  // namespace
}  // namespace forestall
