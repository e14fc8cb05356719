// SPDX-License-Identifier: Apache-2.0
// The protocol for a temporary memory.high, on plain files. vmtests/cases/file_source_cases.cc
// tests the kernel's part.
#include "kernel/memory_high.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/unique_fd.h"
#include "kernel/amount_setting.h"

#include "kernel/process_ref.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

TEST(AmountRecord, ReadsBackWhatItWrites) {
  for (const auto& record : {AmountRecord{std::nullopt, std::nullopt, mib(1), std::nullopt},
                             AmountRecord{mib(9), mib(3), mib(4), ProcessId{7, 99}}}) {
    const auto back = parse_amount_record(to_string(record));
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, record);
  }
  for (const auto* bad : {"", "max", "max max", "max max 1 2", "max -1 2", "a b c", "1 2 3 0 9",
                          "1 2 3 -4 9", "1 2 3 4 9 9", "1 2 3 4294967296 9"}) {
    EXPECT_FALSE(parse_amount_record(bad)) << bad;
  }
}

class MemoryHighFile : public ::testing::Test {
 protected:
  MemoryHighFile() {
    auto tree = CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
  }
  // A plain file keeps the tail of a longer text, unlike memory.high; all values here have the same
  // length.
  std::string high() const { return test::read_text(files_ / "a/memory.high").substr(0, 8); }
  bool recorded() const { return records_.read(id()).value().has_value(); }
  CgroupId id() const { return tree_.open("/a")->id(); }
  // A record as a killed agent leaves it.
  void leave(const std::string& text) const {
    const auto written = records_.write({id(), "/a", text});
    ASSERT_TRUE(written) << written.error().text();
  }
  std::vector<std::string> restore(bool dry_run = false) const {
    return restore_leftovers(tree_, records_, dry_run);
  }
  test::TempTree files_{{"cgroup.controllers", ""}, {"a/memory.high", "40960000"}};
  CgroupTree tree_;
  test::TempTree run_;
  SettingRecords records_{run_ / "memory-high"};
};

TEST_F(MemoryHighFile, IsRaisedAndGivesBackTheOriginal) {
  const auto cgroup = tree_.open("/a");
  ASSERT_TRUE(cgroup);
  auto held = MemoryHigh::open(*cgroup, records_);
  ASSERT_TRUE(held) << held.error().text();
  for (const Bytes lower : {Bytes{20480000}, Bytes{40960000}, Bytes{40960001}}) {
    EXPECT_EQ(held->raise(*cgroup, lower).error().code, EPERM) << "in whole pages";
  }
  EXPECT_FALSE(recorded());
  ASSERT_TRUE(held->raise(*cgroup, Bytes{81920001}));
  EXPECT_EQ(high(), "81920000");
  EXPECT_TRUE(recorded());
  ASSERT_TRUE(held->restore());
  EXPECT_EQ(high(), "40960000");
  EXPECT_FALSE(recorded());
}

// With a plain file usage never follows: after one step the original is written.
TEST_F(MemoryHighFile, FarBelowUsageItIsLoweredInSteps) {
  const auto cgroup = tree_.open("/a");
  ASSERT_TRUE(cgroup);
  files_.write("a/memory.current", "99999744");
  auto held = MemoryHigh::open(*cgroup, records_);
  ASSERT_TRUE(held) << held.error().text();
  ASSERT_TRUE(held->raise(*cgroup, Bytes{81920000}));
  const auto waits = held->restore(SystemClock().now());
  ASSERT_FALSE(waits);
  EXPECT_EQ(waits.error().code, EAGAIN);
  EXPECT_EQ(high(), "81920000") << "no time for a step";
  EXPECT_TRUE(recorded());
  const auto first = held->restore(SystemClock().now() + std::chrono::hours(1));
  EXPECT_TRUE(first) << first.error().text();
  EXPECT_EQ(high(), "40960000");
  EXPECT_FALSE(recorded());
}

