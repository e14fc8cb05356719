// SPDX-License-Identifier: Apache-2.0
// The guard between two agents of a service, kept by a real systemd as PID 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "base/clock.h"
#include "clients/unit_restart.h"
#include "integration/guard_trial.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::vm::kept_guard_cases {
namespace {

using test::Hog;
using test::kPatience;
using test::TempTree;
using testing::HasSubstr;
using namespace test::guard_trial;  // NOLINT(google-build-using-namespace)

constexpr const char* kUnit = "kept-guard.service";

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null").c_str()) == 0;  // NOLINT(cert-env33-c)
}

class KeptGuardOfSystemd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!clients::systemd_is_running()) {
      GTEST_SKIP() << "not applicable: PID 1 is not systemd; the guest 6.12 systemd runs this";
    }
    place_.write("config.yaml", node_.config("none",
                                             "ranking: kubelet+growth\n"
                                             "untilOom: {available: 0%}\n"));
    ASSERT_TRUE(install(16));
    ASSERT_TRUE(runs(std::string("systemctl start ") + kUnit)) << text();
    ASSERT_TRUE(wait_for("what=standing", 1)) << text();
  }
  void TearDown() override {
    if (clients::systemd_is_running())
      static_cast<void>(runs(std::string("systemctl stop ") + kUnit));
  }

  // As the shipped unit, with time for the leak before the next agent.
  [[nodiscard]] bool install(int stored_max) const {
    const std::string unit =
        "[Service]\nType=notify\nFileDescriptorStoreMax=" + std::to_string(stored_max) +
        "\nRestart=always\nRestartSec=20\nOOMScoreAdjust=-1000\nExecStart=" +
        test::forestall_executable() + " agent --config " + place_ / "config.yaml" + " --run-dir " +
        place_.path().string() + " --keep-guard systemd\nStandardOutput=append:" + log() +
        "\nStandardError=append:" + log() + "\n";
    std::ofstream(std::string("/run/systemd/system/") + kUnit) << unit;
    return runs("systemctl daemon-reload");
  }
  [[nodiscard]] bool status_has(const std::string& part) const {
    return runs(test::forestall_executable() + " status --run-dir " + place_.path().string() +
                " | grep -F '" + part + "'");
  }
  [[nodiscard]] std::string log() const { return place_ / "agent.log"; }
  [[nodiscard]] std::string text() const {
    std::ifstream file(log());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Until the log of all agents so far has it so often.
  [[nodiscard]] bool wait_for(const std::string& part, std::size_t times) const {
    const MonotonicTime end = SystemClock().now() + 2 * kPatience;
    for (; SystemClock().now() < end; ::poll(nullptr, 0, 200)) {
      if (count(text(), part) >= times) return true;
    }
    return false;
  }

  const TempTree place_;
  const Node node_;
  Hog keep_{node_.scratch, node_.path("keep"), kKept};
  Hog large_{node_.scratch, node_.path("large"), mib(24)};
  Hog leak_{node_.scratch, node_.path("leak"), mib(8)};
};

TEST_F(KeptGuardOfSystemd, ActsAfterTheServiceWasKilled) {
  ASSERT_TRUE(runs(std::string("systemctl kill -s KILL ") + kUnit));
  leak_.leak(kCritical - kKept - mib(32), kPace);
  EXPECT_TRUE(was_killed(leak_));
  EXPECT_EQ(count(text(), "what=standing"), 1U) << "the next agent has acted";
  EXPECT_TRUE(large_.alive() && keep_.alive());
  EXPECT_EQ(node_.oom_kills(), 0U);
  EXPECT_TRUE(wait_for("agent=former", 1)) << text();
  EXPECT_TRUE(wait_for("reason=guard-shot", 1)) << text();
  EXPECT_TRUE(wait_for("what=ended-former", 1)) << text();
  EXPECT_TRUE(large_.alive() && keep_.alive());
}

// Each restart is an upgrade. No guard stays, and the store has room for the next one.
TEST_F(KeptGuardOfSystemd, IsTakenOverAtEachRestart) {
  for (std::size_t restarts = 1; restarts <= 3; ++restarts) {
    ASSERT_TRUE(runs(std::string("systemctl restart ") + kUnit)) << text();
    ASSERT_TRUE(wait_for("what=ended-former", restarts)) << text();
    ASSERT_TRUE(wait_for("what=standing", restarts + 1)) << text();
  }
  EXPECT_THAT(text(), testing::Not(HasSubstr("problem=")));
  EXPECT_THAT(text(), testing::Not(HasSubstr("agent=former")));
  EXPECT_TRUE(status_has("guard: stays when the agent ends (systemd, "));
}

TEST_F(KeptGuardOfSystemd, AStoreWithoutRoomIsReported) {
  ASSERT_TRUE(install(0));
  ASSERT_TRUE(runs(std::string("systemctl restart ") + kUnit)) << text();
  EXPECT_TRUE(wait_for("what=not-kept", 1)) << text();
  EXPECT_TRUE(
      status_has("guard ENDS WITH THE AGENT: kept-guard.service has "
                 "FileDescriptorStoreMax=0"));
}

}  // namespace
}  // namespace forestall::vm::kept_guard_cases
