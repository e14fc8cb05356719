// SPDX-License-Identifier: Apache-2.0
// What the thread writes, on plain files. tests/integration/agent_rules_test.cc has the kernel's
// part.
#include "actuators/rule_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <vector>

#include "support/file_changes.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

class RuleSettingsFiles : public ::testing::Test {
 protected:
  RuleSettingsFiles() {
    auto tree = kernel::CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
    settings_.emplace(tree_, RuleSettingsThread::Records{high_, frozen_});
    const auto started = settings_->start();
    if (!started) throw std::runtime_error(started.error().text());
  }
  // A plain file keeps the tail of a longer text, unlike a control file: all values have one
  // length.
  std::string text(const std::string& file) const {
    return test::read_text(files_ / ("a/" + file)).substr(0, 8);
  }
  bool becomes(const std::string& file, const std::string& wanted) const {
    return test::wait_for_files(files_ / "a", -1, [&] { return text(file) == wanted; });
  }
  RuleSettingResult next_result() {
    std::vector<RuleSettingResult> results;
    const bool came = test::wait_for_files(files_ / "a", -1, [&] {
      results = settings_->take_results();
      return !results.empty();
    });
    if (!came) throw std::runtime_error("no result");
    return results.front();
  }
  // Of the results up to the first one of `last`.
  std::vector<std::string> paths_until(const std::string& last) {
    std::vector<std::string> paths;
    static_cast<void>(test::wait_for_files(files_ / "b", -1, [&] {
      for (const auto& each : settings_->take_results()) {
        if (paths.empty() || paths.back() != last) paths.push_back(each.path);
      }
      return !paths.empty() && paths.back() == last;
    }));
    return paths;
  }
  CgroupId id() const { return tree_.open("/a")->id(); }
  RuleSetting throttle(std::int64_t high) const {
    return {RuleSetting::Kind::throttle, id(), "/a", Bytes{high}, MonotonicTime::max()};
  }
  RuleSetting freeze(MonotonicTime until = MonotonicTime::max()) const {
    return {RuleSetting::Kind::freeze, id(), "/a", {}, until};
  }

  test::TempTree files_{{"cgroup.controllers", ""},   {"a/memory.high", "40960000"},
                        {"a/memory.current", "4096"}, {"a/cgroup.freeze", "0"},
                        {"a/memory.reclaim", ""},     {"b/memory.reclaim", ""}};
  kernel::CgroupTree tree_;
  test::TempTree run_;
  kernel::SettingRecords high_{run_ / "high"};
  kernel::SettingRecords frozen_{run_ / "frozen"};
  std::optional<RuleSettingsThread> settings_;
};

TEST_F(RuleSettingsFiles, SetsWhatIsWantedAndUndoesTheRest) {
  settings_->apply({throttle(20480000), freeze()});
  EXPECT_TRUE(becomes("memory.high", "20480000"));
  EXPECT_TRUE(becomes("cgroup.freeze", "1"));
  settings_->apply({throttle(10240000)});
  EXPECT_TRUE(becomes("cgroup.freeze", "0"));
  EXPECT_TRUE(becomes("memory.high", "10240000"));
  settings_->apply({});
  EXPECT_TRUE(becomes("memory.high", "40960000")) << "the value before the first one";
}

TEST_F(RuleSettingsFiles, TheDestructorUndoesAllOfIt) {
  settings_->apply({throttle(20480000), freeze()});
  ASSERT_TRUE(becomes("cgroup.freeze", "1"));
  settings_.reset();
  EXPECT_EQ(text("memory.high"), "40960000");
  EXPECT_EQ(text("cgroup.freeze"), "0");
}

// Without a further call: the loop may be busy, or its readings fail.
TEST_F(RuleSettingsFiles, TheThreadThawsByItsOwnTimer) {
  settings_->apply({freeze()});
  ASSERT_TRUE(becomes("cgroup.freeze", "1"));
  settings_->apply({freeze(SystemClock().now() + std::chrono::milliseconds(50))});
  EXPECT_TRUE(becomes("cgroup.freeze", "0"));
}

