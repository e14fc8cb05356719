// SPDX-License-Identifier: Apache-2.0
#include "kernel/file_probe.h"

#include <gtest/gtest.h>

#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

TEST(FileProbe, ReportsWhatThisHostAllows) {
  const auto tree = CgroupTree::discover();
  ASSERT_TRUE(tree) << tree.error().text();
  const auto before = tree->match("/*").value();
  const auto reports = probe_file_features(*tree, {});
  ASSERT_EQ(reports.size(), 4u);
  EXPECT_EQ(reports[0].feature, Feature::usage_eventfd);
  EXPECT_EQ(reports[1].feature, Feature::memory_high);
  EXPECT_EQ(reports[2].feature, Feature::psi_trigger);
  EXPECT_EQ(reports[3].feature, Feature::poll);
  const auto wanted = test::mounts().v1 ? FeatureState::in_use : FeatureState::absent;
  EXPECT_EQ(reports[0].state, wanted) << reports[0].evidence;
  EXPECT_EQ(reports[3].state, FeatureState::in_use) << reports[3].evidence;
  for (const auto& report : reports) EXPECT_FALSE(report.evidence.empty());
}

TEST(FileProbe, ForcedOffIsNotTried) {
  const test::TempTree files{{"cgroup.controllers", ""}};
  const auto tree = CgroupTree::discover(files.path());
  ASSERT_TRUE(tree);
  FeatureSet off;
  off.set();
  for (const auto& report : probe_file_features(*tree, off, "/nowhere")) {
    EXPECT_EQ(report.state, FeatureState::forced_off);
  }
}

TEST(FileProbe, NamesWhatIsMissing) {
  const test::TempTree files{{"cgroup.controllers", ""}, {"proc/vmstat", "nr_anon_pages x\n"}};
  const auto tree = CgroupTree::discover(files.path());
  ASSERT_TRUE(tree);
  const auto reports = probe_file_features(*tree, {}, files / "proc");
  for (const auto& report : reports) {
    EXPECT_EQ(report.state, FeatureState::absent) << to_string(report.feature);
  }
  EXPECT_NE(reports[2].evidence.find("pressure/memory"), std::string::npos);
  EXPECT_NE(reports[3].evidence.find("nr_anon_pages"), std::string::npos);
}

}  // namespace
}  // namespace forestall::kernel
