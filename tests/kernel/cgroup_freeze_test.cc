// SPDX-License-Identifier: Apache-2.0
// The protocol of a temporary freeze, on plain files. tests/integration/agent_rules_test.cc has the
// kernel's part.
#include "kernel/cgroup_freeze.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "kernel/process_ref.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CgroupFreezeFile : public ::testing::Test {
 protected:
  CgroupFreezeFile() {
    auto tree = CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
  }
  CgroupDir cgroup() const { return tree_.open("/a").value(); }
  char state() const { return test::read_text(files_ / "a/cgroup.freeze").at(0); }
  bool recorded() const { return records_.read(cgroup().id()).value().has_value(); }
  // A frozen cgroup with the record of a process.
  void leave(const std::string& owner) const {
    files_.write("a/cgroup.freeze", "1\n");
    const auto written = records_.write({cgroup().id(), "/a", owner});
    ASSERT_TRUE(written) << written.error().text();
  }

  test::TempTree files_{{"cgroup.controllers", ""}, {"a/cgroup.freeze", "0\n"}};
  CgroupTree tree_;
  test::TempTree run_;
  SettingRecords records_{run_ / "frozen"};
};

TEST_F(CgroupFreezeFile, IsThawedByTheDestructor) {
  {
    const auto frozen = CgroupFreeze::freeze(cgroup(), records_);
    ASSERT_TRUE(frozen) << frozen.error().text();
    EXPECT_EQ(state(), '1');
    EXPECT_TRUE(recorded());
  }
  EXPECT_EQ(state(), '0');
  EXPECT_FALSE(recorded());
}

TEST_F(CgroupFreezeFile, AFreezeByAnotherProcessIsLeftToIt) {
  files_.write("a/cgroup.freeze", "1\n");
  EXPECT_EQ(CgroupFreeze::freeze(cgroup(), records_).error().code, EBUSY);
  EXPECT_EQ(state(), '1');
  EXPECT_FALSE(recorded());
}

TEST_F(CgroupFreezeFile, WithoutARecordNothingIsFrozen) {
  EXPECT_FALSE(CgroupFreeze::freeze(cgroup(), SettingRecords()));
  EXPECT_EQ(state(), '0');
}

TEST_F(CgroupFreezeFile, TheNextStartThawsWhatAKilledAgentLeft) {
  leave("4194304 1");  // above every pid
  EXPECT_THAT(thaw_leftovers(tree_, records_, true), ElementsAre(HasSubstr("dry run")));
  EXPECT_EQ(state(), '1');
  EXPECT_THAT(thaw_leftovers(tree_, records_, false), ElementsAre("/a: thawed"));
  EXPECT_EQ(state(), '0');
  EXPECT_FALSE(recorded());
}

TEST_F(CgroupFreezeFile, ACutRecordDoesNotKeepACgroupFrozen) {
  leave("12");
  EXPECT_THAT(thaw_leftovers(tree_, records_, false), ElementsAre("/a: thawed"));
  EXPECT_EQ(state(), '0');
}

TEST_F(CgroupFreezeFile, TheFreezeOfARunningAgentStays) {
  const ProcessId self = read_process_id(getpid()).value();
  leave(fmt::format("{} {}", self.pid, self.start_ticks));
  EXPECT_THAT(thaw_leftovers(tree_, records_, false), IsEmpty());
  EXPECT_EQ(state(), '1');
}

TEST_F(CgroupFreezeFile, ACgroupThatCannotBeOpenedIsReportedAndKeepsItsRecord) {
  leave("4194304 1");
  const CgroupId before = cgroup().id();
  std::filesystem::rename(files_ / "a", files_ / "b");
  files_.write("a", "");
  EXPECT_THAT(thaw_leftovers(tree_, records_, false), ElementsAre(HasSubstr("/a: not thawed")));
  EXPECT_TRUE(records_.read(before).value());
}

TEST_F(CgroupFreezeFile, ACgroupMadeAgainIsNotThawed) {
  const auto written = records_.write({CgroupId{cgroup().id().inode + 1}, "/a", "4194304 1"});
  ASSERT_TRUE(written) << written.error().text();
  files_.write("a/cgroup.freeze", "1\n");
  EXPECT_THAT(thaw_leftovers(tree_, records_, false), IsEmpty());
  EXPECT_EQ(state(), '1');
}

}  // namespace
}  // namespace forestall::kernel
