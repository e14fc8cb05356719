// SPDX-License-Identifier: Apache-2.0
// The guard's reason to be: the agent is stopped (SIGSTOP) just before memory runs out, and the
// right process dies all the same, before the kernel's OOM killer chooses. FORESTALL_GUARD_TRIALS
// is how often each trial is made; 20 if it is not set.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr Bytes kLimit = mib(256);
constexpr Bytes kThreshold = mib(96);
// Between the guard's zone, 32 MiB above the threshold, and the threshold.
constexpr Bytes kInZone = kLimit - kThreshold - mib(8);
// Past the critical line at half of the threshold, 36 MiB short of the limit.
constexpr Bytes kCritical = kLimit - mib(36);
constexpr Bytes kPace = mib(2);

int trials() {
  const char* wanted = std::getenv("FORESTALL_GUARD_TRIALS");
  return wanted != nullptr ? std::atoi(wanted) : 20;
}

// A watched cgroup with somebody who leaks, somebody large who is calm, and somebody to be kept.
class Node {
 public:
  Node() {
    scratch.limit(scratch.path(), kLimit);
    for (const char* name : {"keep", "leak", "large"}) scratch.child(name);
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return scratch.path() + "/" + name;
  }
  // `first` has the lowest priority; nobody may be ended if it is empty.
  [[nodiscard]] std::string config(const std::string& first, const std::string& more = "") const {
    std::string text = fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\nguard: on\nrecheckInterval: 100ms\n"
        "releaseTimeout: 20s\nwatch:\n  - cgroup: {}\n    available: {}Mi\nworkloads:\n",
        scratch.path(), kThreshold.count >> 20);
    text = more + text;
    for (const std::string name : {"keep", "leak", "large"}) {
      text += fmt::format("  - {{cgroup: {}, name: {}, priority: {}, protected: {}}}\n", path(name),
                          name, name == first ? 0 : 10, first.empty());
    }
    return text;
  }
  [[nodiscard]] std::uint64_t oom_kills() const { return scratch.oom_kills(scratch.path()); }

  ScratchCgroup scratch;
};

bool stop(pid_t pid) {
  int status = 0;
  return ::kill(pid, SIGSTOP) == 0 && ::waitpid(pid, &status, WUNTRACED) == pid &&
         WIFSTOPPED(status);
}

bool was_killed(Hog& hog) {
  if (!hog.child().wait_exit()) return false;
  const int status = hog.child().reap();
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

bool can_guard() {
  return !missing_feature("guard").has_value();
}

bool reaches_others() {
  const auto guard = kernel::Guard::load();
  return guard.ok() && (*guard)->reaches_others();
}

struct Tally {
  int shots = 0;
  int wrong = 0;
  int missed = 0;
};

void print(const char* what, int made, const Tally& tally, std::uint64_t oom_kills) {
  std::printf(
      "%s: %d trials, %d correct shots, %d wrong victims, %d missed, %lu kernel OOM kills\n", what,
      made, tally.shots, tally.wrong, tally.missed, static_cast<unsigned long>(oom_kills));
  std::printf("@metric guard_%s_correct %d\n", what, tally.shots);
}

// One agent for all trials; each time it is stopped once it has listed the victim, and goes on when
// that is dead, to complete the kill and put it on record.
void run_trials(const char* what, const std::string& victim_name, Bytes leaker, Bytes large,
                Bytes spurt) {
  const Node node;
  AgentRun agent(node.config(victim_name));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const pid_t pid = agent.process().pid();
  Tally tally;
  const Hog keep(node.scratch, node.path("keep"), mib(16));
  for (int trial = 0; trial < trials(); ++trial) {
    Hog leak(node.scratch, node.path("leak"), leaker);
    Hog calm(node.scratch, node.path("large"), large);
    Hog& victim = victim_name == "leak" ? leak : calm;
    const Hog& other = victim_name == "leak" ? calm : leak;
    const pid_t victim_pid = victim.pid();
    ASSERT_TRUE(agent.process().wait_log(fmt::format("first={}", victim_pid),
                                         SystemClock().now() + kPatience))
        << agent.process().log();
    ASSERT_TRUE(stop(pid));
    leak.leak(spurt, kPace);
    const bool killed = was_killed(victim);
    const bool right = killed && node.oom_kills() == 0;
    if (!other.alive() || !keep.alive()) ++tally.wrong;
    if (!right) ++tally.missed;
    ASSERT_EQ(::kill(pid, SIGCONT), 0);
    const auto record = agent.wait_record([](const v1::Record& each) {
      return each.has_outcome() && each.decision().reason() == v1::Decision::GUARD_SHOT;
    });
    ASSERT_TRUE(record) << agent.process().log();
    EXPECT_EQ(record->outcome().victim().name(), victim_name);
    EXPECT_EQ(record->outcome().state(), v1::KillProgress::RELEASED);
    if (right &&
        agent.process().log().find(fmt::format("pid={} way=", victim_pid)) != std::string::npos) {
      ++tally.shots;
    }
  }
  print(what, trials(), tally, node.oom_kills());
  EXPECT_EQ(tally.shots, trials()) << agent.process().log();
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(node.oom_kills(), 0U);
  EXPECT_EQ(count(agent.process().log(), "what=shot"), static_cast<std::size_t>(trials()));
}

TEST(GuardTrial, TheLeakerAtFullSpeedWhileTheAgentIsStopped) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  // Faster than anybody could look: up to the limit without a pause.
  run_trials("leaker", "leak", kInZone - mib(24), mib(8), kLimit);
}

