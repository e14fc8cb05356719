// SPDX-License-Identifier: Apache-2.0
// Lifts of a memory.high that another process has set, on plain files.
#include "actuators/memory_high_lifter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

// A plain file keeps the tail of a longer text, unlike a control file: all values have 8 digits.
constexpr Bytes kSetByKubelet{20'000'768};
constexpr Bytes kLiftedTo{90'001'408};

class MemoryHighLifterFiles : public ::testing::Test {
 protected:
  MemoryHighLifterFiles() {
    auto tree = kernel::CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
    set(kSetByKubelet);
    lifter_.emplace(tree_, records_);
  }
  void set(Bytes high) const { files_.write("a/memory.high", std::to_string(high.count)); }
  [[nodiscard]] Bytes high() const {
    return {std::stoll(test::read_text(files_ / "a/memory.high"))};
  }
  [[nodiscard]] CgroupId id() const { return tree_.id_at("/a").value(); }
  [[nodiscard]] bool is_recorded() const { return records_.read(id()).value().has_value(); }

  test::TempTree files_{{"cgroup.controllers", ""}};
  kernel::CgroupTree tree_;
  test::TempTree run_;
  kernel::SettingRecords records_{run_ / "memory-high"};
  std::optional<MemoryHighLifter> lifter_;
};

TEST_F(MemoryHighLifterFiles, LiftsAndRestores) {
  const auto lifted = lifter_->lift("/a", id(), kLiftedTo + Bytes{7});
  ASSERT_TRUE(lifted) << lifted.error().text();
  EXPECT_EQ(*lifted, kLiftedTo) << "whole pages";
  EXPECT_EQ(high(), kLiftedTo);
  EXPECT_EQ(lifter_->original(id()), kSetByKubelet);
  EXPECT_TRUE(is_recorded());
  ASSERT_TRUE(lifter_->restore(id()));
  EXPECT_EQ(high(), kSetByKubelet);
  EXPECT_EQ(lifter_->original(id()), std::nullopt);
  EXPECT_FALSE(is_recorded());
}

TEST_F(MemoryHighLifterFiles, RestoresAtItsEnd) {
  ASSERT_TRUE(lifter_->lift("/a", id(), kLiftedTo));
  lifter_.reset();
  EXPECT_EQ(high(), kSetByKubelet);
  EXPECT_FALSE(is_recorded());
}

TEST_F(MemoryHighLifterFiles, ReportsWhatItRestores) {
  std::vector<std::string> restored;
  const auto note = [&](CgroupId, const std::string& path, const Result<void>& done) {
    EXPECT_TRUE(done);
    restored.push_back(path);
  };
  ASSERT_TRUE(lifter_->lift("/a", id(), kLiftedTo));
  lifter_->restore_all(note);
  EXPECT_EQ(high(), kSetByKubelet);
  EXPECT_EQ(restored, std::vector<std::string>{"/a"});
  ASSERT_TRUE(lifter_->lift("/a", id(), kLiftedTo));
  set(Bytes{50'003'968});
  lifter_->restore_all(note);
  EXPECT_EQ(high(), Bytes{50'003'968});
  EXPECT_EQ(restored.size(), 1U) << "it is of another process";
}

TEST_F(MemoryHighLifterFiles, AValueOfAnotherProcessStays) {
  ASSERT_TRUE(lifter_->lift("/a", id(), kLiftedTo));
  set(Bytes{50'003'968});
  EXPECT_EQ(lifter_->original(id()), std::nullopt);
  EXPECT_EQ(high(), Bytes{50'003'968});
  EXPECT_FALSE(is_recorded());
}

TEST_F(MemoryHighLifterFiles, NeverLowersAndNeverTakesAReplacedCgroup) {
  EXPECT_FALSE(lifter_->lift("/a", id(), Bytes{10'002'432}));
  EXPECT_FALSE(lifter_->lift("/a", CgroupId{1}, kLiftedTo));
  files_.write("a/memory.high", "max\n     ");
  EXPECT_FALSE(lifter_->lift("/a", id(), kLiftedTo)) << "there is nothing to lift";
  EXPECT_FALSE(is_recorded());
}

TEST_F(MemoryHighLifterFiles, AnotherSettingOfTheAgentKeepsItsOwn) {
  auto other = kernel::MemoryHigh::open(*tree_.open("/a"), records_);
  ASSERT_TRUE(other);
  ASSERT_TRUE(other->set(Bytes{10'002'432}));
  EXPECT_EQ(lifter_->lift("/a", id(), kLiftedTo).error().code, EBUSY);
  EXPECT_EQ(high(), Bytes{10'002'432});
}

}  // namespace
}  // namespace forestall::actuators
