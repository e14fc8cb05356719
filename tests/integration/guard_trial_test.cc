// SPDX-License-Identifier: Apache-2.0
// The agent is stopped (SIGSTOP) just before memory runs out; the guard still kills the right
// process before the kernel's OOM killer acts. FORESTALL_GUARD_TRIALS is the number of repetitions
// of each trial. The default is 5, because a shared emulated machine needs 20 s for one.
//
// A list expires after 3 s, and the leak must reach its line before that on a machine that may fill
// only 10 MiB a second. So the zone, the line and the limit are close together.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "guard_trial.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test::guard_trial {
namespace {

int trials(int by_default = 5) {
  const char* wanted = std::getenv("FORESTALL_GUARD_TRIALS");
  return wanted != nullptr ? std::atoi(wanted) : by_default;
}

bool stop(pid_t pid) {
  int status = 0;
  return ::kill(pid, SIGSTOP) == 0 && ::waitpid(pid, &status, WUNTRACED) == pid &&
         WIFSTOPPED(status);
}

bool reaches_others() {
  const auto guard = kernel::GuardPrograms::load();
  return guard.ok() && (*guard)->reaches_others();
}

// A list expires after three seconds, of which one may have passed when the agent is stopped. On a
// shared emulated machine a leak can be slower than that.
constexpr Duration kListLasts = std::chrono::seconds(2);

enum class Ending : std::uint8_t { killed, wrong, missed, expired };

// The processes of a trial.
struct Cast {
  Hog& victim;
  const Hog& leak;
  const Hog& other;
  const Hog& keep;
};

// Waits until a process has died. Returns when the critical line was reached, or else the end of
// the trial.
MonotonicTime wait_end(const Node& node, const Cast& cast) {
  constexpr Bytes kLine{kLimit.count - kThreshold.count / 2};
  std::optional<MonotonicTime> reached;
  const MonotonicTime give_up = SystemClock().now() + kPatience;
  while (cast.other.alive() && cast.keep.alive() && SystemClock().now() < give_up) {
    const bool dead = cast.victim.child().wait_exit(std::chrono::milliseconds(2));
    if (!reached && node.scratch.usage(node.scratch.path()) >= kLine) reached = SystemClock().now();
    if (dead) break;
  }
  return reached.value_or(SystemClock().now());
}

// The agent is stopped once it has listed the victim. It continues after the victim's death, to
// complete the kill and record it.
Ending try_once(const Node& node, AgentRun& agent, const Cast& cast, Bytes spurt,
                const std::string& victim_name) {
  const std::uint64_t oom_kills = node.oom_kills();
  const pid_t agent_pid = agent.process().pid();
  const pid_t victim_pid = cast.victim.pid();
  const auto listed = fmt::format("first={}", victim_pid);
  if (!agent.process().wait_for_log(listed, SystemClock().now() + kPatience) || !stop(agent_pid)) {
    return Ending::missed;
  }
  const MonotonicTime stopped = SystemClock().now();
  cast.leak.leak(spurt, kPace);
  const bool in_time = wait_end(node, cast) - stopped < kListLasts;
  const bool by_kernel = node.oom_kills() != oom_kills;
  const bool spared = cast.other.alive() && cast.keep.alive();
  const bool killed = spared && was_killed(cast.victim);
  ::kill(agent_pid, SIGCONT);
  if (by_kernel) return in_time ? Ending::missed : Ending::expired;
  if (!spared) return Ending::wrong;
  const auto record = agent.wait_record([](const v1::Record& each) {
    return each.has_outcome() && each.decision().reason() == v1::Decision::GUARD_SHOT;
  });
  if (!killed || !record) return Ending::missed;
  EXPECT_EQ(record->outcome().victim().name(), victim_name);
  EXPECT_EQ(record->outcome().state(), v1::KillProgress::RELEASED);
  // Of the guard kill, not of its completion, when the victim was gone.
  EXPECT_GE(record->outcome().processes(), 1U);
  // Derived from the kill: the other process was small when it was listed, and is gone by now.
  EXPECT_GT(record->outcome().freed_bytes(), kFreedMin.count);
  // A thread writes the log, and another one the record.
  const bool logged = agent.process().wait_for_log(fmt::format("pid={} way=", victim_pid),
                                                   SystemClock().now() + kPatience);
  return logged ? Ending::killed : Ending::missed;
}

// One agent for all trials. If the list had expired, the guard must not kill: such a trial is
// printed and repeated. At most half of the trials may be of this kind.
void run_trials(const char* what, const std::string& victim_name, Bytes leaker, Bytes large,
                Bytes spurt) {
  const Node node;
  AgentRun agent(node.config(victim_name));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  std::map<Ending, int> tally;
  std::uint64_t oom_kills = 0;  // without void trials
  const Hog keep(node.scratch, node.path("keep"), kKept);
  for (int made = 0; made < trials() && tally[Ending::expired] <= trials();) {
    const std::uint64_t before = node.oom_kills();
    const Ending ending = [&] {
      Hog leak(node.scratch, node.path("leak"), leaker);
      Hog calm(node.scratch, node.path("large"), large);
      const bool leaks = victim_name == "leak";
      const Cast cast{leaks ? leak : calm, leak, leaks ? calm : leak, keep};
      return try_once(node, agent, cast, spurt, victim_name);
    }();
    ++tally[ending];
    if (ending == Ending::expired) continue;
    oom_kills += node.oom_kills() - before;
    ++made;
  }
  std::printf(
      "%s: %d trials, %d correct kills, %d wrong victims, %d missed, %lu kernel OOM kills; %d more "
      "whose list expired before the line was reached\n",
      what, trials(), tally[Ending::killed], tally[Ending::wrong], tally[Ending::missed],
      static_cast<unsigned long>(oom_kills), tally[Ending::expired]);
  std::printf("@metric guard_%s_correct %d\n", what, tally[Ending::killed]);
  std::printf("@metric guard_%s_expired %d\n", what, tally[Ending::expired]);
  EXPECT_EQ(tally[Ending::killed], trials()) << agent.process().log();
  EXPECT_EQ(tally[Ending::wrong], 0);
  EXPECT_EQ(oom_kills, 0U);
  EXPECT_EQ(count(agent.process().log(), "what=killed"), static_cast<std::size_t>(trials()));
}

TEST(GuardTrial, TheLeakerAtFullSpeedWhileTheAgentIsStopped) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  // Faster than any user-space process can react: up to the limit without a pause.
  run_trials("leaker", "leak", kInZone - kKept - mib(8), mib(8), kLimit);
}

