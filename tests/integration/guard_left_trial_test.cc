// SPDX-License-Identifier: Apache-2.0
// The agent ends before memory runs short: by kill -9, or by SIGTERM for an upgrade. Its guard
// still kills the right process before the kernel's OOM killer acts, and the next agent records it.
#include <bpf/bpf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bpf/abi/guard.h"
#include "descriptor_store.h"
#include "guard_trial.h"
#include "kernel/mapped_array.h"
#include "scratch_bpffs.h"
#include "support/agent_run.h"
#include "support/child.h"

namespace forestall::test::guard_trial {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kByGrowth = "ranking: kubelet+growth\n";

class GuardLeftTrial : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<AgentRun> start(const std::string& more = "") const {
    auto agent = std::make_unique<AgentRun>(
        node_.config("none", kByGrowth + more), std::vector<std::string>{},
        std::vector<std::string>{"--keep-guard", bpffs_.pins()});
    if (agent->failure()) throw std::runtime_error(agent->failure()->text());
    return agent;
  }
  static bool stands(AgentRun& agent) {
    return agent.process().wait_for_log("what=standing", SystemClock().now() + kPatience);
  }
  // Starts an agent, and ends it once it has a standing list.
  void leave_a_guard(int signal) {
    const auto agent = start();
    ASSERT_TRUE(stands(*agent)) << agent->process().log();
    end(*agent, signal);
  }
  static void end(AgentRun& agent, int signal) {
    ASSERT_EQ(::kill(agent.process().pid(), signal), 0);
    ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  }
  // As if the guard had killed when the next agent starts.
  void cross_later() const {
    const UniqueFd fd(bpf_obj_get((bpffs_.pins() + "/guard-turn").c_str()));
    const auto turn = kernel::MappedArray<abi_guard_turn>::map(fd.get(), 1, "guard_turn");
    ASSERT_TRUE(turn.ok()) << turn.error().text();
    turn->data()->crossed_ns =
        static_cast<__u64>(to_ns(SystemClock().now() + std::chrono::hours(1)));
  }
  // Fills the node from `leak_` without an agent that runs.
  void expect_only_the_leak_dies() {
    leak_.leak(kCritical - kKept - mib(32), kPace);
    EXPECT_TRUE(was_killed(leak_));
    EXPECT_TRUE(large_.alive() && keep_.alive());
    EXPECT_EQ(node_.oom_kills(), 0U);
  }
  static void expect_recorded(AgentRun& agent) {
    const auto record = agent.wait_record([](const v1::Record& each) {
      return each.has_outcome() && each.decision().reason() == v1::Decision::GUARD_SHOT;
    });
    ASSERT_TRUE(record) << agent.process().log();
    EXPECT_EQ(record->outcome().victim().name(), "leak");
    EXPECT_EQ(record->outcome().state(), v1::KillProgress::RELEASED);
    // A thread writes the log, and another one the record.
    ASSERT_TRUE(agent.process().wait_for_log("what=killed", SystemClock().now() + kPatience));
    EXPECT_EQ(count(agent.process().log(), "what=killed"), 1U) << agent.process().log();
  }

  const Node node_;
  const ScratchBpffs bpffs_;
  const Hog keep_{node_.scratch, node_.path("keep"), kKept};
  Hog large_{node_.scratch, node_.path("large"), mib(24)};
  Hog leak_{node_.scratch, node_.path("leak"), mib(8)};
};

TEST_F(GuardLeftTrial, TheLeakerAfterTheAgentWasKilled) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  expect_only_the_leak_dies();
  const auto next = start();
  expect_recorded(*next);
  EXPECT_THAT(next->process().log(), HasSubstr("agent=former"));
  ASSERT_TRUE(next->process().wait_for_log("what=ended-former", SystemClock().now() + kPatience));
  EXPECT_THAT(bpffs_.names(), Each(Not(StartsWith("guard-1-"))));
}

TEST_F(GuardLeftTrial, TheLeakerBetweenTwoAgents) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGTERM);
  expect_only_the_leak_dies();
  const auto next = start();
  expect_recorded(*next);
}

