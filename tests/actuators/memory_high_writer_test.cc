// SPDX-License-Identifier: Apache-2.0
// Which memory.high is written, lowered in steps, lifted, restored and left, on plain files.
#include "actuators/memory_high_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/amount_setting.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

// A plain file keeps the tail of a longer text, unlike a control file: all values have 8 digits.
constexpr Bytes kHighBefore{90'001'408};
constexpr Bytes kHighWanted{20'000'768};
constexpr Bytes kHighLifted{50'003'968};
constexpr MonotonicTime kHighStart(1h);

class MemoryHighWriterFiles : public ::testing::Test {
 protected:
  MemoryHighWriterFiles() {
    auto tree = kernel::CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
    set("memory.high", kHighBefore);
    set("memory.current", Bytes{10'000'384});
    writer_.emplace(tree_, records_);
  }
  void set(const std::string& file, Bytes value) const {
    files_.write("a/" + file, std::to_string(value.count));
  }
  [[nodiscard]] Bytes high() const {
    return {std::stoll(test::read_text(files_ / "a/memory.high"))};
  }
  [[nodiscard]] CgroupId id() const { return tree_.id_at("/a").value(); }
  void apply(Bytes value, Duration after = 0s) {
    writer_->apply({{"/a", id(), MemoryQosFile::high, value}}, kHighStart + after);
  }
  [[nodiscard]] ReserveOutcome outcome() const {
    const auto* found = writer_->outcome(id());
    return found == nullptr ? ReserveOutcome{MemoryQosState::failed, "not wanted"} : *found;
  }
  [[nodiscard]] bool is_recorded() const { return records_.read(id()).value().has_value(); }

  test::TempTree files_{{"cgroup.controllers", ""}};
  kernel::CgroupTree tree_;
  test::TempTree run_;
  kernel::SettingRecords records_{run_ / "memory-high"};
  std::optional<MemoryHighWriter> writer_;
};

TEST_F(MemoryHighWriterFiles, WritesWhatIsWantedAndRestoresItAtItsEnd) {
  apply(kHighWanted);
  EXPECT_EQ(high(), kHighWanted);
  EXPECT_EQ(outcome(), ReserveOutcome{MemoryQosState::written});
  EXPECT_EQ(writer_->present(id()), kHighWanted);
  EXPECT_TRUE(is_recorded());
  EXPECT_EQ(writer_->next_due(), std::nullopt);
  writer_.reset();
  EXPECT_EQ(high(), kHighBefore);
  EXPECT_FALSE(is_recorded());
}

TEST_F(MemoryHighWriterFiles, WhatIsNotWantedAnyMoreIsRestored) {
  apply(kHighWanted);
  writer_->apply({}, kHighStart);
  EXPECT_EQ(high(), kHighBefore);
  EXPECT_EQ(writer_->outcome(id()), nullptr);
  EXPECT_THAT(writer_->not_restored(), IsEmpty());
}

TEST_F(MemoryHighWriterFiles, AnotherWantedValueReplacesIt) {
  apply(kHighLifted);
  apply(kHighWanted);
  EXPECT_EQ(high(), kHighWanted);
  apply(kHighLifted);
  EXPECT_EQ(high(), kHighLifted);
  writer_.reset();
  EXPECT_EQ(high(), kHighBefore);
}

TEST_F(MemoryHighWriterFiles, ALowerOneOfAnotherProcessIsNotRaised) {
  set("memory.high", Bytes{10'002'432});
  apply(kHighWanted);
  EXPECT_EQ(high(), Bytes{10'002'432});
  EXPECT_EQ(outcome(), (ReserveOutcome{MemoryQosState::left, "it is lower already"}));
  EXPECT_FALSE(is_recorded());
  set("memory.high", kHighWanted);
  apply(kHighWanted);
  EXPECT_EQ(outcome(), ReserveOutcome{MemoryQosState::equal});
  set("memory.high", kHighBefore);
  apply(kHighWanted);
  EXPECT_EQ(outcome(), ReserveOutcome{MemoryQosState::written});
}

// The kernel reclaims what is above it in the writing thread.
TEST_F(MemoryHighWriterFiles, AValueFarBelowUsageIsWrittenInSteps) {
  constexpr Bytes kUsage{80'003'072};
  set("memory.current", kUsage);
  apply(kHighWanted);
  EXPECT_EQ(high(), kHighBefore);
  EXPECT_EQ(outcome().state, MemoryQosState::left);
  EXPECT_THAT(outcome().reason, HasSubstr("lowered in steps"));
  ASSERT_EQ(writer_->next_due(), kHighStart);
  EXPECT_FALSE(writer_->advance(kHighStart));
  EXPECT_EQ(high(), kUsage - mib(32));
  ASSERT_EQ(writer_->next_due(), kHighStart + 1s);
  EXPECT_FALSE(writer_->advance(kHighStart + 999ms));
  set("memory.current", kUsage + mib(1));
  EXPECT_FALSE(writer_->advance(kHighStart + 1s));
  EXPECT_EQ(high(), kUsage - mib(32)) << "it does not follow a cgroup that grows";
  set("memory.current", Bytes{30'003'200});
  EXPECT_TRUE(writer_->advance(kHighStart + 2s));
  EXPECT_EQ(high(), kHighWanted);
  EXPECT_EQ(outcome(), ReserveOutcome{MemoryQosState::written});
  EXPECT_EQ(writer_->next_due(), std::nullopt);
}

