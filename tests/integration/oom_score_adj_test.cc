// SPDX-License-Identifier: Apache-2.0
// Reads and sets oom_score_adj of real processes in a real cgroup.
#include "actuators/oom_score_adj.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using actuators::check_oom_score_adj;
using actuators::ExpectedOomScoreAdj;

std::int64_t adj_of(pid_t pid) {
  std::int64_t value = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/oom_score_adj") >> value;
  return value;
}

class OomScoreAdjTest : public ::testing::Test {
 protected:
  void set_own(std::int64_t value) const {
    std::ofstream("/proc/" + std::to_string(hog_.pid()) + "/oom_score_adj") << value;
    ASSERT_EQ(adj_of(hog_.pid()), value);
  }
  [[nodiscard]] std::vector<ExpectedOomScoreAdj> expect(std::int64_t value) const {
    return {{"default/web: app", path_, value}};
  }

  kernel::CgroupTree tree_ = kernel::CgroupTree::discover().value();
  ScratchCgroup scratch_;
  const std::string path_ = scratch_.child("container");
  Hog hog_{scratch_, path_, mib(1)};
};

TEST_F(OomScoreAdjTest, ObservingReportsAndSetsNothing) {
  set_own(500);
  const auto findings = check_oom_score_adj(tree_, expect(900), false);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().container, "default/web: app");
  EXPECT_EQ(findings.front().pid, hog_.pid());
  EXPECT_EQ(findings.front().found, 500);
  EXPECT_EQ(findings.front().expected, 900);
  EXPECT_FALSE(findings.front().corrected);
  EXPECT_EQ(adj_of(hog_.pid()), 500);
}

TEST_F(OomScoreAdjTest, EnforcingSetsAndIsSatisfiedAfterwards) {
  set_own(500);
  const auto findings = check_oom_score_adj(tree_, expect(900), true);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_TRUE(findings.front().corrected);
  EXPECT_EQ(adj_of(hog_.pid()), 900);
  EXPECT_TRUE(check_oom_score_adj(tree_, expect(900), true).empty());
}

TEST_F(OomScoreAdjTest, AMainProcessThatIsTooEasyToKillDeviatesToo) {
  set_own(950);
  const auto findings = check_oom_score_adj(tree_, expect(900), false);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().found, 950);
}

void set_adj(std::int64_t value) {
  std::ofstream("/proc/self/oom_score_adj") << value;
}

// Forks a process that sets its own value and lives until its parent exits.
void fork_with(std::int64_t value) {
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_adj(value);
  for (;;) pause();
}

TEST_F(OomScoreAdjTest, AChildMayBeEasierToKillButNotHarder) {
  const std::string group = scratch_.child("family");
  const Child main_process([&]() -> int {
    scratch_.add(group, getpid());
    fork_with(850);
    fork_with(950);
    set_adj(900);
    for (;;) pause();
  });
  const std::vector<std::int64_t> wanted{850, 900, 950};
  std::vector<std::int64_t> values;
  while (values != wanted && !main_process.ended()) {
    values.clear();
    for (const pid_t pid : scratch_.processes(group)) values.push_back(adj_of(pid));
    std::sort(values.begin(), values.end());
  }
  const std::vector<ExpectedOomScoreAdj> expected{{"default/web: family", group, 900}};
  const auto findings = check_oom_score_adj(tree_, expected, true);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().found, 850);
  EXPECT_TRUE(findings.front().corrected);
  EXPECT_NE(findings.front().pid, main_process.pid());
}

TEST_F(OomScoreAdjTest, SkipsExitedProcesses) {
  const std::vector<ExpectedOomScoreAdj> gone{{"default/gone: app", path_ + "/none", 900}};
  EXPECT_TRUE(check_oom_score_adj(tree_, gone, true).empty());
}

}  // namespace
}  // namespace forestall::test