TEST(GuardTrial, AnotherThanTheLeakerWhileTheAgentIsStopped) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  if (!reaches_others()) {
    GTEST_SKIP() << "not applicable: this kernel signals only the running process; runs on this "
                    "host and in the guest of 7.2";
  }
  run_trials("other", "large", mib(24), kInZone - kKept - mib(24), kCritical - kInZone);
}

// Same priority as its calm neighbour and much smaller: kubelet's order chooses the neighbour.
TEST(GuardTrial, KillsTheGrowingBeforeTheLargeWorkload) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  const Node node;
  const Hog large(node.scratch, node.path("large"), kInZone - mib(28));
  Hog leak(node.scratch, node.path("leak"), mib(20));
  AgentRun agent(node.config("none", "ranking: kubelet+growth\n"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto wait_first = [&](pid_t pid) {
    return agent.process().wait_for_log(fmt::format("first={}", pid),
                                        SystemClock().now() + kPatience);
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

// The agent is stopped far from every threshold, before the leak begins. Each trial has an agent of
// its own, because the list is only made again every 10 s.
TEST(GuardTrial, TheLeakerWhileTheAgentWasStoppedBeforeMemoryWasShort) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  const int wanted = trials(2);
  for (int trial = 0; trial < wanted; ++trial) {
    const Node node;
    const Hog keep(node.scratch, node.path("keep"), kKept);
    const Hog large(node.scratch, node.path("large"), mib(24));
    Hog leak(node.scratch, node.path("leak"), mib(8));
    AgentRun agent(node.config("none", "ranking: kubelet+growth\n"));
    ASSERT_FALSE(agent.failure()) << agent.failure()->text();
    ASSERT_TRUE(agent.process().wait_for_log("what=standing", SystemClock().now() + kPatience))
        << agent.process().log();
    ASSERT_TRUE(stop(agent.process().pid()));
    leak.leak(kCritical - kKept - mib(32), kPace);
    EXPECT_TRUE(was_killed(leak)) << trial;
    EXPECT_TRUE(large.alive() && keep.alive());
    EXPECT_EQ(node.oom_kills(), 0U);
    ASSERT_EQ(::kill(agent.process().pid(), SIGCONT), 0);
    const auto record = agent.wait_record([](const v1::Record& each) {
      return each.has_outcome() && each.decision().reason() == v1::Decision::GUARD_SHOT;
    });
    ASSERT_TRUE(record) << agent.process().log();
    EXPECT_EQ(record->outcome().victim().name(), "leak");
    EXPECT_EQ(record->outcome().state(), v1::KillProgress::RELEASED);
    EXPECT_TRUE(agent.process().wait_for_log("what=killed", SystemClock().now() + kPatience));
    EXPECT_EQ(count(agent.process().log(), "what=killed"), 1U);
  }
  std::printf("calm: %d trials\n", wanted);
}

// Without a list, the guard kills no process, even with the agent stopped past the critical line.
// The agent has seen the threshold met each time without a candidate.
TEST(GuardTrial, KillsNoProtectedProcess) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  const Node node;
  const Hog large(node.scratch, node.path("large"), kInZone - mib(16));
  AgentRun agent(node.config(""));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto wait_reason = [&](v1::Decision::Reason reason) {
    return agent.wait_record(
        [&](const v1::Record& each) { return each.decision().reason() == reason; });
  };
  for (int trial = 0; trial < trials(); ++trial) {
    {
      Hog leak(node.scratch, node.path("leak"), mib(8));
      leak.grow(kLimit - kThreshold - kInZone + mib(9));
      ASSERT_TRUE(wait_reason(v1::Decision::ALL_PROTECTED)) << agent.process().log();
      ASSERT_TRUE(stop(agent.process().pid()));
      leak.grow(kCritical - (kLimit - kThreshold));
      ASSERT_TRUE(leak.wait_grown());
      ASSERT_TRUE(leak.wait_grown());
      EXPECT_TRUE(leak.alive());
      ASSERT_EQ(::kill(agent.process().pid(), SIGCONT), 0);
    }
    ASSERT_TRUE(wait_reason(v1::Decision::NO_THRESHOLD_MET)) << agent.process().log();
  }
  EXPECT_TRUE(large.alive());
  EXPECT_EQ(node.oom_kills(), 0U);
  EXPECT_EQ(count(agent.process().log(), "event=guard"), 0U) << agent.process().log();
  std::printf("protected: %d trials, 0 kills\n", trials());
}

// Each way in which a list can be outdated when its line is crossed, in turn.
TEST(GuardTrial, KillsNoProcessByAStaleList) {
  auto guard = kernel::GuardPrograms::load();
  ASSERT_TRUE(guard.ok()) << guard.error().text();
  auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  const Node node;
  auto subject = tree->open(node.scratch.path());
  const auto leak = tree->open(node.path("leak"));
  ASSERT_TRUE(subject.ok() && leak.ok());
  const auto memcg = (*guard)->find_memcg(subject->fd(), subject->id());
  ASSERT_TRUE(memcg.ok());
  int kills = 0;
  for (int trial = 0; trial < trials(); ++trial) {
    Hog hog(node.scratch, node.path("leak"), mib(8));
    auto victim = (*guard)->identify(hog.pid(), leak->id());
    ASSERT_TRUE(victim.ok());
    kernel::GuardList list;
    list.subject = subject->id();
    list.memcg = *memcg;
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
    ASSERT_TRUE((*guard)->evaluate().ok());
    EXPECT_TRUE(hog.alive()) << "kind " << kind;
    (*guard)->drain([&](const abi_guard_report& report) {
      if (report.kind == ABI_GUARD_KILLED) ++kills;
    });
    (*guard)->disarm();
  }
  EXPECT_EQ(kills, 0);
  EXPECT_EQ(node.oom_kills(), 0U);
  std::printf("stale: %d trials, %d kills\n", trials(), kills);
}

}  // namespace
}  // namespace forestall::test::guard_trial
