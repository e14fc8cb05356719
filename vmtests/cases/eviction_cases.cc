// SPDX-License-Identifier: Apache-2.0
// Kubelet's eviction rules over time, on a machine of its own: soft thresholds with grace periods,
// recovery within them, conditions that must not flap, hard thresholds that must not wait for a
// slow soft eviction, and nodes that run out of PIDs. tests/integration/filesystem_test.cc has the
// disks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>

#include "cases/pod_node.h"

namespace forestall::vm {
namespace {

using testing::ElementsAre;

constexpr Duration kPatience = std::chrono::seconds(90);
// More than the kernel's reserve, which memory.available does not count (its OOM killer has come at
// 120 MiB), and far less than these cases use.
constexpr Bytes kHard = mib(250);

// A node whose memory.available is `room` above the soft threshold without growth.
class SoftNode {
 public:
  SoftNode(std::vector<Pod> pods, Bytes room, const std::string& grace, const std::string& more)
      : node(Driver::cgroupfs, std::move(pods)) {
    const Bytes soft = memory_available() - room;
    rules_ = fmt::format(
        "evictionSoft: {{memory.available: {}}}\nevictionSoftGracePeriod: {{memory.available: "
        "{}}}\n",
        soft.count, grace);
    agent = guard(node, node.config(kHard, rules_ + more));
  }

  // Replaces the `more` of the constructor.
  void reload(const std::string& more) const {
    agent->rewrite_config(node.config(kHard, rules_ + more));
    ::kill(agent->process().pid(), SIGHUP);
  }

  // The next record with this reason.
  std::optional<v1::Record> wait_reason(v1::Decision::Reason reason) const {
    return agent->wait_record(
        [&](const v1::Record& record) { return record.decision().reason() == reason; }, kPatience);
  }
  // The next record in which MemoryPressure changed.
  std::optional<v1::Record> wait_condition(bool status) const {
    return agent->wait_record([&](const v1::Record& record) { return changed_to(record, status); },
                              kPatience);
  }
  static bool changed_to(const v1::Record& record, bool status) {
    for (const auto& each : record.decision().conditions()) {
      if (each.type() == "MemoryPressure" && each.changed()) return each.status() == status;
    }
    return false;
  }

  PodNode node;
  std::unique_ptr<test::AgentRun> agent;