// Its first decision is to kill. It must not be made without the former guard's kill.
TEST_F(GuardLeftTrial, ItsKillIsRecordedIfTheNextAgentKillsAtOnce) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  expect_only_the_leak_dies();
  // Past the threshold, and not past the guard's line.
  large_.grow(kLimit - kThreshold - kKept - mib(24) + mib(8));
  ASSERT_TRUE(large_.wait_grown());
  const auto next = start();
  const auto record = next->wait_record([](const v1::Record& each) {
    return each.has_outcome() && each.decision().reason() == v1::Decision::GUARD_SHOT;
  });
  ASSERT_TRUE(record) << next->process().log();
  EXPECT_EQ(record->outcome().victim().name(), "leak");
  EXPECT_TRUE(was_killed(large_));
  EXPECT_THAT(next->process().log(), Not(HasSubstr("has no record")));
}

// The next agent's guard acts in its place, and only that.
TEST_F(GuardLeftTrial, TheLeakerAfterTheNextAgentTookOver) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGTERM);
  const auto next = start();
  ASSERT_TRUE(next->process().wait_for_log("what=ended-former", SystemClock().now() + kPatience))
      << next->process().log();
  ASSERT_TRUE(stands(*next));
  EXPECT_THAT(bpffs_.names(), Each(Not(StartsWith("guard-1-"))));
  EXPECT_THAT(bpffs_.names(), Contains(StartsWith("guard-2-")));
  end(*next, SIGKILL);
  expect_only_the_leak_dies();
  const auto last = start();
  expect_recorded(*last);
}

// With the descriptors of the one before, as systemd restarts it. Its log is `log`.
Child run_as_service(const DescriptorStore& manager, const TempTree& place,
                     const std::string& log) {
  return Child([&] {
    const std::string path = place / log;
    const int to = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (to < 0 || ::dup2(to, STDOUT_FILENO) < 0 || ::dup2(to, STDERR_FILENO) < 0) return 1;
    manager.pass();
    const std::string program = forestall_executable(), config = place / "config.yaml";
    ::execl(program.c_str(), program.c_str(), "agent", "--config", config.c_str(), "--run-dir",
            place.path().c_str(), "--keep-guard", "systemd", nullptr);
    return 127;
  });
}

bool wait_for_line(const TempTree& place, const std::string& log, const std::string& text) {
  const std::string path = place / log;
  const UniqueFd watch(::inotify_init1(IN_CLOEXEC));
  if (!watch || ::inotify_add_watch(watch.get(), path.c_str(), IN_MODIFY) < 0) return false;
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  while (SystemClock().now() < deadline) {
    std::ifstream file(path);
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    if (all.find(text) != std::string::npos) return true;
    pollfd ready{watch.get(), POLLIN, 0};
    std::array<char, 4096> events{};
    if (::poll(&ready, 1, 1000) > 0 && ::read(watch.get(), events.data(), events.size()) <= 0) {
      return false;
    }
  }
  return false;
}

TEST_F(GuardLeftTrial, TheLeakerAfterAServiceWasKilled) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  const auto deadline = [] { return SystemClock().now() + kPatience; };
  const TempTree place;
  // As AgentRun does: without a list of the node, which may have less memory left.
  const std::string more = std::string(kByGrowth) + "untilOom: {available: 0%}\n";
  place.write("config.yaml", node_.config("none", more));
  DescriptorStore manager;
  {
    const Child agent = run_as_service(manager, place, "first.log");
    ASSERT_TRUE(manager.wait_for("READY=1", deadline()));
    ASSERT_TRUE(wait_for_line(place, "first.log", "what=standing"));
    ASSERT_EQ(::kill(agent.pid(), SIGKILL), 0);
    ASSERT_TRUE(agent.wait_exit());
  }
  EXPECT_THAT(manager.names(), Contains("guard-1-1-clocks"));
  expect_only_the_leak_dies();
  const Child next = run_as_service(manager, place, "next.log");
  ASSERT_TRUE(manager.wait_for("READY=1", deadline()));
  EXPECT_TRUE(wait_for_line(place, "next.log", "agent=former"));
  EXPECT_TRUE(wait_for_line(place, "next.log", "reason=guard-shot"));
  EXPECT_TRUE(wait_for_line(place, "next.log", "what=ended-former"));
  manager.receive();
  EXPECT_THAT(manager.names(), Each(Not(StartsWith("guard-1-"))));
  EXPECT_THAT(manager.names(), Contains("guard-2-1-clocks"));
}

