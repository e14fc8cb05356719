// SPDX-License-Identifier: Apache-2.0
// When settings are made, lowered and undone, on plain files.
#include "actuators/rule_settings_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MonotonicTime second(int n) {
  return MonotonicTime(std::chrono::seconds(n));
}

// A plain file keeps the tail of a longer text, unlike a control file: all values have one length.
class RuleSettingsWriterFiles : public ::testing::Test {
 protected:
  RuleSettingsWriterFiles() {
    auto tree = kernel::CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
    writer_.emplace(tree_, RuleSettingsWriter::Records{high_, frozen_},
                    [this](const RuleSettingResult& result) { results_.push_back(result); });
  }
  RuleSetting setting(RuleSetting::Kind kind, const std::string& path, Bytes high,
                      int until) const {
    return {kind, tree_.open(path)->id(), path, high, second(until)};
  }
  RuleSetting throttle(const std::string& path, Bytes high, int until = 100) const {
    return setting(RuleSetting::Kind::throttle, path, high, until);
  }
  RuleSetting freeze(const std::string& path, int until = 100) const {
    return setting(RuleSetting::Kind::freeze, path, {}, until);
  }
  // Of `path`, in MiB.
  std::int64_t high(const std::string& path) const {
    return std::stoll(test::read_text(files_ / (path + "/memory.high"))) >> 20;
  }
  std::string frozen() const { return test::read_text(files_ / "b/cgroup.freeze"); }
  void set_usage(Bytes usage, const std::string& path = "a") const {
    files_.write(path + "/memory.current", std::to_string(usage.count));
  }
  // As the kernel does at a write of memory.high.
  void reclaim() const {
    for (const std::string path : {"a", "b"}) {
      const std::string usage = test::read_text(files_ / (path + "/memory.current"));
      if (usage == "?") continue;
      set_usage(std::min(Bytes{std::stoll(usage)}, mib(high(path))), path);
    }
  }
  // `count` values of memory.high after as many calls, each of which reclaims.
  std::vector<std::int64_t> steps(int count, const std::string& path = "a") {
    std::vector<std::int64_t> values;
    for (int i = 0; i < count; ++i) {
      static_cast<void>(writer_->advance(second(1)));
      values.push_back(high(path));
      reclaim();
    }
    return values;
  }

  test::TempTree files_{{"cgroup.controllers", ""},
                        {"a/memory.high", std::to_string(mib(400).count)},
                        {"a/memory.current", std::to_string(mib(300).count)},
                        {"b/memory.high", std::to_string(mib(400).count)},
                        {"b/memory.current", std::to_string(mib(300).count)},
                        {"b/cgroup.freeze", "0"}};
  kernel::CgroupTree tree_;
  test::TempTree run_;
  kernel::SettingRecords high_{run_ / "high"};
  kernel::SettingRecords frozen_{run_ / "frozen"};
  std::vector<RuleSettingResult> results_;
  std::optional<RuleSettingsWriter> writer_;
};

// One write would reclaim 100 MiB before it returns.
TEST_F(RuleSettingsWriterFiles, AThrottleBelowUsageGoesDownInSteps) {
  writer_->set_wanted({throttle("/a", mib(200))});
  EXPECT_EQ(writer_->advance(second(1)), second(1)) << "due at once";
  EXPECT_EQ(high("a"), 268);
  reclaim();
  EXPECT_THAT(steps(2), ElementsAre(236, 204));
  EXPECT_EQ(writer_->advance(second(1)), second(100)) << "its end";
  EXPECT_EQ(high("a"), 200);
}

TEST_F(RuleSettingsWriterFiles, AThrottleAboveUsageIsOneWrite) {
  writer_->set_wanted({throttle("/a", mib(310))});
  EXPECT_EQ(writer_->advance(second(1)), second(100));
  EXPECT_EQ(high("a"), 310);
}

// memory.high that is far below usage already: a step there would reclaim more than 32 MiB.
TEST_F(RuleSettingsWriterFiles, NoStepIsAboveTheValueBefore) {
  files_.write("a/memory.high", std::to_string(mib(250).count));
  writer_->set_wanted({throttle("/a", mib(200))});
  EXPECT_EQ(writer_->advance(second(1)), second(2)) << "after a pause";
  EXPECT_EQ(high("a"), 250);
  set_usage(mib(255));
  EXPECT_EQ(writer_->advance(second(2)), second(2));
  EXPECT_EQ(high("a"), 223);
  EXPECT_THAT(results_, IsEmpty());
}

TEST_F(RuleSettingsWriterFiles, AStepThatReclaimsNothingIsFollowedByNoLowerOne) {
  writer_->set_wanted({throttle("/a", mib(100))});
  EXPECT_EQ(writer_->advance(second(1)), second(1));
  EXPECT_EQ(high("a"), 268);
  EXPECT_EQ(writer_->advance(second(1)), second(2)) << "tried once more, then after a pause";
  EXPECT_EQ(high("a"), 268);
  set_usage(mib(500));
  EXPECT_EQ(writer_->advance(second(2)), second(3));
  EXPECT_EQ(high("a"), 268) << "not raised either";
  set_usage(mib(260));
  EXPECT_EQ(writer_->advance(second(3)), second(3));
  EXPECT_EQ(high("a"), 228);
  EXPECT_THAT(results_, IsEmpty());
}

TEST_F(RuleSettingsWriterFiles, TheNextThrottleFollowsTheLowestOne) {
  writer_->set_wanted({throttle("/a", mib(310), 9), throttle("/a", mib(350), 12)});
  EXPECT_EQ(writer_->advance(second(1)), second(9));
  EXPECT_EQ(high("a"), 310);
  EXPECT_EQ(writer_->advance(second(9)), second(12));
  EXPECT_EQ(high("a"), 350) << "not the value before both";
  EXPECT_EQ(writer_->advance(second(12)), std::nullopt);
  EXPECT_EQ(high("a"), 400);
}

