// SPDX-License-Identifier: Apache-2.0
// What the thread writes for cgroups near their own limit, on plain files.
#include "actuators/memory_high_throttle.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/file_changes.h"
#include "support/temp_tree.h"

namespace forestall::actuators {
namespace {

// A plain file keeps the tail of a longer text, unlike a control file: all values have one length.
class MemoryHighThrottleFiles : public ::testing::Test {
 protected:
  MemoryHighThrottleFiles() {
    auto tree = kernel::CgroupTree::discover(files_.path());
    if (!tree) throw std::runtime_error(tree.error().text());
    tree_ = std::move(tree).value();
    auto throttle = MemoryHighThrottle::create(tree_, records_);
    if (!throttle) throw std::runtime_error(throttle.error().text());
    throttle_ = std::move(throttle).value();
  }
  ThrottledCgroup throttled(Bytes high) const { return {tree_.open("/a")->id(), "/a", high}; }
  bool becomes(Bytes wanted) const {
    return test::wait_for_files(files_ / "a", -1, [&] {
      return test::read_text(files_ / "a/memory.high") == std::to_string(wanted.count);
    });
  }

  test::TempTree files_{{"cgroup.controllers", ""},
                        {"a/memory.high", std::to_string(mib(400).count)},
                        {"a/memory.current", std::to_string(mib(300).count)}};
  kernel::CgroupTree tree_;
  test::TempTree run_;
  kernel::SettingRecords records_{run_ / "high"};
  std::unique_ptr<MemoryHighThrottle> throttle_;
};

// One write would reclaim 100 MiB before it returns, and nothing else would be served.
TEST_F(MemoryHighThrottleFiles, GoesDownInSteps) {
  throttle_->apply({throttled(mib(200))});
  EXPECT_TRUE(becomes(mib(268)));
  files_.write("a/memory.current", std::to_string(mib(268).count));
  EXPECT_TRUE(becomes(mib(236)));
  files_.write("a/memory.current", std::to_string(mib(150).count));
  EXPECT_TRUE(becomes(mib(200)));
  throttle_->apply({});
  EXPECT_TRUE(becomes(mib(400)));
}

TEST_F(MemoryHighThrottleFiles, TheDestructorRestoresTheValue) {
  throttle_->apply({throttled(mib(310))});
  ASSERT_TRUE(becomes(mib(310)));
  throttle_.reset();
  EXPECT_EQ(test::read_text(files_ / "a/memory.high"), std::to_string(mib(400).count));
}

TEST_F(MemoryHighThrottleFiles, AFailureIsReportedWithTheCgroup) {
  throttle_->apply({throttled(mib(450))});  // never raised
  std::vector<std::string> failures;
  EXPECT_TRUE(test::wait_for_files(files_ / "a", -1, [&] {
    failures = throttle_->take_failures();
    return !failures.empty();
  }));
  EXPECT_TRUE(failures.at(0).starts_with("/a: ")) << failures.at(0);
  EXPECT_TRUE(throttle_->take_failures().empty());
}

}  // namespace
}  // namespace forestall::actuators