TEST_F(MemoryHighFile, AStepThatSufficesIsFollowedByTheNext) {
  const auto cgroup = tree_.open("/a");
  ASSERT_TRUE(cgroup);
  files_.write("a/memory.current", "81920000");
  auto held = MemoryHigh::open(*cgroup, records_);
  ASSERT_TRUE(held) << held.error().text();
  ASSERT_TRUE(held->raise(*cgroup, Bytes{81920000}));
  ASSERT_EQ(held->restore(SystemClock().now()).error().code, EAGAIN);
  files_.write("a/memory.current", "45000000");
  EXPECT_TRUE(held->restore(SystemClock().now())) << "less than a step is left";
  EXPECT_EQ(high(), "40960000");
}

TEST_F(MemoryHighFile, ARaisedValueOfAKilledAgentIsRestored) {
  leave(to_string(AmountRecord{Bytes{40960000}, Bytes{40960000}, Bytes{81920000}, std::nullopt}));
  files_.write("a/memory.high", "81920000");
  EXPECT_EQ(restore().size(), 1U);
  EXPECT_EQ(high(), "40960000");
  EXPECT_FALSE(recorded());
}

TEST_F(MemoryHighFile, GivesBackTheOriginal) {
  const auto cgroup = tree_.open("/a");
  ASSERT_TRUE(cgroup);
  {
    auto held = MemoryHigh::open(*cgroup, records_);
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

TEST_F(MemoryHighFile, KeepsAChangeByAnotherProcess) {
  {
    auto held = MemoryHigh::open(*tree_.open("/a"), records_);
    ASSERT_TRUE(held);
    ASSERT_TRUE(held->set(Bytes{20480000}));
    files_.write("a/memory.high", "12288000");
    EXPECT_EQ(held->set(Bytes{16384000}).error().code, EBUSY);
  }
  EXPECT_EQ(high(), "12288000");
  EXPECT_FALSE(recorded());
}

// `forestall demo`, or a second agent, next to a running one.
TEST_F(MemoryHighFile, KeepsTheSettingOfALiveProcess) {
  auto held = MemoryHigh::open(*tree_.open("/a"), records_);
  ASSERT_TRUE(held);
  ASSERT_TRUE(held->set(Bytes{20480000}));
  EXPECT_THAT(restore(), testing::IsEmpty());
  EXPECT_EQ(high(), "20480000");
  EXPECT_TRUE(recorded());
}

TEST_F(MemoryHighFile, ASettingOfAnotherLivingProcessIsNotTakenOver) {
  const auto parent = read_process_id(getppid());
  ASSERT_TRUE(parent) << parent.error().text();
  const auto record = [&](ProcessId owner) {
    leave(to_string({Bytes{81920000}, Bytes{81920000}, Bytes{40960000}, owner}));
  };
  record(*parent);
  auto held = MemoryHigh::open(*tree_.open("/a"), records_);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->set(Bytes{20480000}).error().code, EBUSY);
  EXPECT_THAT(restore(), testing::IsEmpty());
  EXPECT_EQ(high(), "40960000");
  // The same pid with another start time: another process.
  record({parent->pid, parent->start_ticks + 1});
  EXPECT_EQ(restore().size(), 1u);
  EXPECT_EQ(high(), "81920000");
}

// Without a lock both find no record, and the second one records the value of the first as the
// original.
TEST_F(MemoryHighFile, OfTwoThreadsThatSetItAtATimeOneIsRefused) {
  const auto cgroup = tree_.open("/a");
  ASSERT_TRUE(cgroup);
  for (int round = 0; round < 500; ++round) {
    std::array<std::optional<MemoryHigh>, 2> holders;
    for (auto& each : holders) each.emplace(MemoryHigh::open(*cgroup, records_).value());
    std::array<bool, 2> done{};
    std::barrier both(2);
    const auto set = [&](std::size_t i) {
      both.arrive_and_wait();
      done[i] = holders[i]->set(Bytes{20480000}).ok();
    };
    std::thread other(set, 1);
    set(0);
    other.join();
    ASSERT_NE(done[0], done[1]) << "round " << round;
    for (auto& each : holders) each.reset();
    ASSERT_EQ(high(), "40960000") << "round " << round;
  }
}

// claim() of another setting keeps it between its first reading and its record, and this other one
// ends meanwhile: the value that was read is not the original.
TEST_F(MemoryHighFile, AValueThatChangesBeforeTheRecordIsNoOriginal) {
  const UniqueFd accesses(inotify_init1(IN_CLOEXEC));
  ASSERT_TRUE(accesses);
  leave("40960000 40960000 20480000");  // claim() calls back with it
  files_.write("a/memory.high", "24576000");
  auto held = MemoryHigh::open(*tree_.open("/a"), records_);
  ASSERT_TRUE(held);
  const std::string file = files_ / "a/memory.high";
  ASSERT_GE(inotify_add_watch(accesses.get(), file.c_str(), IN_ACCESS), 0);
  Result<void> done;
  std::thread setter;
  const auto other = records_.claim({id(), "/a", "unused"}, [&](std::string_view) {
    setter = std::thread([&] { done = held->set(Bytes{20480000}); });
    std::array<char, 4096> event;
    EXPECT_GT(read(accesses.get(), event.data(), event.size()), 0);
    files_.write("a/memory.high", "40960000");
    return true;
  });
  setter.join();
  EXPECT_EQ(other.error().code, EBUSY);
  EXPECT_EQ(done.error().code, EBUSY);
  EXPECT_EQ(high(), "40960000");
  EXPECT_FALSE(recorded());
}

// A record of what was not set would keep others away.
TEST_F(MemoryHighFile, AFailedFirstWriteLeavesNoRecord) {
  const UniqueFd sealed(memfd_create("memory.high", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(sealed);
  ASSERT_EQ(write(sealed.get(), "40960000", 8), 8);
  ASSERT_EQ(fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  std::filesystem::remove(files_ / "a/memory.high");
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(sealed.get()),
                                  files_ / "a/memory.high");
  auto held = MemoryHigh::open(*tree_.open("/a"), records_);
  ASSERT_TRUE(held) << held.error().text();
  EXPECT_EQ(held->set(Bytes{20480000}).error().code, EPERM);
  EXPECT_FALSE(held->current());
  EXPECT_FALSE(recorded());
}

TEST_F(MemoryHighFile, LeftoversAreUndoneOnlyWhereTheValueIsStillOurs) {
  const auto leave_at = [&](const std::string& record, const std::string& now) {
    files_.write("a/memory.high", now);
    leave(record);
  };
  leave_at("40960000 40960000 20480000", "20480000");
  EXPECT_EQ(restore().size(), 1u);
  EXPECT_EQ(high(), "40960000");
  EXPECT_FALSE(recorded());
  leave_at("40960000 20480000 24576000", "12288000");
  EXPECT_EQ(restore().size(), 1u);
  EXPECT_EQ(high(), "12288000");
  EXPECT_FALSE(recorded());
  leave_at("nonsense", "20480000");
  EXPECT_THAT(restore(), testing::ElementsAre(testing::HasSubstr("not restored")));
  EXPECT_EQ(high(), "20480000");
}

// The owner of a delegated cgroup can set user.* attributes of it.
TEST_F(MemoryHighFile, AnAttributeOfTheCgroupIsNoRecord) {
  for (const std::string forged : {"max 40960000 40960000", "max 40960000 40960000 1 1"}) {
    if (setxattr((files_ / "a").c_str(), "user.forestall.memory_high", forged.data(), forged.size(),
                 0) != 0) {
      GTEST_SKIP() << "not applicable: no user attributes on this file system; runs on ext4 and on "
                      "tmpfs since Linux 6.6";
    }
    EXPECT_THAT(restore(), testing::IsEmpty());
    EXPECT_EQ(high(), "40960000");
    auto held = MemoryHigh::open(*tree_.open("/a"), records_);
    ASSERT_TRUE(held);
    const auto set = held->set(Bytes{20480000});
    EXPECT_TRUE(set) << set.error().text();
  }
}

TEST_F(MemoryHighFile, ADryRunReportsLeftoversAndWritesNothing) {
  files_.write("a/memory.high", "20480000");
  leave("40960000 40960000 20480000");
  EXPECT_THAT(restore(/*dry_run=*/true),
              testing::ElementsAre(testing::HasSubstr("left as it is by a dry run")));
  EXPECT_EQ(high(), "20480000");
  EXPECT_TRUE(recorded());
  EXPECT_EQ(restore().size(), 1u);
  EXPECT_EQ(high(), "40960000");
}

TEST_F(MemoryHighFile, ACgroupMadeAnewAtThePathIsNotTouched) {
  files_.write("a/memory.high", "20480000");
  leave("max 40960000 20480000");
  const CgroupId before = id();
  // The old directory keeps its inode until the end of the test.
  std::filesystem::rename(files_ / "a", files_ / "b");
  files_.write("a/memory.high", "20480000");
  ASSERT_NE(id(), before);
  EXPECT_THAT(restore(), testing::IsEmpty());
  EXPECT_EQ(high(), "20480000");
  EXPECT_FALSE(records_.read(before).value());
}

// For another reason than its removal, here ENOTDIR: the record alone can restore the value.
TEST_F(MemoryHighFile, ALeftoverThatCannotBeOpenedKeepsItsRecord) {
  leave("40960000 40960000 20480000");
  const CgroupId before = id();
  std::filesystem::rename(files_ / "a", files_ / "b");
  files_.write("a", "");
  EXPECT_THAT(restore(), testing::ElementsAre(testing::HasSubstr("/a: memory.high not restored")));
  EXPECT_TRUE(records_.read(before).value());
}

TEST_F(MemoryHighFile, RecordsOfAnEarlierBootAreDeleted) {
  leave("max 40960000 40960000");
  const std::string name = "memory-high/" + std::to_string(id().inode);
  const std::string text = test::read_text(run_ / name);
  run_.write(name, "00000000" + text.substr(8));
  EXPECT_THAT(restore(), testing::IsEmpty());
  EXPECT_EQ(high(), "40960000");
  EXPECT_FALSE(std::filesystem::exists(run_ / name));
}

// As a full disk or a crash may leave it. Before, no other setting was restored either.
TEST_F(MemoryHighFile, ACutRecordIsReportedAndTheOthersAreRestored) {
  files_.write("a/memory.high", "20480000");
  leave("40960000 40960000 20480000");
  for (const std::string name : {"1", "99999999999"}) run_.write("memory-high/" + name, "");
  const std::string text = test::read_text(run_ / ("memory-high/" + std::to_string(id().inode)));
  const std::string boot = text.substr(0, text.find('\n') + 1);
  run_.write("memory-high/2", boot + "/a\n20480");
  EXPECT_THAT(restore(),
              testing::UnorderedElementsAre(testing::HasSubstr("memory-high/2 is cut; remove it"),
                                            testing::HasSubstr("/a: memory.high restored")));
  EXPECT_EQ(high(), "40960000");
}

// It would end up in the place of the value to restore.
TEST_F(MemoryHighFile, APathWithALineBreakHasNoRecord) {
  EXPECT_EQ(records_.write({id(), "/a\nmax max max", "max max 4096"}).error().code, EINVAL);
  EXPECT_THAT(records_.all().value().records, testing::IsEmpty());
}

TEST_F(MemoryHighFile, RecordsAreTheAgentsUsersOnly) {
  leave("max 40960000 40960000");
  const std::string directory = run_ / "memory-high";
  struct stat made {};
  ASSERT_EQ(stat(directory.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0700U);
  ASSERT_EQ(stat((directory + "/" + std::to_string(id().inode)).c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0600U);
  // A directory that another user could have filled.
  ASSERT_EQ(chmod(directory.c_str(), 0777), 0);
  EXPECT_THAT(restore(), testing::ElementsAre(testing::HasSubstr("other users can write to it")));
  EXPECT_EQ(high(), "40960000");
  auto held = MemoryHigh::open(*tree_.open("/a"), records_);
  ASSERT_TRUE(held);
  EXPECT_FALSE(held->set(Bytes{20480000}));
  EXPECT_EQ(high(), "40960000");
}

TEST_F(MemoryHighFile, WithoutADirectoryNothingIsSet) {
  const SettingRecords none;
  auto held = MemoryHigh::open(*tree_.open("/a"), none);
  ASSERT_TRUE(held);
  EXPECT_FALSE(held->set(Bytes{20480000}));
  EXPECT_EQ(high(), "40960000");
}

}  // namespace
}  // namespace forestall::kernel