// Each recheck applies the values again.
TEST_F(MemoryHighWriterFiles, ApplyTakesNoStep) {
  constexpr Bytes kUsage{80'003'072};
  set("memory.current", kUsage);
  apply(kHighWanted);
  writer_->advance(kHighStart);
  ASSERT_EQ(high(), kUsage - mib(32));
  set("memory.current", kUsage - mib(32));
  for (const Duration after : {200ms, 400ms, 1500ms}) {
    apply(kHighWanted, after);
    EXPECT_EQ(high(), kUsage - mib(32));
    EXPECT_EQ(writer_->next_due(), kHighStart + 1s);
    EXPECT_THAT(outcome().reason, HasSubstr("lowered in steps"));
  }
  EXPECT_TRUE(writer_->advance(kHighStart + 1500ms)) << "the last step";
  EXPECT_EQ(high(), kHighWanted);
}

TEST_F(MemoryHighWriterFiles, AHigherWantedValueEndsTheSteps) {
  set("memory.current", Bytes{80'003'072});
  apply(kHighWanted);
  writer_->advance(kHighStart);
  apply(Bytes{82'001'920});
  EXPECT_EQ(high(), Bytes{82'001'920});
  EXPECT_EQ(outcome(), ReserveOutcome{MemoryQosState::written});
  EXPECT_EQ(writer_->next_due(), std::nullopt);
}

// A step can take a second, and the agent must be able to end between two.
TEST_F(MemoryHighWriterFiles, OneCallTakesAStepOfOneCgroup) {
  std::vector<MemoryReserve> wanted;
  const std::vector<std::string> paths{"/b", "/c", "/d"};
  const auto count_lowered = [&] {
    return std::ranges::count_if(paths, [&](const std::string& path) {
      const auto text = test::read_text(files_ / (path.substr(1) + "/memory.high"));
      return text != std::to_string(kHighBefore.count);
    });
  };
  for (const std::string& path : paths) {
    files_.write(path.substr(1) + "/memory.high", std::to_string(kHighBefore.count));
    files_.write(path.substr(1) + "/memory.current", "80003072");
    wanted.push_back({path, tree_.id_at(path).value(), MemoryQosFile::high, kHighWanted});
  }
  writer_->apply(wanted, kHighStart);
  EXPECT_EQ(count_lowered(), 0);
  for (int n = 1; n <= 3; ++n) {
    writer_->apply(wanted, kHighStart + n * 2s);
    writer_->advance(kHighStart + n * 2s);
    EXPECT_EQ(count_lowered(), n) << "the first one has its next step after the others";
  }
}

TEST_F(MemoryHighWriterFiles, AResetIsWrittenAgainSixTimesInAnHour) {
  apply(kHighWanted);
  for (std::size_t n = 1; n <= MemoryReserveWriter::kRewritesMax; ++n) {
    set("memory.high", kHighBefore);
    apply(kHighWanted, std::chrono::minutes(n));
    EXPECT_EQ(high(), kHighWanted) << n;
    EXPECT_EQ(writer_->rewrites(), n);
  }
  set("memory.high", kHighBefore);
  apply(kHighWanted, 10min);
  EXPECT_EQ(high(), kHighBefore);
  EXPECT_THAT(outcome().reason, HasSubstr("another process resets it"));
  apply(kHighWanted, 2h);
  EXPECT_EQ(high(), kHighWanted);
}

TEST_F(MemoryHighWriterFiles, AnotherValueIsLeftAndNotRestored) {
  apply(kHighWanted);
  set("memory.high", Bytes{70'000'640});
  for (int n = 0; n < 2; ++n) {
    apply(kHighWanted);
    EXPECT_EQ(high(), Bytes{70'000'640});
    EXPECT_EQ(outcome().reason, "another process has written it since");
  }
  EXPECT_FALSE(is_recorded());
  writer_.reset();
  EXPECT_EQ(high(), Bytes{70'000'640});
}

