// SPDX-License-Identifier: Apache-2.0
// Memory pressure of single containers on cgroup v2, which the development host does not have: a
// container at its memory.high is reported, or lifted while the node has the headroom; what is
// lifted is restored when it is calm, at the agent's end and after a SIGKILL.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>

#include "cli/agent_process.h"
#include "forestall/v1/status.pb.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/file_changes.h"
#include "support/scratch_cgroup.h"
#include "support/scratch_filesystem.h"
#include "support/temp_tree.h"

namespace forestall::vm {
namespace {

using namespace std::chrono_literals;
using test::AgentRun;
using test::mounts;
using testing::HasSubstr;

constexpr Duration kContainerPatience = 120s;
constexpr const char* kPressedPod = "kubepods/burstable/pod33333333-aaaa-4ccc-8ddd-eeeeeeeeeeee";
constexpr const char* kByEvents = "memoryHighEvictionThreshold: 0.5";
constexpr const char* kByPsi = "memoryPSIEvictionThreshold: 1";
constexpr const char* kHighBefore = "67108864\n";
constexpr const char* kMaxOfPod = "167772160\n";
constexpr const char* kPressedPods = R"({"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"tight","namespace":"default",
"uid":"33333333-aaaa-4ccc-8ddd-eeeeeeeeeeee"},"spec":{"priority":0,"containers":[{"name":"app",
"resources":{"requests":{"memory":"32Mi"},"limits":{"memory":"160Mi"}}}]},
"status":{"phase":"Running","containerStatuses":[{"name":"app",
"containerID":"containerd://c0ffee3"}]}}]})";

// The kernel delays each charge above memory.high, and one of a huge page is worth 512 of them.
class ContainerPressure : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mounts().v1)
      GTEST_SKIP() << "not applicable: cgroup v1 has no memory.high; 6.12 v2 runs this";
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    scratch_.child(std::string(kPressedPod) + "/c0ffee3");
    scratch_.write(container_, "memory.max", "167772160");
    scratch_.write(container_, "memory.high", "67108864");  // as the kubelet does
    files_.write("pods.json", kPressedPods);
  }
  void TearDown() override { prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }

  // Without BPF, which it does not need and a guest takes long to load.
  [[nodiscard]] std::string config(const std::string& mode, const std::string& more = "",
                                   const std::string& threshold = kByEvents) const {
    return fmt::format(
        "evictionHard: {{memory.available: 4Mi}}\nrecheckInterval: 200ms\n"
        "disableFeatures: [bpf]\npodList: {}\npods: {{cgroupRoot: {}}}\ncontainerPressure:\n"
        "  mode: {}\n  {}\n  reclaimTime: 1s\n  calmTime: 2s\n{}",
        files_ / "pods.json", scratch_.path(), mode, threshold, more);
  }
  [[nodiscard]] std::string high() const { return scratch_.read(container_, "memory.high"); }
  [[nodiscard]] bool wait_high(const std::string& text) const {
    return test::wait_for_files(scratch_.directory(container_), -1, [&] { return high() == text; });
  }
  // The first status in which this holds for the container.
  static v1::ContainerPressureStatus wait_status(
      AgentRun& agent, const std::function<bool(const v1::PressedCgroup&)>& wanted) {
    v1::AgentStatus status;
    for (const auto end = SystemClock().now() + kContainerPatience; SystemClock().now() < end;) {
      const auto ran =
          test::run_forestall({"status", "--run-dir", agent.directory() / "", "-o", "json"});
      if (!messages::from_json(ran.output, status)) continue;
      const auto& all = status.container_pressure();
      if (std::ranges::any_of(all.pressed(), wanted)) return all;
    }
    ADD_FAILURE() << "the last status was " << status.container_pressure().ShortDebugString();
    return {};
  }
  static std::function<bool(const v1::PressedCgroup&)> is_in(const std::string& stage) {
    return [=](const v1::PressedCgroup& each) { return each.stage() == stage; };
  }
  static std::function<bool(const v1::PressedCgroup&)> is_for(const std::string& cause) {
    return [=](const v1::PressedCgroup& each) { return each.cause() == cause; };
  }
  // In the container: reads a file of 100 MiB again and again.
  [[nodiscard]] int read_again_and_again(const test::ScratchFilesystem& disk) const {
    scratch_.add(container_, getpid());
    std::string block(1 << 20, 'x');
    const int file = ::open((disk / "cache").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    for (int n = 0; n < 100; ++n) {
      if (::write(file, block.data(), block.size()) < 0) return 1;
    }
    for (off_t at = 0;; at = (at + (1 << 20)) % (100 << 20)) {
      if (::pread(file, block.data(), block.size(), at) < 0) return 1;
    }
  }
  static void end(AgentRun& agent) {
    ASSERT_EQ(kill(agent.process().pid(), SIGTERM), 0);
    ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kContainerPatience));
  }

  test::ScratchCgroup scratch_;
  test::TempTree files_;
  const std::string container_ = scratch_.path() + "/" + kPressedPod + "/c0ffee3";
};

