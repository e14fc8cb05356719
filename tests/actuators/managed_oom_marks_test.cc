// SPDX-License-Identifier: Apache-2.0
#include "actuators/managed_oom_marks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <cerrno>
#include <string>

#include "base/unique_fd.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

constexpr const char* kMark = "user.oomd_ooms";

class ManagedOomMarks : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = UniqueFd(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (::fsetxattr(directory_.get(), "user.probe", "", 0, 0) != 0 && errno == ENOTSUP) {
      GTEST_SKIP() << "not applicable: this file system has no attributes of users; "
                      "runs on this host in the stage asan";
    }
  }
  [[nodiscard]] std::string value() const {
    char text[64];
    const ssize_t size = ::fgetxattr(directory_.get(), kMark, text, sizeof text);
    return size < 0 ? "none" : std::string(text, static_cast<std::size_t>(size));
  }
  void set(const std::string& text) {
    ASSERT_EQ(::fsetxattr(directory_.get(), kMark, text.data(), text.size(), 0), 0);
  }
  // The errno; 0: it was added.
  int add(std::uint64_t number) {
    const auto added = add_to_attribute(directory_.get(), kMark, number);
    return added ? 0 : added.error().code;
  }

  test::TempTree folder_;
  UniqueFd directory_;
};

TEST_F(ManagedOomMarks, BeginAtZeroAndGrow) {
  EXPECT_EQ(add(1), 0);
  EXPECT_EQ(value(), "1");
  EXPECT_EQ(add(41), 0);
  EXPECT_EQ(value(), "42");
}

// The owner of a cgroup can set its user.* attributes.
TEST_F(ManagedOomMarks, WhatIsNoNumberIsLeftAlone) {
  for (const std::string text : {"", "-1", "1 ", "many", "18446744073709551615",
                                 "99999999999999999999999999999999999999999999999"}) {
    set(text);
    EXPECT_NE(add(1), 0) << text;
    EXPECT_EQ(value(), text);
  }
}

TEST_F(ManagedOomMarks, AnErrorNamesTheAttribute) {
  const auto added = add_to_attribute(-1, kMark, 1);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().text().find(kMark), std::string::npos);
}

}  // namespace
}  // namespace forestall::actuators