 private:
  std::string rules_;
};

Duration seen_at(const v1::Record& record) {
  return Duration(record.observation().at_ns());
}

TEST(Eviction, ASoftThresholdActsAfterItsGrace) {
  SoftNode soft({{"modest", 0, mib(256), mib(64)}, {"greedy", 0, mib(16), mib(16)}}, mib(80), "3s",
                "evictionMaxPodGracePeriod: 20");
  ASSERT_FALSE(soft.agent->failure()) << soft.agent->failure()->text();
  const std::uint64_t before = kernel_oom_kills();
  soft.node.hog("greedy").grow(mib(140));
  const auto waiting = soft.wait_reason(v1::Decision::IN_GRACE);
  ASSERT_TRUE(waiting) << soft.agent->process().log();
  EXPECT_TRUE(SoftNode::changed_to(*waiting, true)) << "the condition does not wait for the grace";
  const auto killed = soft.agent->wait_kill(kPatience);
  ASSERT_TRUE(killed) << soft.agent->process().log();
  EXPECT_EQ(killed->outcome().victim().name(), "greedy");
  EXPECT_GE(seen_at(*killed) - seen_at(*waiting), std::chrono::milliseconds(2900));
  EXPECT_EQ(killed->decision().evictions(0).grace_ns(), 20'000'000'000);
  EXPECT_FALSE(killed->decision().evictions(0).at_once());
  EXPECT_TRUE(soft.node.hog("greedy").child().wait_exit());
  // It received SIGTERM and exited: no process had to be killed.
  const int status = soft.node.hog("greedy").child().reap();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_THAT(soft.node.dead(), ElementsAre("greedy"));
  EXPECT_EQ(kernel_oom_kills(), before);
}

// Sets the guest's clock back, and forward again at the end: later cases have files with times.
class ClockSetBack {
 public:
  explicit ClockSetBack(std::chrono::seconds by) : by_(by) { step(-by.count()); }
  ClockSetBack(const ClockSetBack&) = delete;
  ClockSetBack& operator=(const ClockSetBack&) = delete;
  ~ClockSetBack() { step(by_.count()); }

 private:
  static void step(std::int64_t seconds) {
    timespec now{};
    EXPECT_EQ(::clock_gettime(CLOCK_REALTIME, &now), 0);
    now.tv_sec += seconds;
    EXPECT_EQ(::clock_settime(CLOCK_REALTIME, &now), 0) << std::strerror(errno);
  }

  const std::chrono::seconds by_;
};

TEST(Eviction, AClockThatIsSetBackChangesNeitherGraceNorVictim) {
  SoftNode soft({{"modest", 0, mib(256), mib(64)}, {"greedy", 0, mib(16), mib(16)}}, mib(80), "3s",
                "evictionMaxPodGracePeriod: 20");
  ASSERT_FALSE(soft.agent->failure()) << soft.agent->failure()->text();
  const std::uint64_t before = kernel_oom_kills();
  soft.node.hog("greedy").grow(mib(140));
  const auto waiting = soft.wait_reason(v1::Decision::IN_GRACE);
  ASSERT_TRUE(waiting) << soft.agent->process().log();
  const ClockSetBack clock(std::chrono::hours(1));
  const auto killed = soft.agent->wait_kill(kPatience);
  ASSERT_TRUE(killed) << soft.agent->process().log();
  EXPECT_EQ(killed->outcome().victim().name(), "greedy");
  const Duration grace = seen_at(*killed) - seen_at(*waiting);
  EXPECT_GE(grace, std::chrono::milliseconds(2900));
  EXPECT_LT(grace, std::chrono::seconds(30));
  EXPECT_LT(killed->wall_time().seconds(), waiting->wall_time().seconds()) << "it was set back";
  EXPECT_TRUE(soft.node.hog("greedy").child().wait_exit());
  EXPECT_THAT(soft.node.dead(), ElementsAre("greedy"));
  EXPECT_EQ(kernel_oom_kills(), before);
}

TEST(Eviction, RecoveryInsideTheGraceSparesEverybody) {
  SoftNode soft({{"modest", 0, mib(256), mib(64)}, {"brief", 0, mib(16), mib(16)}}, mib(80), "60s",
                "evictionPressureTransitionPeriod: 4s");
  ASSERT_FALSE(soft.agent->failure()) << soft.agent->failure()->text();
  soft.node.hog("brief").grow(mib(140));
  const auto risen = soft.wait_condition(true);
  ASSERT_TRUE(risen) << soft.agent->process().log();
  soft.node.hog("brief").child().reap();
  const auto over = soft.wait_reason(v1::Decision::NO_THRESHOLD_MET);
  ASSERT_TRUE(over) << soft.agent->process().log();
  EXPECT_FALSE(SoftNode::changed_to(*over, false)) << "the condition fell without its period";
  const auto fallen = soft.wait_condition(false);
  ASSERT_TRUE(fallen) << soft.agent->process().log();
  EXPECT_GE(seen_at(*fallen) - seen_at(*over), std::chrono::milliseconds(2500));
  EXPECT_EQ(soft.agent->process().log().find("action=kill"), std::string::npos);
}

TEST(Eviction, AConditionDoesNotFlapWhileMemoryDoes) {
  SoftNode soft({{"modest", 0, mib(256), mib(64)}}, mib(80), "120s",
                "evictionPressureTransitionPeriod: 1h");  // longer than the rounds take
  ASSERT_FALSE(soft.agent->failure()) << soft.agent->failure()->text();
  for (int round = 0; round < 3; ++round) {
    test::Hog passing(soft.node.groups(), soft.node.container_path("modest"), mib(140));
    ASSERT_TRUE(soft.wait_reason(v1::Decision::IN_GRACE)) << soft.agent->process().log();
    passing.child().reap();
    ASSERT_TRUE(soft.wait_reason(v1::Decision::NO_THRESHOLD_MET)) << soft.agent->process().log();
  }
  const std::string rise = "condition=MemoryPressure status=True";
  const std::string fall = "condition=MemoryPressure status=False";
  EXPECT_EQ(soft.agent->process().log().find(fall), std::string::npos);
  soft.reload("evictionPressureTransitionPeriod: 1s");
  ASSERT_TRUE(soft.wait_condition(false)) << soft.agent->process().log();
  const std::string log = soft.agent->process().log();
  EXPECT_NE(log.find(rise), std::string::npos) << log;
  EXPECT_EQ(log.find(rise), log.rfind(rise)) << log;
  EXPECT_EQ(log.find(fall), log.rfind(fall)) << log;
  EXPECT_TRUE(soft.node.dead().empty());
}

// A process of the pod that holds memory and ignores SIGTERM.
test::Child deaf_hog(const PodNode& node, const std::string& pod, Bytes held) {
  return test::Child([&node, pod, held] {
    signal(SIGTERM, SIG_IGN);
    node.groups().add(node.container_path(pod), getpid());
    const auto size = static_cast<std::size_t>(held.count);
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (;;) pause();
  });
}

TEST(Eviction, AHardThresholdDoesNotWaitForASlowSoftEviction) {
  SoftNode soft({{"deaf", 0, mib(16), mib(8)}, {"leak", 10, mib(16), mib(8)}}, mib(80), "1s",
                "evictionMaxPodGracePeriod: 600");
  ASSERT_FALSE(soft.agent->failure()) << soft.agent->failure()->text();
  const std::uint64_t before = kernel_oom_kills();
  const test::Child deaf = deaf_hog(soft.node, "deaf", mib(200));
  const auto asked = soft.wait_reason(v1::Decision::THRESHOLD_MET);
  ASSERT_TRUE(asked) << soft.agent->process().log();
  EXPECT_EQ(asked->decision().evictions(0).grace_ns(), 600'000'000'000);
  EXPECT_FALSE(deaf.ended());
  // Past the line at full speed, then at a pace that leaves the agent ten seconds before the kernel
  // must act.
  soft.node.hog("leak").leak(memory_available() - kHard + mib(24), mib(6));
  EXPECT_TRUE(deaf.wait_exit(kPatience)) << soft.agent->process().log();
  EXPECT_TRUE(soft.node.hog("leak").child().wait_exit(kPatience)) << soft.agent->process().log();
  EXPECT_EQ(kernel_oom_kills(), before) << soft.agent->process().log();
}

// ---- PIDs ----

// A lower limit for the number of tasks, while this object exists.
class PidMax {
 public:
  explicit PidMax(int ceiling) : before_(test::read_text("/proc/sys/kernel/pid_max")) {
    std::ofstream("/proc/sys/kernel/pid_max") << ceiling;
  }
  ~PidMax() { std::ofstream("/proc/sys/kernel/pid_max") << before_; }
  PidMax(const PidMax&) = delete;
  PidMax& operator=(const PidMax&) = delete;

 private:
  std::string before_;
};

// Forks without end inside the pod, and retries after a failed fork.
test::Child fork_bomb(const PodNode& node, const std::string& pod) {
  return test::Child([&node, pod] {
    node.groups().add(node.container_path(pod), getpid());
    for (;;) (void)fork();
    return 0;
  });
}

TEST(Eviction, EvictsAForkBombBeforePidsRunOut) {
  PodNode node(Driver::cgroupfs, {{"bomb", 0, mib(64), mib(8)}, {"quiet", 0, mib(64), mib(8)}});
  const auto agent = guard(node,
                           "evictionHard: {pid.available: 300}\nmanifest: manifest.yaml\n"
                           "evictionPressureTransitionPeriod: 1s\n");
  ASSERT_FALSE(agent->failure()) << agent->failure()->text();
  const PidMax low(1000);
  const test::Child bomb = fork_bomb(node, "bomb");
  // The condition may end before the last of so many processes is gone.
  std::optional<v1::Record> killed;
  bool fallen = false;
  (void)agent->wait_record(
      [&](const v1::Record& record) {
        if (record.has_outcome()) killed = record;
        for (const auto& each : record.decision().conditions()) {
          fallen = fallen || (each.type() == "PIDPressure" && each.changed() && !each.status());
        }
        return killed && fallen;
      },
      kPatience);
  ASSERT_TRUE(killed) << agent->process().log();
  EXPECT_TRUE(fallen) << agent->process().log();
  EXPECT_EQ(killed->outcome().victim().name(), "bomb");
  EXPECT_GT(killed->outcome().processes(), 100U);
  EXPECT_TRUE(bomb.wait_exit(kPatience));
  EXPECT_TRUE(node.hog("quiet").alive());
}

}  // namespace
}  // namespace forestall::vm