TEST_F(RuleSettingsFiles, AnUndoThatFailsIsTriedAgainByItself) {
  settings_->apply({throttle(20480000)});
  ASSERT_TRUE(becomes("memory.high", "20480000"));
  files_.write("a/memory.high", "?");
  settings_->apply({});
  EXPECT_TRUE(next_result().retries);
  files_.write("a/memory.high", "20480000");
  EXPECT_TRUE(becomes("memory.high", "40960000"));
  EXPECT_GE(next_result().attempts, 2U);
  EXPECT_TRUE(test::wait_for_files(files_ / "a", -1, [&] { return settings_->not_undone() == 0; }));
}

TEST_F(RuleSettingsFiles, AnotherCgroupAtThePathIsLeftAlone) {
  RuleSetting stale = freeze();
  ++stale.cgroup.inode;
  settings_->apply({stale, throttle(20480000)});  // in this order
  ASSERT_TRUE(becomes("memory.high", "20480000"));
  EXPECT_EQ(text("cgroup.freeze"), "0");
  settings_->reclaim({{stale.cgroup, "/a", mib(2)}, {id(), "/a", mib(1)}});
  EXPECT_EQ(next_result().wanted, mib(1)) << "the first one has no result";
}

TEST_F(RuleSettingsFiles, AFailureIsReportedOnce) {
  settings_->apply({throttle(81920000)});
  EXPECT_EQ(next_result().what, "memory.high");
  settings_->reclaim({{id(), "/a", mib(80)}});  // three pieces
  EXPECT_EQ(next_result().what, "memory.reclaim");
  EXPECT_EQ(settings_->take_results().size(), 0U);
}

TEST_F(RuleSettingsFiles, ASettingThatCannotBeMadeIsReported) {
  settings_->apply({throttle(81920000)});
  const RuleSettingResult result = next_result();
  EXPECT_EQ(result.path, "/a");
  EXPECT_EQ(result.what, "memory.high");
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->code, EPERM) << "memory.high is never raised";
}

TEST_F(RuleSettingsFiles, ReclaimIsWrittenInPieces) {
  settings_->reclaim({{id(), "/a", mib(80)}});
  const RuleSettingResult result = next_result();
  EXPECT_EQ(result.what, "memory.reclaim");
  EXPECT_EQ(result.wanted, mib(80));
  EXPECT_EQ(result.reclaimed, mib(80));
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(text("memory.reclaim"), std::to_string(mib(16).count)) << "the last piece";
}

// More pieces than any test writes.
constexpr Bytes kEndless = gib(1 << 20);

// A reload to a dry run, or without the ruleset, must not leave minutes of reclaim behind.
TEST_F(RuleSettingsFiles, AReclaimUnderWayCanBeCancelled) {
  settings_->reclaim({{id(), "/a", kEndless}, {tree_.open("/b")->id(), "/b", mib(32)}});
  ASSERT_TRUE(becomes("memory.reclaim", std::to_string(mib(32).count)));
  settings_->cancel_reclaims();
  const RuleSettingResult result = next_result();
  EXPECT_EQ(result.path, "/a");
  EXPECT_LT(result.reclaimed, kEndless);
  EXPECT_EQ(test::read_text(files_ / "b/memory.reclaim"), "") << "dropped";
}

TEST_F(RuleSettingsFiles, AReclaimOfAnotherCgroupIsNotDroppedMeanwhile) {
  settings_->reclaim({{id(), "/a", gib(1 << 10)}});
  ASSERT_TRUE(becomes("memory.reclaim", std::to_string(mib(32).count)));
  settings_->reclaim({{tree_.open("/b")->id(), "/b", mib(32)}, {id(), "/a", mib(32)}});
  EXPECT_THAT(paths_until("/b"), testing::ElementsAre("/a", "/b"));
}

