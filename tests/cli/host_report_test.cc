// SPDX-License-Identifier: Apache-2.0
// The advice of `forestall doctor` about workloads, and notes of `forestall signals`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/agent_run.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string doctor_output(const std::string& nodefs) {
  const TempTree files({{"config.yaml",
                         "evictionHard: {memory.available: 100Mi}\n"
                         "pods: {enabled: false}\n"
                         "filesystems: {nodefs: " +
                             nodefs + "}\n"}});
  const Ran ran = run_forestall({"doctor", "--config", files / "config.yaml"});
  return ran.output + ran.errors;
}

TEST(Doctor, ShowsTheLinesToAddIfNoWorkloadIsConfigured) {
  const std::string output = doctor_output("/");
  EXPECT_THAT(output, HasSubstr("the agent guards no workload"));
  EXPECT_THAT(output, HasSubstr("Add lines such as these"));
  EXPECT_THAT(output, Not(HasSubstr("could be read")));
}

// Not with every descriptor used, for example: the workloads that were not opened may be killed.
TEST(Doctor, GivesNoAdviceAboutWorkloadsIfTheHostWasNotReadCompletely) {
  const std::string output = doctor_output("/nowhere/at/all");
  EXPECT_THAT(output, HasSubstr("no unprotected workload was found, and not all of this host could "
                                "be read: /nowhere/at/all: "));
  EXPECT_THAT(output, Not(HasSubstr("Add lines such as these")));
}

TEST(Signals, ExplainAMissingSwapOnce) {
  const std::string meminfo = read_text("/proc/meminfo");
  if (meminfo.find("SwapTotal:             0 kB") == std::string::npos) {
    GTEST_SKIP() << "not applicable: needs a host without swap, as the CI's is";
  }
  const TempTree files({{"config.yaml",
                         "evictionHard: {memory.available: 100Mi}\n"
                         "pods: {enabled: false}\n"
                         "swap: {available: 10%}\n"}});
  for (const char* format : {"text", "json"}) {
    const Ran ran = run_forestall({"signals", "--config", files / "config.yaml", "-o", format});
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    const std::size_t first = ran.output.find("this node has no swap");
    ASSERT_NE(first, std::string::npos) << ran.output;
    EXPECT_EQ(ran.output.find("this node has no swap", first + 1), std::string::npos) << ran.output;
  }
}

}  // namespace
}  // namespace forestall::test