TEST_F(ContainerPressure, ObserveReportsTheStagesAndChangesNothing) {
  AgentRun agent(config("observe"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const test::Hog stuck(scratch_, container_, mib(1));
  stuck.grow(mib(90));
  const auto status = wait_status(agent, is_in("lift"));
  EXPECT_EQ(status.mode(), "observe");
  EXPECT_EQ(status.watched(), 1U);
  ASSERT_EQ(status.pressed_size(), 1);
  EXPECT_EQ(status.pressed(0).subject(), "default/tight/app");
  EXPECT_EQ(status.pressed(0).cgroup(), container_);
  EXPECT_EQ(status.pressed(0).cause(), "own-limit");
  EXPECT_EQ(status.pressed(0).result(), "observed only");
  EXPECT_GT(status.pressed(0).high_events(), 0.5);
  EXPECT_EQ(status.reclaimed_bytes(), 0U);
  EXPECT_EQ(high(), kHighBefore);
}

TEST_F(ContainerPressure, IsLiftedWithHeadroomAndRestoredWhenItIsCalm) {
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  {
    const test::Hog stuck(scratch_, container_, mib(1));
    stuck.grow(mib(90));
    ASSERT_TRUE(stuck.wait_grown(kContainerPatience));
    EXPECT_EQ(high(), kMaxOfPod);
    const auto status =
        wait_status(agent, [](const v1::PressedCgroup& each) { return each.has_lifted_from(); });
    ASSERT_EQ(status.pressed_size(), 1);
    EXPECT_EQ(status.pressed(0).lifted_from(), 67108864);
    EXPECT_EQ(status.lifts(), 1U);
  }
  EXPECT_TRUE(wait_high(kHighBefore));
  end(agent);
  EXPECT_EQ(high(), kHighBefore);
}

TEST_F(ContainerPressure, WithoutHeadroomItIsNotLifted) {
  scratch_.limit(scratch_.path(), mib(120));  // it may use 160 MiB
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const test::Hog stuck(scratch_, container_, mib(1));
  stuck.grow(mib(90));
  const auto status = wait_status(agent, [](const v1::PressedCgroup& each) {
    return each.result().find("not lifted") != std::string::npos;
  });
  ASSERT_EQ(status.pressed_size(), 1);
  EXPECT_THAT(status.pressed(0).result(), HasSubstr("too little headroom"));
  EXPECT_EQ(high(), kHighBefore);
  scratch_.limit(scratch_.path(), mib(400));
  EXPECT_TRUE(stuck.wait_grown(kContainerPatience)) << "it is tried again";
}

// Usage is above the value before, so the kernel would reclaim for as long as it can.
TEST_F(ContainerPressure, TheEndAndTheNextStartAfterAKillRestoreItBelowUsage) {
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const test::Hog stuck(scratch_, container_, mib(1));
  stuck.grow(mib(90));
  ASSERT_TRUE(stuck.wait_grown(kContainerPatience));
  ASSERT_EQ(high(), kMaxOfPod);
  ASSERT_EQ(kill(agent.process().pid(), SIGKILL), 0);
  ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kContainerPatience));
  EXPECT_EQ(high(), kMaxOfPod) << "the killed agent has not restored it";
  unlink((agent.directory() / "notify").c_str());  // of the test, not of the agent
  agent.rewrite_config(config("observe"));
  const auto next = cli::AgentProcess::start(test::forestall_executable(),
                                             {"--config", agent.directory() / "config.yaml"},
                                             agent.directory().path());
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_EQ(high(), kHighBefore);
  EXPECT_TRUE(stuck.alive());
}