TEST_F(RuleSettingsFiles, AProactiveReclaimLeavesTheUsageThatWasDecided) {
  files_.write("a/memory.current", std::to_string(mib(50).count));  // it was 64 MiB at the decision
  RuleReclaim reclaim{id(), "/a", mib(32), "reclaim:a"};
  reclaim.proactive = true;
  reclaim.leave = mib(32);
  settings_->reclaim({reclaim});
  const RuleSettingResult result = next_result();
  EXPECT_EQ(text("memory.reclaim"), std::to_string(mib(18).count));
  EXPECT_EQ(result.reclaimed, mib(18));
  EXPECT_EQ(result.ruleset, "reclaim:a");
  EXPECT_TRUE(result.proactive);
}

TEST_F(RuleSettingsFiles, AProactiveReclaimThatComesTooLateIsDropped) {
  RuleReclaim late{id(), "/a", mib(32), "reclaim:a"};
  late.proactive = true;
  late.until = SystemClock().now();
  const RuleReclaim other{tree_.open("/b")->id(), "/b", mib(32), "reclaim:b"};
  settings_->reclaim({late, other});
  std::vector<RuleSettingResult> results;
  EXPECT_TRUE(test::wait_for_files(files_ / "b", -1, [&] {
    std::ranges::move(settings_->take_results(), std::back_inserter(results));
    return results.size() == 2;
  }));
  const auto dropped = std::ranges::find(results, true, &RuleSettingResult::dropped);
  ASSERT_NE(dropped, results.end());
  EXPECT_EQ(dropped->path, "/a");
  EXPECT_EQ(dropped->ruleset, "reclaim:a");
  EXPECT_EQ(dropped->what, "memory.reclaim");
  EXPECT_EQ(text("memory.reclaim"), "");
}

// Nothing is undone during a write, and the first one may take a second.
TEST_F(RuleSettingsFiles, AProactiveReclaimWaitsForAnUndoThatIsDueSoon) {
  settings_->apply({freeze()});
  ASSERT_TRUE(becomes("cgroup.freeze", "1"));
  RuleReclaim reclaim{id(), "/a", Bytes{4096}, "reclaim:a"};
  reclaim.proactive = true;
  settings_->apply({freeze(SystemClock().now() + std::chrono::milliseconds(300))});
  settings_->reclaim({reclaim});
  std::string frozen;
  EXPECT_TRUE(test::wait_for_files(files_ / "a", -1, [&] {
    const bool is_written = text("memory.reclaim") == "4096";
    frozen = text("cgroup.freeze");
    return is_written;
  }));
  EXPECT_EQ(frozen, "0");
}

TEST_F(RuleSettingsFiles, AProactiveReclaimOfUnknownUsageIsNotWritten) {
  RuleReclaim reclaim{tree_.open("/b")->id(), "/b", mib(32), "reclaim:b"};
  reclaim.proactive = true;
  settings_->reclaim({reclaim, {id(), "/a", mib(32), "reclaim:b"}});
  EXPECT_EQ(next_result().path, "/a") << "/b has no memory.current, as one that was removed";
  EXPECT_EQ(test::read_text(files_ / "b/memory.reclaim"), "");
}

// Proactive reclaim is requested all the time: what waits of another ruleset must not be lost by
// it.
TEST_F(RuleSettingsFiles, AReclaimOfAnotherRulesetIsNotReplaced) {
  settings_->reclaim(
      {{id(), "/a", gib(1 << 10), "one"}, {tree_.open("/b")->id(), "/b", mib(32), "one"}});
  ASSERT_TRUE(becomes("memory.reclaim", std::to_string(mib(32).count)));
  settings_->reclaim({{CgroupId{1}, "/c", mib(32), "two"}});
  EXPECT_THAT(paths_until("/b"), testing::ElementsAre("/a", "/b"));
}

TEST(RuleSettings, WithoutTheFilesThereIsNothingToStart) {
  RuleSettings none;
  EXPECT_EQ(none.start().error().code, ENOTSUP);
}

}  // namespace
}  // namespace forestall::actuators
