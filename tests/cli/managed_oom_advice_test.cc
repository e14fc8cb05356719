// SPDX-License-Identifier: Apache-2.0
#include "cli/managed_oom_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "support/temp_tree.h"

namespace forestall::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ManagedOomAdvice, NamesTheSourceAndWhatStandsInItsWay) {
  EXPECT_EQ(managed_oom_source_advice({false, ""}, false),
            "managedOOM: an agent in forestall.service reads the properties over D-Bus.");
  EXPECT_THAT(managed_oom_source_advice({true, ""}, false), HasSubstr("is not masked"));
  EXPECT_THAT(managed_oom_source_advice({true, "forestall"}, false),
              HasSubstr("by PID 1's varlink socket"));
  EXPECT_THAT(managed_oom_source_advice({true, "forestall"}, true), HasSubstr("over D-Bus"));
  const auto other = managed_oom_source_advice({true, "systemd-oomd\x1b"}, false);
  EXPECT_THAT(other, HasSubstr("'systemd-oomd?' runs as systemd-oomd.service and kills"));
  EXPECT_THAT(other, Not(HasSubstr("D-Bus")));
}

TEST(ManagedOomAdvice, WithoutManagedOomNamesAUnitThatWouldStopTheAgent) {
  EXPECT_EQ(systemd_oomd_advice({false, ""}), std::nullopt);
  EXPECT_EQ(systemd_oomd_advice({true, "forestall"}), std::nullopt);
  EXPECT_THAT(systemd_oomd_advice({true, ""}), testing::Optional(HasSubstr("is not masked")));
}

class SystemdOomdUnits : public ::testing::Test {
 protected:
  [[nodiscard]] bool can_start() const {
    return read_systemd_oomd(tree_.value(), {folder_ / "etc", folder_ / "lib"}).can_start;
  }

  Result<kernel::CgroupTree> tree_ = kernel::CgroupTree::discover();
  test::TempTree folder_{{"etc/", ""}, {"lib/", ""}};
};

TEST_F(SystemdOomdUnits, AMaskedOneCannotStart) {
  ASSERT_TRUE(tree_) << tree_.error().text();
  EXPECT_FALSE(can_start());
  folder_.write("lib/systemd-oomd.service", "[Service]\n");
  EXPECT_TRUE(can_start());
  const std::filesystem::path own(folder_ / "etc/systemd-oomd.service");
  std::filesystem::create_symlink("/dev/null", own);
  EXPECT_FALSE(can_start()) << "the first directory counts";
  std::filesystem::remove(own);
  std::filesystem::create_symlink("../lib/systemd-oomd.service", own);
  EXPECT_TRUE(can_start());
}

}  // namespace
}  // namespace forestall::cli
