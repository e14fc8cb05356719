// SPDX-License-Identifier: Apache-2.0
// When the memory.high of memory QoS is lifted and restored, on a node of files.
// vmtests/cases/memory_qos_cases.cc has the kernel's.
#include "agent/memory_high_controller.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/small_node.h"

namespace forestall::agent {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A plain file keeps the tail of a longer text, unlike a control file: all values have 8 digits.
constexpr Bytes kNodeHighBefore{90'001'408};
constexpr Bytes kNodeHigh{20'000'768};
constexpr MonotonicTime kNodeStart(1h);
constexpr const char* kNoEvents =
    "not applicable: a host name of its own needs CAP_SYS_ADMIN; runs as root";

class MemoryHighControllerTest : public ::testing::Test {
 protected:
  MemoryHighControllerTest() {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    EXPECT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    for (const std::string path : {"/a", "/p/a", "/p/b"}) {
      set(path, "memory.high", kNodeHighBefore);
      set(path, "memory.current", kNodeHigh);
      files_.write("cgroup" + path + "/memory.max", "max\n");
      set_stall(path, 0, 0s);
    }
    set("/p", "memory.current", Bytes{50'000'000});
    set_cache("/p", Bytes{});
    files_.write("cgroup/p/memory.max", "max\n");
    files_.write("cgroup/p/memory.high", "max\n");
    set_available(Bytes{99'999'744});
    auto made = MemoryHighController::create(tree_, records_, log_, files_ / "proc");
    EXPECT_TRUE(made) << made.error().text();
    controller_ = std::move(made).value();
  }
  void set(const std::string& path, const char* file, Bytes value) const {
    files_.write("cgroup" + path + "/" + file, std::to_string(value.count));
  }
  void set_cache(const std::string& path, Bytes inactive_file) const {
    files_.write("cgroup" + path + "/memory.stat",
                 fmt::format("anon 1\ninactive_file {}\n", inactive_file.count));
  }
  void set_available(Bytes available) const {
    files_.write("proc/meminfo", fmt::format("MemTotal: 1000000 kB\nMemAvailable: {} kB\n",
                                             available.count / 1024));
  }
  void set_stall(const std::string& path, int events, Duration full) const {
    files_.write("cgroup" + path + "/memory.events.local",
                 fmt::format("low 0\nhigh {}\nmax 0\noom 0\noom_kill 0\n", events));
    set_pressure(path, full);
  }
  void set_pressure(const std::string& path, Duration full) const {
    files_.write("cgroup" + path + "/memory.pressure",
                 fmt::format("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
                             "full avg10=0.00 avg60=0.00 avg300=0.00 total={}\n",
                             full / 1us));
  }
  void apply(const std::vector<std::string>& paths, std::optional<Bytes> reserve = Bytes{},
             Duration after = 0s) {
    std::vector<actuators::MemoryReserve> wanted;
    for (const std::string& each : paths) {
      wanted.push_back({each, *tree_.id_at(each), MemoryQosFile::high, kNodeHigh});
    }
    controller_->apply(wanted, {10s, reserve}, kNodeStart + after);
  }
  // One second more, in which these cgroups waited for memory all the time.
  bool stall(const std::vector<std::string>& paths) {
    ++second_;
    for (const std::string& each : paths) set_stall(each, second_, second_ * 1s);
    return controller_->advance(kNodeStart + second_ * 1s);
  }
  bool pass_second() { return controller_->advance(kNodeStart + ++second_ * 1s); }
  // From now on memory.events.local of these is the host name: a file that has events, as that of
  // the kernel has, and the text of the test. False: the test may not have a host name of its own.
  [[nodiscard]] bool use_events(const std::vector<std::string>& paths) const {
    if (unshare(CLONE_NEWUTS) != 0 || !set_events(0)) return false;
    for (const std::string& each : paths) {
      const std::string file = files_ / ("cgroup" + each + "/memory.events.local");
      std::filesystem::remove(file);
      std::filesystem::create_symlink("/proc/sys/kernel/hostname", file);
    }
    return true;
  }
  [[nodiscard]] static bool set_events(int count) {
    const std::string text = fmt::format("high {}", count);
    return sethostname(text.data(), text.size()) == 0;
  }
  // As stall(), with events. REQUIRES: use_events().
  bool stall_with_events(const std::vector<std::string>& paths) {
    EXPECT_TRUE(set_events(second_ + 1));
    for (const std::string& each : paths) set_pressure(each, (second_ + 1) * 1s);
    return pass_second();
  }
  // The same until the first change of an outcome; after how many, 0: not within a minute.
  int stall_until_change(const std::vector<std::string>& paths) {
    for (int n = 1; n <= 60; ++n) {
      if (stall(paths)) return n;
    }
    return 0;
  }
  [[nodiscard]] Bytes high(const std::string& path) const {
    return {std::stoll(test::read_text(files_ / ("cgroup" + path + "/memory.high")))};
  }
  [[nodiscard]] actuators::ReserveOutcome outcome(const std::string& path) const {
    return controller_->outcome(*tree_.id_at(path)).value_or(actuators::ReserveOutcome{});
  }