// Far above it, in page cache: it follows in steps, and the agent does not wait for it.
TEST_F(ContainerPressure, ALiftOfPageCacheIsTakenBackInSteps) {
  AgentRun agent(config("enforce"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  {
    const test::Hog stuck(scratch_, container_, mib(1));
    stuck.grow(mib(90));
    ASSERT_TRUE(stuck.wait_grown(kContainerPatience));
    ASSERT_EQ(high(), kMaxOfPod);
  }
  const test::ScratchFilesystem disk(test::ScratchKind::ext4, mib(200), 1000);
  const test::Child writer([&] {
    scratch_.add(container_, getpid());
    const std::string block(1 << 20, 'x');
    const int file = ::open((disk / "cache").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    for (int n = 0; n < 140; ++n) {
      if (::write(file, block.data(), block.size()) < 0) return 1;
    }
    return 0;
  });
  ASSERT_TRUE(writer.wait_exit(kContainerPatience));
  EXPECT_GT(scratch_.usage(container_), mib(110));
  EXPECT_TRUE(wait_high(kHighBefore));
  EXPECT_LT(scratch_.usage(container_), mib(70));
}

// Reclaim, which would raise PSI, is left out.
TEST_F(ContainerPressure, ThePsiThresholdAloneLiftsAndRestores) {
  AgentRun agent(config("enforce", "", kByPsi));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  {
    const test::Hog stuck(scratch_, container_, mib(1));
    stuck.grow(mib(90));
    ASSERT_TRUE(stuck.wait_grown(kContainerPatience));
    EXPECT_EQ(high(), kMaxOfPod);
    const auto status =
        wait_status(agent, [](const v1::PressedCgroup& each) { return each.has_lifted_from(); });
    EXPECT_EQ(status.lifts(), 1U);
    EXPECT_EQ(status.reclaims_begun(), 0U);
    EXPECT_EQ(status.reclaimed_bytes(), 0U);
  }
  EXPECT_TRUE(wait_high(kHighBefore));
}

// Its own files have no event then: only PSI shows it.
TEST_F(ContainerPressure, AtTheLimitOfItsPodItIsOnlyReported) {
  scratch_.write(container_, "memory.high", "max");
  scratch_.write(container_, "memory.max", "max");
  scratch_.limit(scratch_.path() + "/" + kPressedPod, mib(64));
  AgentRun agent(config("enforce", "", kByPsi));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const test::ScratchFilesystem disk(test::ScratchKind::ext4, mib(200), 1000);
  const test::Child reader([&] { return read_again_and_again(disk); });
  const auto status = wait_status(agent, is_for("limit-above"));
  ASSERT_EQ(status.pressed_size(), 1);
  EXPECT_GT(status.pressed(0).psi(), 1);
  EXPECT_EQ(status.pressed(0).max_events(), 0);
  EXPECT_EQ(status.pressed(0).stage(), "none");
  EXPECT_EQ(status.lifts_begun(), 0U);
  EXPECT_EQ(high(), "max\n");
}

TEST_F(ContainerPressure, OnAShortNodeItIsLeftToTheThresholds) {
  AgentRun agent(config("enforce") +
                 "evictionSoft: {memory.available: 99%}\n"
                 "evictionSoftGracePeriod: {memory.available: 1h}\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const test::Hog stuck(scratch_, container_, mib(1));
  stuck.grow(mib(90));
  const auto status = wait_status(agent, is_for("node"));
  ASSERT_EQ(status.pressed_size(), 1);
  EXPECT_GT(status.pressed(0).high_events(), 0.5);
  EXPECT_EQ(status.pressed(0).stage(), "none");
  EXPECT_EQ(status.lifts_begun(), 0U);
  EXPECT_EQ(high(), kHighBefore);
  EXPECT_TRUE(stuck.alive());
}

TEST_F(ContainerPressure, APodThatStaysUnderPressureIsEvictedThenKilled) {
  AgentRun agent(config("enforce", "  stages: [evict, kill]\n  evictTime: 2s\n") +
                 "evictionMaxPodGracePeriod: 60\nrecording: {directory: " + files_ / "ring" +
                 ", maxSize: 8Mi}\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const test::Child stuck([&] {
    signal(SIGTERM, SIG_IGN);
    scratch_.add(container_, getpid());
    for (std::string memory;; memory.append(1 << 16, 'x')) {
    }
    return 0;
  });
  ASSERT_TRUE(stuck.wait_exit(kContainerPatience)) << "the stage kill ends its grace";
  const auto events = test::run_forestall({"events", files_ / "ring"});
  EXPECT_THAT(events.output,
              HasSubstr("evicting default/tight: over memory.high.pressure; grace 1m"))
      << events.errors;
  EXPECT_THAT(events.output, HasSubstr("evicted default/tight: over memory.high.pressure; freed"));
  EXPECT_EQ(high(), kHighBefore) << "these stages leave it";
}

}  // namespace
}  // namespace forestall::vm