TEST_F(MemoryHighWriterFiles, ALiftLastsUntilItEnds) {
  apply(kHighWanted);
  ASSERT_TRUE(writer_->lift(id(), kHighLifted, "no progress"));
  EXPECT_EQ(high(), kHighLifted);
  EXPECT_EQ(writer_->lifted(id()), kHighLifted);
  apply(kHighWanted);
  EXPECT_EQ(high(), kHighLifted);
  EXPECT_EQ(outcome(), (ReserveOutcome{MemoryQosState::lifted, "no progress"}));
  writer_->end_lift(id(), kHighStart);
  EXPECT_EQ(high(), kHighWanted);
  EXPECT_EQ(outcome(), ReserveOutcome{MemoryQosState::written});
}

TEST_F(MemoryHighWriterFiles, ALiftAboveTheOriginalRestoresIt) {
  apply(kHighWanted);
  ASSERT_TRUE(writer_->lift(id(), Bytes{95'002'624}, "no progress"));
  EXPECT_EQ(high(), kHighBefore);
  EXPECT_EQ(writer_->lifted(id()), kHighBefore);
  EXPECT_EQ(writer_->original(id()), kHighBefore);
  EXPECT_FALSE(is_recorded());
  apply(kHighWanted);
  EXPECT_EQ(high(), kHighBefore);
  EXPECT_EQ(outcome().state, MemoryQosState::lifted);
  writer_->end_lift(id(), kHighStart);
  EXPECT_EQ(high(), kHighWanted);
}

TEST_F(MemoryHighWriterFiles, AHigherWantedValueEndsALift) {
  apply(kHighWanted);
  ASSERT_TRUE(writer_->lift(id(), kHighLifted, "no progress"));
  apply(Bytes{60'002'304});
  EXPECT_EQ(high(), Bytes{60'002'304});
  EXPECT_EQ(outcome(), ReserveOutcome{MemoryQosState::written});
}

// The start restores them; this is one that it could not restore.
TEST_F(MemoryHighWriterFiles, TheOriginalOfAKilledAgentIsKept) {
  set("memory.high", kHighLifted);
  ASSERT_TRUE(records_.write({id(), "/a",
                              to_string(kernel::AmountRecord{kHighBefore, kHighLifted, kHighLifted,
                                                             ProcessId{1, 1'000'000'000}})}));
  apply(kHighWanted);
  EXPECT_EQ(high(), kHighWanted);
  writer_.reset();
  EXPECT_EQ(high(), kHighBefore);
}

TEST_F(MemoryHighWriterFiles, ARecordThatCannotBeReadKeepsTheFile) {
  ASSERT_TRUE(records_.write({id(), "/a", "cut"}));
  apply(kHighWanted);
  EXPECT_EQ(outcome().state, MemoryQosState::failed);
  EXPECT_EQ(high(), kHighBefore);
}

TEST_F(MemoryHighWriterFiles, OfTwoSettingsTheFirstOneApplies) {
  {
    auto slow = kernel::MemoryHigh::open(tree_.open("/a").value(), records_);
    ASSERT_TRUE(slow);
    ASSERT_TRUE(slow->set(kHighLifted));
    apply(kHighWanted);
    EXPECT_EQ(high(), kHighLifted);
    EXPECT_EQ(outcome().state, MemoryQosState::left);
    EXPECT_THAT(outcome().reason, HasSubstr("another setting of the agent"));
  }
  ASSERT_EQ(high(), kHighBefore);
  apply(kHighWanted);
  EXPECT_EQ(high(), kHighWanted);
  writer_.reset();
  EXPECT_EQ(high(), kHighBefore);
}

TEST_F(MemoryHighWriterFiles, AStepThatIsRefusedWaits) {
  set("memory.current", Bytes{80'000'000});
  auto slow = kernel::MemoryHigh::open(tree_.open("/a").value(), records_);
  ASSERT_TRUE(slow);
  ASSERT_TRUE(slow->set(kHighLifted));
  apply(kHighWanted);
  EXPECT_TRUE(writer_->advance(kHighStart));
  const ReserveOutcome refused = outcome();
  EXPECT_THAT(refused.reason, HasSubstr("another setting of the agent"));
  EXPECT_EQ(writer_->next_due(), kHighStart + 10s);
  apply(kHighWanted, 1s);
  EXPECT_EQ(outcome(), refused);
  EXPECT_EQ(writer_->next_due(), kHighStart + 10s);
  EXPECT_FALSE(writer_->advance(kHighStart + 10s));
  EXPECT_EQ(writer_->next_due(), kHighStart + 20s);
}

TEST_F(MemoryHighWriterFiles, AnotherCgroupAtTheSamePathIsNotWritten) {
  CgroupId other = id();
  other.inode += 1000;
  writer_->apply({{"/a", other, MemoryQosFile::high, kHighWanted}}, kHighStart);
  ASSERT_NE(writer_->outcome(other), nullptr);
  EXPECT_EQ(writer_->outcome(other)->state, MemoryQosState::failed);
  EXPECT_EQ(high(), kHighBefore);
}

}  // namespace
}  // namespace forestall::actuators
