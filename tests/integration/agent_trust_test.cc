// SPDX-License-Identifier: Apache-2.0
// The agent refuses files that others than root can change; other commands read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include "support/agent_run.h"

namespace forestall::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kConfig =
    "kubeletConfig: kubelet.yaml\npodList: pods.json\nmanifest: manifest.yaml\ndryRun: true\n";

class AgentTrust : public ::testing::Test {
 protected:
  void mode(const std::string& file, mode_t bits) const {
    ASSERT_EQ(::chmod((files_ / file).c_str(), bits), 0);
  }
  const TempTree files_{
      {"config.yaml", kConfig},
      {"kubelet.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"},
      {"pods.json", R"({"kind": "PodList", "items": []})"},
      {"manifest.yaml", "pods: []\n"}};
};

TEST_F(AgentTrust, RefusesEachFileThatOthersCanWrite) {
  for (const std::string file : {"config.yaml", "kubelet.yaml", "pods.json", "manifest.yaml"}) {
    mode(file, 0666);
    const Ran agent =
        run_forestall({"agent", "--config", files_ / "config.yaml", "--run-dir", files_ / "run"});
    EXPECT_EQ(agent.exit_code, 2) << agent.errors;
    EXPECT_THAT(agent.errors,
                HasSubstr("file " + (files_ / file) + " is owned by uid 0 with mode 0666"));
    EXPECT_THAT(agent.errors, HasSubstr("run `chmod go-w " + (files_ / file) + "`"));
    const Ran check = run_forestall({"check-config", "--config", files_ / "config.yaml"});
    EXPECT_EQ(check.exit_code, 0) << check.errors;
    EXPECT_THAT(check.errors, HasSubstr("the agent refuses a file: file " + (files_ / file)));
    mode(file, 0644);
  }
  const Ran check = run_forestall({"check-config", "--config", files_ / "config.yaml"});
  EXPECT_THAT(check.errors, Not(HasSubstr("the agent refuses")));
}

TEST_F(AgentTrust, KeepsTheConfigurationInForceIfAReloadFindsOne) {
  AgentRun agent("dryRun: true\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_EQ(::chmod((agent.directory() / "config.yaml").c_str(), 0666), 0);
  ASSERT_EQ(::kill(agent.process().pid(), SIGHUP), 0);
  EXPECT_TRUE(
      agent.process().wait_for_log("event=reload-refused", SystemClock().now() + kPatience));
  EXPECT_THAT(agent.process().log(), HasSubstr("with mode 0666"));
}

TEST_F(AgentTrust, FollowsThePodList) {
  const auto list = [](const std::string& uid) {
    return R"({"kind": "PodList", "items": [{"metadata": {"uid": ")" + uid +
           R"(", "name": "n"}}]})";
  };
  files_.write("pods.json", list("a"));
  AgentRun agent("dryRun: true\npodList: " + (files_ / "pods.json") + "\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  files_.write("pods.json", R"({"kind": "PodList", "items": []})");
  EXPECT_TRUE(agent.process().wait_for_log("event=pod-list ", SystemClock().now() + kPatience));
  EXPECT_THAT(agent.process().log(), HasSubstr("pods=0"));
}

}  // namespace
}  // namespace forestall::test