TEST(GuardTrial, AnotherThanTheLeakerWhileTheAgentIsStopped) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  if (!reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  run_trials("other", "large", mib(40), kInZone - mib(56), kCritical - kInZone);
}

// Of equal priority, and much smaller than its calm neighbour: by kubelet's order that one goes.
TEST(GuardTrial, WhoGrewGoesBeforeWhoIsLarge) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  const Node node;
  const Hog large(node.scratch, node.path("large"), kInZone - mib(48));
  Hog leak(node.scratch, node.path("leak"), mib(40));
  AgentRun agent(node.config("nobody", "ranking: kubelet+growth\n"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto wait_first = [&](pid_t pid) {
    return agent.process().wait_log(fmt::format("first={}", pid), SystemClock().now() + kPatience);
  };
  ASSERT_TRUE(wait_first(large.pid())) << agent.process().log();
  leak.grow(mib(6));
  ASSERT_TRUE(wait_first(leak.pid())) << agent.process().log();
  ASSERT_TRUE(stop(agent.process().pid()));
  leak.leak(kCritical - kInZone, kPace);
  EXPECT_TRUE(was_killed(leak));
  EXPECT_TRUE(large.alive());
  EXPECT_EQ(node.oom_kills(), 0U);
  ASSERT_EQ(::kill(agent.process().pid(), SIGCONT), 0);
  const auto record = agent.wait_record([](const v1::Record& each) {
    return each.has_outcome() && each.decision().reason() == v1::Decision::GUARD_SHOT;
  });
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().name(), "leak");
  EXPECT_GT(record->decision().considered(0).sample().growth_bytes(), mib(4).count);
}

// Nobody is listed, so nobody is shot: not even with the agent stopped past the critical line.
TEST(GuardTrial, NobodyWhoIsProtected) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  const Node node;
  AgentRun agent(node.config(""));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  for (int trial = 0; trial < trials(); ++trial) {
    Hog leak(node.scratch, node.path("leak"), kInZone - mib(8));
    ASSERT_TRUE(stop(agent.process().pid()));
    leak.grow(kCritical - kInZone);
    ASSERT_TRUE(leak.wait_grown());
    EXPECT_TRUE(leak.alive());
    ASSERT_EQ(::kill(agent.process().pid(), SIGCONT), 0);
  }
  EXPECT_EQ(node.oom_kills(), 0U);
  EXPECT_EQ(count(agent.process().log(), "event=guard"), 0U) << agent.process().log();
  std::printf("protected: %d trials, 0 shots\n", trials());
}

// Each way a list can be out of date when its line is crossed, in turns.
TEST(GuardTrial, NobodyByAStaleList) {
  auto guard = kernel::Guard::load();
  ASSERT_TRUE(guard.ok()) << guard.error().text();
  auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  const Node node;
  auto subject = tree->open(node.scratch.path());
  const auto leak = tree->open(node.path("leak"));
  ASSERT_TRUE(subject.ok() && leak.ok());
  int shots = 0;
  for (int trial = 0; trial < trials(); ++trial) {
    Hog hog(node.scratch, node.path("leak"), mib(8));
    auto victim = (*guard)->identify(hog.pid(), leak->id());
    ASSERT_TRUE(victim.ok());
    kernel::GuardList list;
    list.subject = subject->id();
    list.subject_fd = subject->fd();
    list.line = mib(48);
    list.expires = SystemClock().now() + kPatience;
    const int kind = trial % 4;
    if (kind == 0) list.expires = SystemClock().now();
    if (kind == 1) victim->start_ns -= 1;
    list.victims = {*victim};
    ASSERT_TRUE((*guard)->arm({&list, 1}).ok());
    if (kind == 2) node.scratch.add(node.path("large"), hog.pid());
    if (kind == 3) (*guard)->disarm();
    hog.grow(mib(64));
    ASSERT_TRUE(hog.wait_grown());
    ASSERT_TRUE((*guard)->look().ok());
    EXPECT_TRUE(hog.alive()) << "kind " << kind;
    (*guard)->drain([&](const abi_guard_report& report) {
      if (report.kind == ABI_GUARD_SHOT) ++shots;
    });
    (*guard)->disarm();
  }
  EXPECT_EQ(shots, 0);
  EXPECT_EQ(node.oom_kills(), 0U);
  std::printf("stale: %d trials, %d shots\n", trials(), shots);
}

}  // namespace
}  // namespace forestall::test
