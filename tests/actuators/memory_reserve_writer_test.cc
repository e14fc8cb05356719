// SPDX-License-Identifier: Apache-2.0
// Which values of memory.min and memory.low are written, restored, adopted and left, on plain
// files.
#include "actuators/memory_reserve_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "kernel/process_ref.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

MonotonicTime at_minute(int n) {
  return MonotonicTime(std::chrono::minutes(n));
}

// A plain file keeps the tail of a longer text, unlike a control file: all values have 8 digits.
constexpr Bytes kBefore{10'002'432};
constexpr Bytes kFirst{20'000'768};
constexpr Bytes kSecond{30'003'200};

class MemoryReserveWriterFiles : public ::testing::Test {
 protected:
  MemoryReserveWriterFiles() {
    auto tree = kernel::CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
    for (const std::string path : {"/p", "/p/a", "/p/a/c"}) {
      set(path, MemoryQosFile::min, kBefore);
      set(path, MemoryQosFile::low, kBefore);
    }
    start();
  }
  void start() { writer_.emplace(tree_, MemoryReserveWriter::Records{min_, low_}); }
  // What SIGKILL leaves: the values, and records of a process that is gone.
  void kill_agent() {
    const auto values = std::pair(present("/p"), present("/p/a"));
    std::vector<kernel::SettingRecords::SavedSetting> records = min_.all().value().records;
    writer_.reset();
    set("/p", MemoryQosFile::min, values.first);
    set("/p/a", MemoryQosFile::min, values.second);
    for (auto& each : records) {
      auto record = kernel::parse_amount_record(each.text).value();
      ++record.owner->start_ticks;  // the same pid, another process
      each.text = to_string(record);
      ASSERT_TRUE(min_.write(each));
    }
    start();
  }
  void set(const std::string& path, MemoryQosFile file, Bytes value) const {
    files_.write(path.substr(1) + "/" + to_string(file), std::to_string(value.count));
  }
  [[nodiscard]] Bytes present(const std::string& path,
                              MemoryQosFile file = MemoryQosFile::min) const {
    return {std::stoll(test::read_text(files_ / (path.substr(1) + "/" + to_string(file))))};
  }
  [[nodiscard]] CgroupId id(const std::string& path) const { return tree_.id_at(path).value(); }
  [[nodiscard]] MemoryReserve reserve(const std::string& path, Bytes value,
                                      MemoryQosFile file = MemoryQosFile::min) const {
    return {path, id(path), file, value};
  }
  [[nodiscard]] ReserveOutcome outcome(const std::string& path) const {
    const auto* found = writer_->outcome(id(path), MemoryQosFile::min);
    return found == nullptr ? ReserveOutcome{MemoryQosState::failed, "not wanted"} : *found;
  }
  [[nodiscard]] bool is_recorded(const std::string& path) const {
    return min_.read(id(path)).value().has_value();
  }
  // The cgroups whose memory.min was written, in this order.
  template <typename Act>
  std::vector<std::string> writes_of(Act act) const {
    const UniqueFd queue(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    std::vector<std::pair<int, std::string>> watches;
    for (const std::string path : {"p", "p/a", "p/a/c"}) {
      watches.emplace_back(
          inotify_add_watch(queue.get(), (files_ / (path + "/memory.min")).c_str(), IN_MODIFY),
          path);
    }
    act();
    alignas(inotify_event) std::array<char, 4096> buffer{};
    std::vector<std::string> order;
    for (ssize_t length = 0; (length = read(queue.get(), buffer.data(), buffer.size())) > 0;) {
      for (ssize_t at = 0; at < length;) {
        inotify_event event{};
        std::memcpy(&event, buffer.data() + at, sizeof event);
        for (const auto& [watch, path] : watches) {
          if (watch == event.wd) order.push_back(path);
        }
        at += static_cast<ssize_t>(sizeof event + event.len);
      }
    }
    return order;
  }

  test::TempTree files_{{"cgroup.controllers", ""}};
  kernel::CgroupTree tree_;
  test::TempTree run_;
  kernel::SettingRecords min_{run_ / "memory-min"};
  kernel::SettingRecords low_{run_ / "memory-low"};
  std::optional<MemoryReserveWriter> writer_;
};

TEST_F(MemoryReserveWriterFiles, WritesWhatIsWantedAndRestoresItAtItsEnd) {
  writer_->apply({reserve("/p", kFirst), reserve("/p/a", kFirst, MemoryQosFile::low)},
                 at_minute(1));
  EXPECT_EQ(outcome("/p"), (ReserveOutcome{MemoryQosState::written}));
  EXPECT_EQ(present("/p"), kFirst);
  EXPECT_EQ(present("/p/a"), kBefore) << "memory.min is another file";
  EXPECT_EQ(present("/p/a", MemoryQosFile::low), kFirst);
  EXPECT_TRUE(is_recorded("/p"));
  writer_.reset();
  EXPECT_EQ(present("/p"), kBefore);
  EXPECT_EQ(present("/p/a", MemoryQosFile::low), kBefore);
  EXPECT_FALSE(is_recorded("/p"));
  EXPECT_THAT(low_.all().value().records, IsEmpty());
}

TEST_F(MemoryReserveWriterFiles, WhatIsNotPlannedAnyMoreIsRestored) {
  writer_->apply({reserve("/p", kFirst), reserve("/p/a", kFirst)}, at_minute(1));
  writer_->apply({reserve("/p", kSecond)}, at_minute(2));
  EXPECT_EQ(present("/p"), kSecond);
  EXPECT_EQ(present("/p/a"), kBefore);
  EXPECT_FALSE(is_recorded("/p/a"));
  writer_.reset();
  EXPECT_EQ(present("/p"), kBefore) << "not the value in between";
}

// No child is promised what its parent does not have.
TEST_F(MemoryReserveWriterFiles, RaisesFromTheRootDownAndLowersFromTheLeavesUp) {
  const auto all = [&](Bytes value) {
    return std::vector{reserve("/p/a", value), reserve("/p/a/c", value), reserve("/p", value)};
  };
  EXPECT_THAT(writes_of([&] { writer_->apply(all(kSecond), at_minute(1)); }),
              ElementsAre("p", "p/a", "p/a/c"));
  EXPECT_THAT(writes_of([&] { writer_->apply(all(kFirst), at_minute(2)); }),
              ElementsAre("p/a/c", "p/a", "p"));
  EXPECT_THAT(writes_of([&] { writer_->apply(all(kFirst), at_minute(3)); }), IsEmpty());
  EXPECT_THAT(writes_of([&] { writer_.reset(); }), ElementsAre("p/a/c", "p/a", "p"));
}

TEST_F(MemoryReserveWriterFiles, AValueThatIsPresentAlreadyIsNotTheAgents) {
  set("/p", MemoryQosFile::min, kFirst);
  writer_->apply({reserve("/p", kFirst)}, at_minute(1));
  EXPECT_EQ(outcome("/p").state, MemoryQosState::equal);
  EXPECT_FALSE(is_recorded("/p"));
  writer_.reset();
  EXPECT_EQ(present("/p"), kFirst);
}

TEST_F(MemoryReserveWriterFiles, AValueOfAnotherProcessIsLeftUntilItIsNotWanted) {
  writer_->apply({reserve("/p", kFirst)}, at_minute(1));
  set("/p", MemoryQosFile::min, kSecond);
  for (int minute = 2; minute < 5; ++minute) {
    writer_->apply({reserve("/p", kFirst)}, at_minute(minute));
    EXPECT_EQ(outcome("/p"),
              (ReserveOutcome{MemoryQosState::left, "another process has written it since"}));
    EXPECT_EQ(present("/p"), kSecond);
    EXPECT_FALSE(is_recorded("/p"));
  }
  writer_->apply({}, at_minute(6));
  EXPECT_EQ(present("/p"), kSecond);
}

// systemd's daemon-reload writes what its unit has.
TEST_F(MemoryReserveWriterFiles, AResetValueIsWrittenAgainSixTimesAnHour) {
  writer_->apply({reserve("/p", kFirst)}, at_minute(0));
  for (int minute = 1; minute <= 6; ++minute) {
    set("/p", MemoryQosFile::min, kBefore);
    writer_->apply({reserve("/p", kFirst)}, at_minute(minute));
    EXPECT_EQ(present("/p"), kFirst) << minute;
  }
  EXPECT_EQ(writer_->rewrites(), 6U);
  set("/p", MemoryQosFile::min, kBefore);
  writer_->apply({reserve("/p", kFirst)}, at_minute(60));
  EXPECT_EQ(present("/p"), kBefore);
  EXPECT_EQ(outcome("/p").state, MemoryQosState::left);
  EXPECT_THAT(outcome("/p").reason, HasSubstr("another process resets it"));
  writer_->apply({reserve("/p", kFirst)}, at_minute(61));
  EXPECT_EQ(present("/p"), kFirst) << "an hour after the first of the six";
}

// A workload that is resized often is not one that another process resets.
TEST_F(MemoryReserveWriterFiles, AChangeFromTheOriginalByTheAgentIsNoRewrite) {
  for (int minute = 0; minute < 10; ++minute) {
    writer_->apply({reserve("/p", kFirst)}, at_minute(4 * minute));
    writer_->apply({reserve("/p", kBefore)}, at_minute(4 * minute + 1));
    EXPECT_EQ(present("/p"), kBefore);
  }
  writer_->apply({reserve("/p", kFirst)}, at_minute(41));
  EXPECT_EQ(present("/p"), kFirst);
  EXPECT_EQ(outcome("/p").state, MemoryQosState::written);
  EXPECT_EQ(writer_->rewrites(), 0U);
}

TEST_F(MemoryReserveWriterFiles, AKilledAgentsValuesAreAdoptedWithoutAGap) {
  const std::vector wanted{reserve("/p", kFirst), reserve("/p/a", kFirst)};
  writer_->apply(wanted, at_minute(1));
  kill_agent();
  EXPECT_THAT(writer_->adopt(at_minute(2)), IsEmpty());
  EXPECT_THAT(writes_of([&] { writer_->apply(wanted, at_minute(2)); }), IsEmpty());
  EXPECT_EQ(outcome("/p").state, MemoryQosState::written);
  writer_.reset();
  EXPECT_EQ(present("/p"), kBefore) << "the original of the killed agent";
  EXPECT_EQ(present("/p/a"), kBefore);
  EXPECT_FALSE(is_recorded("/p"));
}

TEST_F(MemoryReserveWriterFiles, WhatIsAdoptedAndNotWantedIsRestored) {
  writer_->apply({reserve("/p", kFirst), reserve("/p/a", kFirst)}, at_minute(1));
  kill_agent();
  EXPECT_THAT(writer_->adopt(at_minute(2)), IsEmpty());
  writer_->apply({reserve("/p", kSecond)}, at_minute(2));
  EXPECT_EQ(present("/p"), kSecond);
  EXPECT_EQ(present("/p/a"), kBefore);
}

// The facts of pods come after the start.
TEST_F(MemoryReserveWriterFiles, AdoptedValuesAreKeptForAMinuteWhileFactsAreMissing) {
  writer_->apply({reserve("/p", kSecond), reserve("/p/a", kFirst)}, at_minute(1));
  kill_agent();
  EXPECT_THAT(writer_->adopt(at_minute(2)), IsEmpty());
  const auto in_grace = at_minute(3) - std::chrono::seconds(1);
  writer_->apply({reserve("/p", kFirst)}, in_grace, /*facts_missing=*/true);
  EXPECT_EQ(present("/p"), kSecond) << "not lowered by the pods that are known so far";
  EXPECT_EQ(outcome("/p").state, MemoryQosState::written);
  EXPECT_EQ(present("/p/a"), kFirst);
  writer_->apply({reserve("/p", kFirst)}, at_minute(3), /*facts_missing=*/true);
  EXPECT_EQ(present("/p"), kFirst);
  EXPECT_EQ(present("/p/a"), kBefore);
}

TEST_F(MemoryReserveWriterFiles, AnotherProcessesValueIsNotAdopted) {
  writer_->apply({reserve("/p", kFirst)}, at_minute(1));
  kill_agent();
  set("/p", MemoryQosFile::min, kSecond);
  EXPECT_THAT(writer_->adopt(at_minute(2)), IsEmpty());
  writer_->apply({reserve("/p", kFirst)}, at_minute(2));
  EXPECT_EQ(outcome("/p").state, MemoryQosState::left);
  EXPECT_EQ(present("/p"), kSecond);
  EXPECT_FALSE(is_recorded("/p"));
}

TEST_F(MemoryReserveWriterFiles, TheValueOfARunningAgentIsNotAdopted) {
  const auto parent = kernel::read_process_id(getppid());
  ASSERT_TRUE(parent) << parent.error().text();
  set("/p", MemoryQosFile::min, kFirst);
  ASSERT_TRUE(min_.write(
      {id("/p"), "/p", to_string(kernel::AmountRecord{kBefore, kBefore, kFirst, *parent})}));
  EXPECT_THAT(writer_->adopt(at_minute(1)), ElementsAre(HasSubstr("another agent")));
  writer_->apply({}, at_minute(1));
  EXPECT_EQ(present("/p"), kFirst);
  EXPECT_TRUE(is_recorded("/p"));
}

// What the file has is the dead agent's value, which must not become the original.
TEST_F(MemoryReserveWriterFiles, AFileWhoseRecordIsNotTakenOverIsLeftUntilItIs) {
  writer_->apply({reserve("/p", kFirst)}, at_minute(1));
  kill_agent();
  const std::string record = run_ / ("memory-min/" + std::to_string(id("/p").inode));
  const std::string whole = test::read_text(record);
  ASSERT_FALSE(whole.empty());
  std::ofstream(record, std::ios::trunc) << whole.substr(0, whole.find('\n') + 1);
  EXPECT_THAT(writer_->adopt(at_minute(2)), ElementsAre(HasSubstr("is cut")));
  writer_->apply({reserve("/p", kSecond), reserve("/p/a", kSecond)}, at_minute(2));
  EXPECT_EQ(outcome("/p").state, MemoryQosState::left);
  EXPECT_THAT(outcome("/p").reason, HasSubstr("its record could not be taken over"));
  EXPECT_EQ(present("/p"), kFirst);
  EXPECT_EQ(outcome("/p/a").state, MemoryQosState::written) << "the others are written";

  std::ofstream(record, std::ios::trunc) << whole;
  writer_->apply({reserve("/p", kSecond), reserve("/p/a", kSecond)}, at_minute(3));
  EXPECT_EQ(outcome("/p").state, MemoryQosState::written);
  EXPECT_EQ(present("/p"), kSecond);
  writer_.reset();
  EXPECT_EQ(present("/p"), kBefore) << "the original of the killed agent";
  EXPECT_EQ(present("/p/a"), kBefore);
}

TEST_F(MemoryReserveWriterFiles, TheRecordOfARunningAgentIsNotReplaced) {
  const auto parent = kernel::read_process_id(getppid());
  ASSERT_TRUE(parent) << parent.error().text();
  set("/p", MemoryQosFile::min, kFirst);
  const auto record = to_string(kernel::AmountRecord{kBefore, kBefore, kFirst, *parent});
  ASSERT_TRUE(min_.write({id("/p"), "/p", record}));
  EXPECT_THAT(writer_->adopt(at_minute(1)), ElementsAre(HasSubstr("another agent")));
  writer_->apply({reserve("/p", kSecond)}, at_minute(1));
  EXPECT_EQ(outcome("/p"),
            (ReserveOutcome{MemoryQosState::left, "its record could not be taken over"}));
  EXPECT_EQ(present("/p"), kFirst);
  EXPECT_EQ(min_.read(id("/p")).value(), record);
}

// Also if no other value is wanted any more.
TEST_F(MemoryReserveWriterFiles, WhatIsTakenOverLaterIsRestored) {
  writer_->apply({reserve("/p", kFirst)}, at_minute(1));
  kill_agent();
  std::filesystem::permissions(run_ / "memory-min", std::filesystem::perms::all);
  EXPECT_THAT(writer_->adopt(at_minute(2)), ElementsAre(HasSubstr("other users can write")));
  writer_->apply({}, at_minute(2));
  EXPECT_EQ(present("/p"), kFirst);
  std::filesystem::permissions(run_ / "memory-min", std::filesystem::perms::owner_all);
  writer_->apply({}, at_minute(3));
  EXPECT_EQ(present("/p"), kBefore);
  EXPECT_FALSE(is_recorded("/p"));
}

TEST_F(MemoryReserveWriterFiles, ACgroupMadeAnewAtThePathIsNotTouched) {
  const auto wanted = reserve("/p/a", kFirst);
  writer_->apply({wanted}, at_minute(1));
  // The old directory keeps its inode until the end of the test.
  std::filesystem::rename(files_ / "p/a", files_ / "old");
  set("/p/a", MemoryQosFile::min, kFirst);
  writer_->apply({wanted}, at_minute(2));
  ASSERT_NE(writer_->outcome(wanted.cgroup, MemoryQosFile::min), nullptr);
  EXPECT_EQ(writer_->outcome(wanted.cgroup, MemoryQosFile::min)->state, MemoryQosState::failed);
  writer_->apply({}, at_minute(3));
  EXPECT_EQ(present("/p/a"), kFirst);
  EXPECT_THAT(min_.all().value().records, IsEmpty());
  EXPECT_THAT(writer_->not_restored(), IsEmpty());
}

// Nothing is written that a killed agent could not restore.
TEST_F(MemoryReserveWriterFiles, WithoutARecordNothingIsWritten) {
  const kernel::SettingRecords none;
  MemoryReserveWriter writer(tree_, {none, none});
  writer.apply({reserve("/p", kFirst)}, at_minute(1));
  EXPECT_EQ(writer.outcome(id("/p"), MemoryQosFile::min)->state, MemoryQosState::failed);
  EXPECT_EQ(present("/p"), kBefore);
}

TEST_F(MemoryReserveWriterFiles, ARestoreThatFailsIsReportedAndTriedAgain) {
  writer_->apply({reserve("/p/a", kFirst)}, at_minute(1));
  files_.write("p/a/memory.min", "????????");
  writer_->apply({}, at_minute(2));
  ASSERT_EQ(writer_->not_restored().size(), 1U);
  EXPECT_EQ(writer_->not_restored()[0].first.path, "/p/a");
  EXPECT_TRUE(is_recorded("/p/a"));
  set("/p/a", MemoryQosFile::min, kFirst);
  writer_->apply({}, at_minute(3));
  EXPECT_THAT(writer_->not_restored(), IsEmpty());
  EXPECT_EQ(present("/p/a"), kBefore);
}

}  // namespace
}  // namespace forestall::actuators
