// SPDX-License-Identifier: Apache-2.0
#include "actuators/managed_oom_marks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <cerrno>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "support/small_node.h"
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
  int add(std::int64_t number) {
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
  EXPECT_EQ(add(-42), 0);
  EXPECT_EQ(value(), "0");
  EXPECT_EQ(add(-1), EOVERFLOW);
  EXPECT_EQ(value(), "0");
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

// A cgroup that is a folder.
class ManagedOomMarkerOfAFolder : public ManagedOomMarks {
 protected:
  [[nodiscard]] ManagedOomMark mark_of(const std::string& path, std::uint64_t processes) const {
    ManagedOomMark mark;
    mark.victim.path = path;
    const auto directory = cgroups_->open(path);
    if (directory) mark.victim.cgroup = directory->id();
    mark.processes = processes;
    return mark;
  }
  [[nodiscard]] std::string attribute(const char* name) const {
    char text[64];
    const ssize_t size = ::getxattr((tree_ / "cgroup/victim").c_str(), name, text, sizeof text);
    return size < 0 ? "none" : std::string(text, static_cast<std::size_t>(size));
  }

  test::SmallNode tree_{"/victim"};
  Result<kernel::CgroupTree> cgroups_ = kernel::CgroupTree::discover(tree_ / "cgroup");
};

TEST_F(ManagedOomMarkerOfAFolder, MarksWithTheProcessesOfEachKill) {
  std::string problems;
  {
    auto marker = ManagedOomMarkerThread::start(
        *cgroups_, [&](const std::string& problem) { problems += problem; });
    ASSERT_TRUE(marker);
    (*marker)->announce(mark_of("/victim", 0).victim);
    EXPECT_EQ(attribute("user.oomd_ooms"), "1") << "before the signals";
    (*marker)->mark(mark_of("/victim", 3));
    (*marker)->announce(mark_of("/victim", 0).victim);
    (*marker)->mark(mark_of("/victim", 4));
    (*marker)->announce(mark_of("/victim", 0).victim);
    (*marker)->mark(mark_of("/victim", 0));  // this one killed nothing
    ManagedOomMark other = mark_of("/victim", 100);
    ++other.victim.cgroup.inode;
    (*marker)->mark(other);
  }
  EXPECT_EQ(attribute("user.oomd_ooms"), "2");
  EXPECT_EQ(attribute("user.oomd_kill"), "7");
  EXPECT_EQ(problems, "/victim: /victim is another cgroup now: No such file or directory");
}

// The owner of a cgroup can make the call that sets an attribute wait.
TEST_F(ManagedOomMarkerOfAFolder, AKillWaitsForNoOtherMark) {
  std::promise<void> blocked;
  std::promise<void> go_on;
  const auto caller = std::this_thread::get_id();
  std::vector<std::string> refused;
  {
    auto marker = ManagedOomMarkerThread::start(*cgroups_, [&](const std::string& problem) {
      if (std::this_thread::get_id() == caller) return refused.push_back(problem);
      blocked.set_value();
      go_on.get_future().wait();
    });
    ASSERT_TRUE(marker);
    (*marker)->mark(mark_of("/gone", 1));
    blocked.get_future().wait();
    for (std::size_t i = 0; i < ManagedOomMarkerThread::kWaitingMax; ++i) {
      (*marker)->announce(mark_of("/victim", 1).victim);
    }
    EXPECT_THAT(refused, testing::IsEmpty());
    (*marker)->mark(mark_of("/victim", 1));
    EXPECT_THAT(refused, testing::ElementsAre("/victim: not marked: too many marks wait"));
    go_on.set_value();
  }
  EXPECT_EQ(attribute("user.oomd_ooms"), std::to_string(ManagedOomMarkerThread::kWaitingMax));
}

}  // namespace
}  // namespace forestall::actuators