// systemd would store a part of the next agent's guard, without a problem to report.
TEST_F(GuardLeftTrial, AGuardWithoutRoomForATakeOverIsWithdrawn) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  const TempTree place;
  place.write("config.yaml",
              node_.config("none", std::string(kByGrowth) + "untilOom: {available: 0%}\n"));
  DescriptorStore manager;
  ::setenv("FDSTORE", "10", 1);
  const Child agent = run_as_service(manager, place, "first.log");
  ::unsetenv("FDSTORE");
  ASSERT_TRUE(manager.wait_for("READY=1", SystemClock().now() + kPatience));
  EXPECT_TRUE(wait_for_line(place, "first.log", "what=not-kept"));
  EXPECT_TRUE(wait_for_line(place, "first.log", "what=withdrawn"));
  manager.receive();
  EXPECT_THAT(manager.names(), IsEmpty());
}

TEST_F(GuardLeftTrial, AnAgentWithoutTheGuardRemovesTheFormerOne) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  EXPECT_THAT(bpffs_.names(), Not(IsEmpty()));
  cross_later();
  const std::string config = node_.config("none", kByGrowth);
  std::string off = config;
  off.replace(off.find("guard: on"), 9, "guard: off");
  AgentRun next(off, {}, {"--keep-guard", bpffs_.pins()});
  ASSERT_FALSE(next.failure()) << next.failure()->text();
  EXPECT_THAT(bpffs_.names(), IsEmpty());
  EXPECT_TRUE(next.process().wait_for_log("what=awaits-release", SystemClock().now() + kPatience))
      << next.process().log();
}

TEST_F(GuardLeftTrial, ADryRunEndsTheFormerGuard) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  const auto next = start("dryRun: true\n");
  ASSERT_TRUE(next->process().wait_for_log("what=ended-former", SystemClock().now() + kPatience))
      << next->process().log();
  EXPECT_THAT(bpffs_.names(), Each(Not(StartsWith("guard-1-"))));
}

TEST_F(GuardLeftTrial, ADirectoryThatOthersMayWriteIsLeftAlone) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  ASSERT_EQ(::chmod(bpffs_.pins().c_str(), 0777), 0);
  const auto agent = start();
  ASSERT_TRUE(stands(*agent)) << agent->process().log();
  EXPECT_THAT(agent->process().log(), HasSubstr("has mode 0777: other users can write to it"));
  EXPECT_THAT(bpffs_.names(), IsEmpty());
}

// The former guard stays in force, and the next agent's does not act beside it.
TEST_F(GuardLeftTrial, AGuardInARefusedDirectoryHoldsTheNextOneBack) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  ASSERT_EQ(::chmod(bpffs_.pins().c_str(), 0777), 0);
  const auto next = start();
  ASSERT_TRUE(stands(*next)) << next->process().log();
  EXPECT_THAT(next->process().log(), HasSubstr("is in force and cannot be taken over"));
  ASSERT_EQ(::kill(next->process().pid(), SIGSTOP), 0);
  expect_only_the_leak_dies();
  ASSERT_EQ(::kill(next->process().pid(), SIGCONT), 0);
  EXPECT_EQ(count(next->process().log(), "list=standing"), 0U) << next->process().log();
}

TEST_F(GuardLeftTrial, DoctorListsWhatIsLeft) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  const Ran doctor = run_forestall({"doctor", "--keep-guard", bpffs_.pins(), "--output", "text"});
  EXPECT_THAT(doctor.output, HasSubstr("guard 1 has a list for "));
}

}  // namespace
}  // namespace forestall::test::guard_trial
