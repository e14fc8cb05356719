// SPDX-License-Identifier: Apache-2.0
// Which directories of pins are used.
#include "kernel/pin_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "scratch_bpffs.h"
#include "support/temp_tree.h"

namespace forestall::test::pin_directory_test {
namespace {

using kernel::PinDirectory;
using ::testing::HasSubstr;

class PinDirectoryTest : public ::testing::Test {
 protected:
  ScratchBpffs bpffs_;
};

TEST_F(PinDirectoryTest, ADirectoryThatOthersMayWriteIsRefused) {
  ASSERT_EQ(::chmod(bpffs_.pins().c_str(), 0770), 0);
  const auto pins = PinDirectory::open(bpffs_.pins());
  ASSERT_FALSE(pins.ok());
  EXPECT_THAT(pins.error().text(), HasSubstr("has mode 0770: other users can write to it"));
}

TEST_F(PinDirectoryTest, ADirectoryOfAnotherUserIsRefused) {
  ASSERT_EQ(::chown(bpffs_.pins().c_str(), 12345, 0), 0);
  const auto pins = PinDirectory::open(bpffs_.pins());
  ASSERT_FALSE(pins.ok());
  EXPECT_THAT(pins.error().text(), HasSubstr("belongs to uid 12345"));
}

TEST_F(PinDirectoryTest, ADirectoryOutsideOfABpffsIsRefused) {
  const TempTree place{{"pins/", ""}};
  const auto pins = PinDirectory::open(place / "pins");
  ASSERT_FALSE(pins.ok());
  EXPECT_THAT(pins.error().text(), HasSubstr("is not on a bpffs"));
}

TEST_F(PinDirectoryTest, ASymbolicLinkIsRefused) {
  const TempTree place;
  const std::string link = place / "link";
  ASSERT_EQ(::symlink(bpffs_.pins().c_str(), link.c_str()), 0);
  const auto pins = PinDirectory::open(link);
  ASSERT_FALSE(pins.ok());
  EXPECT_THAT(pins.error().text(), HasSubstr("is a symbolic link or not a directory"));
}

}  // namespace
}  // namespace forestall::test::pin_directory_test
