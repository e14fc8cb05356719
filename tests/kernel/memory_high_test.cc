// SPDX-License-Identifier: Apache-2.0
// The protocol of borrowing memory.high, on plain files; the kernel's part in it is shown by
// vmtests/cases/file_source_cases.cc. The file system of the temporary directory must hold user
// extended attributes, as cgroup2 does.
#include "kernel/memory_high.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "kernel/process_ref.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

TEST(MemoryHighRecord, ReadsBackWhatItWrites) {
  for (const auto& record : {MemoryHighRecord{std::nullopt, std::nullopt, mib(1), std::nullopt},
                             MemoryHighRecord{mib(9), mib(3), mib(4), ProcessId{7, 99}}}) {
    const auto back = parse_memory_high_record(to_string(record));
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, record);
  }
  for (const auto* bad : {"", "max", "max max", "max max 1 2", "max -1 2", "a b c", "1 2 3 0 9",
                          "1 2 3 -4 9", "1 2 3 4 9 9", "1 2 3 4294967296 9"}) {
    EXPECT_FALSE(parse_memory_high_record(bad)) << bad;
  }
}

class MemoryHighFile : public ::testing::Test {
 protected:
  MemoryHighFile() {
    auto tree = CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
  }
  // A plain file keeps the tail of a longer text, which memory.high does not; all values here have
  // the same length.
  std::string high() const { return test::read_text(files_ / "a/memory.high").substr(0, 8); }
  bool recorded() const {
    char text[128];
    return getxattr((files_ / "a").c_str(), "user.forestall.memory_high", text, sizeof(text)) > 0;
  }
  test::TempTree files_{{"cgroup.controllers", ""}, {"a/memory.high", "40960000"}};
  CgroupTree tree_;
};

TEST_F(MemoryHighFile, GivesBackTheOriginal) {
  const auto cgroup = tree_.open("/a");
  ASSERT_TRUE(cgroup);
  {
    auto held = MemoryHigh::open(*cgroup);
    ASSERT_TRUE(held) << held.error().text();
    EXPECT_EQ(held->original(), Bytes{40960000});
    const auto set = held->set(Bytes{20480001});
    ASSERT_TRUE(set) << set.error().text();
    EXPECT_EQ(high(), "20480000") << "rounded down to a page";
    EXPECT_TRUE(recorded());
    EXPECT_EQ(held->set(Bytes{81920000}).error().code, EPERM) << "never raised";
  }
  EXPECT_EQ(high(), "40960000");
  EXPECT_FALSE(recorded());
}

TEST_F(MemoryHighFile, SomebodyElsesChangeStays) {
  {
    auto held = MemoryHigh::open(*tree_.open("/a"));
    ASSERT_TRUE(held);
    ASSERT_TRUE(held->set(Bytes{20480000}));
    files_.write("a/memory.high", "12288000");
    EXPECT_EQ(held->set(Bytes{16384000}).error().code, EBUSY);
  }
  EXPECT_EQ(high(), "12288000");
  EXPECT_FALSE(recorded());
}

// `forestall demo`, or a second agent, beside one that runs.
TEST_F(MemoryHighFile, WhatALivingProcessHasSetIsNotUndone) {
  auto held = MemoryHigh::open(*tree_.open("/a"));
  ASSERT_TRUE(held);
  ASSERT_TRUE(held->set(Bytes{20480000}));
  EXPECT_THAT(restore_leftovers(tree_), testing::IsEmpty());
  EXPECT_EQ(high(), "20480000");
  EXPECT_TRUE(recorded());
}

TEST_F(MemoryHighFile, ASettingOfAnotherLivingProcessIsNotTakenOver) {
  const auto parent = read_process_id(getppid());
  ASSERT_TRUE(parent) << parent.error().text();
  const auto record = [&](ProcessId owner) {
    const auto text = to_string({Bytes{81920000}, Bytes{81920000}, Bytes{40960000}, owner});
    ASSERT_EQ(
        setxattr((files_ / "a").c_str(), "user.forestall.memory_high", text.data(), text.size(), 0),
        0);
  };
  record(*parent);
  auto held = MemoryHigh::open(*tree_.open("/a"));
  ASSERT_TRUE(held);
  EXPECT_EQ(held->set(Bytes{20480000}).error().code, EBUSY);
  EXPECT_THAT(restore_leftovers(tree_), testing::IsEmpty());
  EXPECT_EQ(high(), "40960000");
  // The same pid, started at another time: another process.
  record({parent->pid, parent->start_ticks + 1});
  EXPECT_EQ(restore_leftovers(tree_).size(), 1u);
  EXPECT_EQ(high(), "81920000");
}

TEST_F(MemoryHighFile, LeftoversAreUndoneOnlyWhereTheValueIsStillOurs) {
  const auto leave = [&](const std::string& record, const std::string& now) {
    files_.write("a/memory.high", now);
    ASSERT_EQ(setxattr((files_ / "a").c_str(), "user.forestall.memory_high", record.data(),
                       record.size(), 0),
              0);
  };
  leave("40960000 40960000 20480000", "20480000");
  EXPECT_EQ(restore_leftovers(tree_).size(), 1u);
  EXPECT_EQ(high(), "40960000");
  EXPECT_FALSE(recorded());
  leave("40960000 20480000 24576000", "12288000");
  EXPECT_EQ(restore_leftovers(tree_).size(), 1u);
  EXPECT_EQ(high(), "12288000");
  EXPECT_FALSE(recorded());
  leave("nonsense", "20480000");
  EXPECT_THAT(restore_leftovers(tree_), testing::ElementsAre(testing::HasSubstr("not restored")));
  EXPECT_EQ(high(), "20480000");
}

}  // namespace
}  // namespace forestall::kernel