TEST_F(RuleSettingsWriterFiles, OtherCgroupsAreServedBetweenTwoSteps) {
  writer_->set_wanted({throttle("/a", mib(100)), freeze("/b")});
  EXPECT_THAT(steps(1), ElementsAre(268));
  EXPECT_EQ(frozen(), "1");
  writer_->set_wanted({throttle("/a", mib(100)), throttle("/b", mib(200))});
  EXPECT_THAT(steps(2), ElementsAre(236, 236));
  EXPECT_EQ(frozen(), "0");
  EXPECT_EQ(high("b"), 268) << "in turn";
}

TEST_F(RuleSettingsWriterFiles, AThrottleOnItsWayDownCanBeCancelled) {
  writer_->set_wanted({throttle("/a", mib(100))});
  EXPECT_THAT(steps(1), ElementsAre(268));
  writer_->set_wanted({});
  EXPECT_EQ(writer_->advance(second(1)), std::nullopt);
  EXPECT_EQ(high("a"), 400);
}

TEST_F(RuleSettingsWriterFiles, AnotherValueNeedsNoUndo) {
  writer_->set_wanted({throttle("/a", mib(310))});
  EXPECT_THAT(steps(1), ElementsAre(310));
  writer_->set_wanted({throttle("/a", mib(350))});
  EXPECT_THAT(steps(1), ElementsAre(350));
  writer_->set_wanted({});
  EXPECT_THAT(steps(1), ElementsAre(400));
  EXPECT_THAT(results_, IsEmpty());
}

TEST_F(RuleSettingsWriterFiles, AThrottleThatFailsOnItsWayIsNotTriedAgain) {
  writer_->set_wanted({throttle("/a", mib(100))});
  EXPECT_THAT(steps(1), ElementsAre(268));
  files_.write("a/memory.high", std::to_string(mib(390).count));  // by another process
  EXPECT_THAT(steps(3), ElementsAre(390, 390, 390));
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_EQ(results_[0].failure->code, EBUSY);
  EXPECT_EQ(writer_->advance(second(2)), std::nullopt);
}

TEST_F(RuleSettingsWriterFiles, WithoutAReadingOfUsageNothingIsThrottled) {
  files_.write("a/memory.current", "?");
  writer_->set_wanted({throttle("/a", mib(100))});
  EXPECT_THAT(steps(2), ElementsAre(400, 400));
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_EQ(results_[0].what, "memory.high");
}

// The readings of rulesets may fail: a cgroup would stay frozen.
TEST_F(RuleSettingsWriterFiles, ASettingEndsByItsTime) {
  writer_->set_wanted({throttle("/a", mib(310), 9), freeze("/b", 7)});
  EXPECT_EQ(writer_->advance(second(1)), second(7));
  EXPECT_EQ(frozen(), "1");
  EXPECT_EQ(writer_->advance(second(7)), second(9));
  EXPECT_EQ(frozen(), "0");
  EXPECT_EQ(writer_->advance(second(9)), std::nullopt);
  EXPECT_EQ(high("a"), 400);
}

TEST_F(RuleSettingsWriterFiles, ALaterTimeKeepsASetting) {
  writer_->set_wanted({freeze("/b", 7)});
  static_cast<void>(writer_->advance(second(1)));
  writer_->set_wanted({freeze("/b", 9)});
  EXPECT_EQ(writer_->advance(second(8)), second(9));
  EXPECT_EQ(frozen(), "1");
  writer_->set_wanted({freeze("/b", 9)});  // late
  EXPECT_EQ(writer_->advance(second(9)), std::nullopt);
  EXPECT_EQ(frozen(), "0");
}

TEST_F(RuleSettingsWriterFiles, AnUndoThatFailsIsTriedAgain) {
  writer_->set_wanted({throttle("/a", mib(310))});
  EXPECT_THAT(steps(1), ElementsAre(310));
  const std::string ours = test::read_text(files_ / "a/memory.high");
  files_.write("a/memory.high", "?");
  writer_->set_wanted({});
  EXPECT_EQ(writer_->advance(second(10)), second(11));
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_TRUE(results_[0].failure);
  EXPECT_TRUE(results_[0].retries);
  EXPECT_EQ(writer_->not_undone(), 1U);
  EXPECT_EQ(writer_->advance(second(11)), second(13)) << "a longer pause";
  files_.write("a/memory.high", ours);
  EXPECT_EQ(writer_->advance(second(12)), second(13)) << "not before its time";
  EXPECT_EQ(high("a"), 310);
  EXPECT_EQ(writer_->advance(second(13)), std::nullopt);
  EXPECT_EQ(high("a"), 400);
  EXPECT_EQ(writer_->not_undone(), 0U);
  ASSERT_EQ(results_.size(), 2U) << "the first failure and the end";
  EXPECT_FALSE(results_[1].failure);
  EXPECT_EQ(results_[1].attempts, 3U);
}

TEST_F(RuleSettingsWriterFiles, ThePauseBetweenUndosHasALimit) {
  writer_->set_wanted({throttle("/a", mib(310))});
  EXPECT_THAT(steps(1), ElementsAre(310));
  files_.write("a/memory.high", "?");
  writer_->set_wanted({});
  MonotonicTime now = second(10);
  for (int i = 0; i < 10; ++i) now = writer_->advance(now).value();
  EXPECT_EQ(writer_->advance(now), now + RuleSettingsWriter::kLastRetry);
}

}  // namespace
}  // namespace forestall::actuators