  test::SmallNode files_{"/a", "/p", "/p/a", "/p/b"};
  kernel::CgroupTree tree_;
  test::TempTree run_;
  kernel::SettingRecords records_{run_ / "memory-high"};
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  std::unique_ptr<MemoryHighController> controller_;
  int second_ = 0;
};

TEST_F(MemoryHighControllerTest, LiftsWhatMakesNoProgressByAQuarterOfTheHeadroom) {
  apply({"/a"});
  ASSERT_EQ(high("/a"), kNodeHigh);
  EXPECT_EQ(stall_until_change({"/a"}), 11);
  EXPECT_EQ(high("/a"), Bytes{44'998'656}) << "in whole pages";
  EXPECT_EQ(outcome("/a").state, MemoryQosState::lifted);
  EXPECT_EQ(outcome("/a").reason, "lifted: no progress for 10s at 20000768");
  EXPECT_EQ(controller_->lifts(), 1U);
  controller_.reset();
  EXPECT_EQ(high("/a"), kNodeHighBefore);
}

TEST_F(MemoryHighControllerTest, RestoresItWhenUsageHasFallen) {
  apply({"/a"});
  ASSERT_EQ(stall_until_change({"/a"}), 11);
  set("/a", "memory.current", Bytes{10'002'432});
  EXPECT_EQ(stall_until_change({}), 10);
  EXPECT_EQ(high("/a"), kNodeHigh);
  EXPECT_EQ(outcome("/a"), actuators::ReserveOutcome{MemoryQosState::written});
}

// The kernel hides memory.pressure of a living cgroup while its cgroup.pressure is 0.
TEST_F(MemoryHighControllerTest, ALiftEndsAlsoIfPressureWasHiddenForATime) {
  if (!use_events({"/a"})) GTEST_SKIP() << kNoEvents;
  apply({"/a"});
  ASSERT_EQ(controller_->next_due(), std::nullopt) << "it waits for an event";
  bool lifted = false;
  for (int n = 1; n <= 20 && !lifted; ++n) lifted = stall_with_events({"/a"});
  ASSERT_TRUE(lifted);
  const std::string pressure = files_ / "cgroup/a/memory.pressure";
  std::filesystem::rename(pressure, pressure + ".hidden");
  EXPECT_FALSE(pass_second());
  apply({"/a"}, Bytes{}, second_ * 1s);
  EXPECT_EQ(controller_->next_due(), kNodeStart + (second_ + 1) * 1s) << "it has no event";
  std::filesystem::rename(pressure + ".hidden", pressure);
  set("/a", "memory.current", Bytes{10'002'432});
  for (int n = 0; n < 12; ++n) pass_second();
  EXPECT_EQ(high("/a"), kNodeHigh);
}

// One of two is lowered first. The event of the other one comes before its first step.
TEST_F(MemoryHighControllerTest, AnEventBeforeTheFirstStepIsNotTheLastOne) {
  if (!use_events({"/a", "/p/a"})) GTEST_SKIP() << kNoEvents;
  for (const char* each : {"/a", "/p/a"}) set(each, "memory.current", Bytes{60'000'000});
  apply({"/a", "/p/a"});
  ASSERT_TRUE(set_events(++second_));
  static_cast<void>(controller_->advance(kNodeStart));
  ASSERT_TRUE(high("/a") == kNodeHighBefore || high("/p/a") == kNodeHighBefore);
  for (int n = 0; n < 20; ++n) stall_with_events({"/a", "/p/a"});
  EXPECT_EQ(controller_->lifts(), 2U);
}

// It is not raised above it, so it grants no more than this either.
TEST_F(MemoryHighControllerTest, ALiftEndsAtTheValueBeforeAndIsNotRepeated) {
  set("/a", "memory.high", Bytes{40'001'536});
  apply({"/a", "/p/a"});
  ASSERT_EQ(stall_until_change({"/a"}), 11);
  EXPECT_EQ(high("/a"), Bytes{40'001'536});
  set("/a", "memory.current", Bytes{40'001'536});
  EXPECT_GT(stall_until_change({"/a"}), 9);
  EXPECT_EQ(outcome("/a").state, MemoryQosState::lifted);
  EXPECT_EQ(controller_->lifts(), 1U);
  EXPECT_THAT(outcome("/a").reason, HasSubstr("not lifted: the value before is not higher: 38"));
  for (int n = 0; n < 20 && controller_->lifts() == 1; ++n) stall({"/p/a"});
  EXPECT_EQ(high("/p/a"), Bytes{44'998'656}) << "a quarter: the other one has used its grant";
}

TEST_F(MemoryHighControllerTest, WithoutPressureNothingIsThrottled) {
  ASSERT_EQ(unlink((files_ / "cgroup/a/memory.pressure").c_str()), 0);
  apply({"/a"});
  EXPECT_EQ(high("/a"), kNodeHighBefore);
  EXPECT_EQ(outcome("/a").state, MemoryQosState::left);
  EXPECT_THAT(outcome("/a").reason, HasSubstr("whether it makes progress cannot be read"));
}

TEST_F(MemoryHighControllerTest, AReadingThatIsMissingLiftsNothing) {
  apply({"/a"});
  for (int n = 0; n < 9; ++n) stall({"/a"});
  files_.write("cgroup/a/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
  for (int n = 0; n < 30; ++n) {
    ++second_;
    EXPECT_FALSE(controller_->advance(kNodeStart + second_ * 1s));
  }
  EXPECT_EQ(high("/a"), kNodeHigh);
  EXPECT_EQ(stall_until_change({"/a"}), 11);
}

TEST_F(MemoryHighControllerTest, WithoutHeadroomItStaysUntilThereIsSome) {
  set_available(mib(12));
  apply({"/a"});
  EXPECT_EQ(stall_until_change({"/a"}), 11);
  EXPECT_EQ(high("/a"), kNodeHigh);
  EXPECT_EQ(outcome("/a").state, MemoryQosState::written);
  EXPECT_THAT(outcome("/a").reason, HasSubstr("not lifted: the node or a cgroup above it has no"));
  EXPECT_FALSE(stall({"/a"})) << "reported once";
  EXPECT_EQ(controller_->lifts(), 0U);
  set_available(mib(64));
  EXPECT_TRUE(stall({"/a"}));
  EXPECT_EQ(outcome("/a").state, MemoryQosState::lifted);
}

TEST_F(MemoryHighControllerTest, WhatThresholdsKeepFreeIsNoHeadroom) {
  set_available(mib(64));
  apply({"/a"}, mib(52));
  EXPECT_EQ(stall_until_change({"/a"}), 11);
  EXPECT_EQ(high("/a"), kNodeHigh);
}

// The measure of the thresholds: 80 MiB of 1000000 kB are not in the working set.
TEST_F(MemoryHighControllerTest, TheWorkingSetOfTheNodeIsNoHeadroom) {
  files_.write("proc/vmstat",
               fmt::format("nr_anon_pages {}\nnr_file_pages 0\nnr_inactive_file 0\n",
                           (Bytes{1'024'000'000} - mib(80)).count / sysconf(_SC_PAGESIZE)));
  apply({"/a"}, mib(72));
  EXPECT_EQ(stall_until_change({"/a"}), 11);
  EXPECT_EQ(high("/a"), kNodeHigh);
  EXPECT_THAT(outcome("/a").reason, HasSubstr("has no headroom for it: 8"));
}

TEST_F(MemoryHighControllerTest, ANodeWithoutACounterHasNoHeadroom) {
  files_.write("proc/vmstat", "nr_anon_pages 300\n");
  apply({"/a"});
  EXPECT_EQ(stall_until_change({"/a"}), 11);
  EXPECT_EQ(high("/a"), kNodeHigh);
  EXPECT_THAT(outcome("/a").reason, HasSubstr("nr_inactive_file is missing"));
}

TEST_F(MemoryHighControllerTest, AnUnknownNodeHasNoHeadroom) {
  apply({"/a"}, std::nullopt);
  EXPECT_EQ(stall_until_change({"/a"}), 11);
  EXPECT_EQ(high("/a"), kNodeHigh);
  EXPECT_THAT(outcome("/a").reason, HasSubstr("the memory of the node is unknown"));
}

TEST_F(MemoryHighControllerTest, TheLimitOfACgroupAboveIsItsHeadroom) {
  set("/p", "memory.max", Bytes{60'000'000});
  apply({"/p/a"});
  EXPECT_EQ(stall_until_change({"/p/a"}), 11);
  EXPECT_EQ(high("/p/a"), kNodeHigh);
  set("/p", "memory.max", Bytes{90'000'000});
  EXPECT_TRUE(stall({"/p/a"}));
  EXPECT_EQ(high("/p/a"), Bytes{29'999'104}) << "a quarter of 40000000";
}

// As /kubepods of a node that reads files.
TEST_F(MemoryHighControllerTest, ACgroupAboveThatIsFullOfPageCacheHasHeadroom) {
  set("/p", "memory.max", Bytes{60'000'000});
  set("/p", "memory.current", Bytes{59'999'232});
  set_cache("/p", Bytes{39'999'232});
  apply({"/p/a"});
  EXPECT_EQ(stall_until_change({"/p/a"}), 11);
  EXPECT_EQ(high("/p/a"), Bytes{29'999'104}) << "a quarter of 40000000";
}

TEST_F(MemoryHighControllerTest, ACgroupAboveWithAnUnknownPageCacheHasNoHeadroom) {
  set("/p", "memory.max", Bytes{90'000'000});
  files_.write("cgroup/p/memory.stat", "anon 1\n");
  apply({"/p/a"});
  EXPECT_EQ(stall_until_change({"/p/a"}), 11);
  EXPECT_EQ(high("/p/a"), kNodeHigh);
  EXPECT_THAT(outcome("/p/a").reason, HasSubstr("/p/memory.stat has no inactive_file"));
}

// The first one has not used what it was granted yet.
TEST_F(MemoryHighControllerTest, TwoLiftsDoNotShareTheSameHeadroom) {
  apply({"/a", "/p/a"});
  EXPECT_EQ(stall_until_change({"/a", "/p/a"}), 11);
  EXPECT_EQ(controller_->lifts(), 2U);
  const Bytes one = std::max(high("/a"), high("/p/a")) - kNodeHigh;
  const Bytes other = std::min(high("/a"), high("/p/a")) - kNodeHigh;
  EXPECT_EQ(one, Bytes{44'998'656} - kNodeHigh);
  EXPECT_LE(other.count, (99'999'744 - one.count) / 4);
  EXPECT_GT(other, mib(8));
}

TEST_F(MemoryHighControllerTest, TwoLiftsDoNotShareTheHeadroomOfACgroupAbove) {
  set("/p", "memory.max", Bytes{90'000'000});
  apply({"/p/a", "/p/b"});
  EXPECT_EQ(stall_until_change({"/p/a", "/p/b"}), 11);
  EXPECT_EQ(controller_->lifts(), 2U);
  const Bytes one = std::max(high("/p/a"), high("/p/b")) - kNodeHigh;
  const Bytes other = std::min(high("/p/a"), high("/p/b")) - kNodeHigh;
  EXPECT_EQ(one, Bytes{29'999'104} - kNodeHigh) << "a quarter of 40000000";
  EXPECT_LE(other.count, (40'000'000 - one.count) / 4);
  EXPECT_GT(other, mib(4));
}

// The usage of the first one cannot be read when the second one is lifted.
TEST_F(MemoryHighControllerTest, AGrantWithoutAReadingIsNotFree) {
  set("/p", "memory.max", Bytes{90'000'000});
  apply({"/p/a", "/p/b"});
  ASSERT_EQ(stall_until_change({"/p/a"}), 11);
  files_.write("cgroup/p/a/memory.current", "cut\n");
  ASSERT_GT(stall_until_change({"/p/b"}), 0);
  EXPECT_LE((high("/p/b") - kNodeHigh).count, (40'000'000 - 9'998'336) / 4);
}

TEST_F(MemoryHighControllerTest, TheMemoryHighOfACgroupAboveIsItsHeadroomToo) {
  set("/p", "memory.high", Bytes{60'000'000});
  apply({"/p/a"});
  EXPECT_EQ(stall_until_change({"/p/a"}), 11);
  EXPECT_EQ(high("/p/a"), kNodeHigh);
  set("/p", "memory.high", Bytes{90'000'000});
  set("/p", "memory.max", Bytes{99'000'000});
  EXPECT_TRUE(stall({"/p/a"}));
  EXPECT_EQ(high("/p/a"), Bytes{29'999'104}) << "a quarter of 40000000";
}

TEST_F(MemoryHighControllerTest, ACgroupThatIsNotWantedAnyMoreIsRestored) {
  apply({"/a"});
  ASSERT_EQ(stall_until_change({"/a"}), 11);
  apply({});
  EXPECT_EQ(high("/a"), kNodeHighBefore);
  EXPECT_EQ(controller_->next_due(), std::nullopt);
}

}  // namespace
}  // namespace forestall::agent
