// SPDX-License-Identifier: Apache-2.0
// The real agent on real memory: the test starts it as a user does, leaks memory in a scratch
// cgroup, and checks its records against wait status and kernel counters. Runs on this host and in
// the VMs on every kernel (vmtests/).
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit_code.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/http_get.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr Bytes kLimit = mib(256);
constexpr Bytes kThreshold = mib(64);
// Where the fast part of a leak ends: past the threshold, and 20 s of slow growth below the limit.
constexpr Bytes kSpurtEnd = kLimit - kThreshold + mib(24);
constexpr Bytes kPace = mib(2);

struct Declared {
  std::string name;
  int priority = 0;
  Bytes request = {0};
};

// A scratch cgroup with a limit that the agent watches, and workloads in it.
class Node {
 public:
  explicit Node(std::vector<Declared> workloads) : workloads_(std::move(workloads)) {
    scratch.limit(scratch.path(), kLimit);
    for (const Declared& each : workloads_) scratch.child(each.name);
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return scratch.path() + "/" + name;
  }
  [[nodiscard]] Hog hog(const std::string& name, Bytes start) const {
    return Hog(scratch, path(name), start);
  }
  // Starts a leak that ends by a kill, of the agent or else of the kernel. It crosses the threshold
  // at full speed. Benchmarks and the demo measure how fast the agent reacts.
  void leak(const Hog& hog) const { hog.leak(kSpurtEnd - scratch.usage(scratch.path()), kPace); }
  // A victim may also take some time before it counts as stuck.
  [[nodiscard]] std::string config(const std::string& more = "releaseTimeout: 20s") const {
    std::string text = fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\n{}\n"
        "watch:\n  - cgroup: {}\n    available: {}Mi\n    tuneMemoryHigh: true\nworkloads:\n",
        more, scratch.path(), kThreshold.count >> 20);
    for (const Declared& each : workloads_) {
      text += fmt::format("  - {{cgroup: {}, name: {}, priority: {}, memoryRequest: {}}}\n",
                          path(each.name), each.name, each.priority, each.request.count);
    }
    return text;
  }
  [[nodiscard]] std::uint64_t oom_kills() const { return scratch.oom_kills(scratch.path()); }

  ScratchCgroup scratch;

 private:
  std::vector<Declared> workloads_;
};

bool killed(const Child& child) {
  return child.wait_exit();
}

std::string victim_of(const v1::Record& record) {
  return record.outcome().victim().name();
}

TEST(Agent, EvictsTheLeakerBeforeTheKernelDoes) {
  const Node node({{"keep", 10, mib(64)}, {"leak", 0, mib(16)}});
  Hog keep = node.hog("keep", mib(48));
  Hog leak = node.hog("leak", mib(8));
  AgentRun agent(node.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  node.leak(leak);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(victim_of(*record), "leak");
  EXPECT_EQ(record->outcome().state(), v1::KillProgress::RELEASED);
  EXPECT_EQ(record->outcome().processes(), 1u);
  EXPECT_GT(record->outcome().freed_bytes(), mib(64).count);
  EXPECT_LE(record->stages().crossed_ns(), record->stages().woken_ns());
  ASSERT_TRUE(record->crossing().has_last_above());
  EXPECT_LE(record->crossing().last_above().at_ns(), record->crossing().first_below().at_ns());
  EXPECT_LE(record->crossing().first_below().at_ns(), record->outcome().signalled_ns());
  EXPECT_LE(record->stages().woken_ns(), record->stages().observed_ns());
  EXPECT_LE(record->stages().observed_ns(), record->stages().decided_ns());
  EXPECT_LE(record->stages().decided_ns(), record->outcome().signalled_ns());
  EXPECT_TRUE(killed(leak.child()));
  EXPECT_TRUE(keep.alive());
  EXPECT_EQ(node.oom_kills(), 0u);
}

TEST(Agent, WithoutBpfItDoesTheSameJob) {
  const Node node({{"keep", 10, mib(64)}, {"leak", 0, mib(16)}});
  Hog keep = node.hog("keep", mib(48));
  Hog leak = node.hog("leak", mib(8));
  AgentRun agent(node.config(), {"bpf"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  node.leak(leak);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(victim_of(*record), "leak");
  EXPECT_TRUE(keep.alive());
  EXPECT_EQ(node.oom_kills(), 0u);
}

TEST(Agent, KillsOnceForOneCrossing) {
  // Two workloads exceed their request. The first kill makes room, and while its memory is being
  // released, the agent must not kill the second.
  const Node node({{"first", 0, mib(1)}, {"second", 5, mib(1)}});
  Hog second = node.hog("second", mib(48));
  Hog first = node.hog("first", mib(8));
  AgentRun agent(node.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  node.leak(first);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(victim_of(*record), "first");
  kill(agent.process().pid(), SIGTERM);
  ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  const std::string log = agent.process().log();
  EXPECT_EQ(log.find("action=kill"), log.rfind("action=kill")) << log;
  EXPECT_NE(log.find("reason=no-threshold-met"), std::string::npos) << log;
  EXPECT_TRUE(second.alive());
}

TEST(Agent, DryRunKillsNothingAndRecordsTheVictim) {
  const Node node({{"leak", 0, mib(1)}, {"next", 5, mib(1)}});
  Hog next = node.hog("next", mib(8));
  Hog leak = node.hog("leak", mib(8));
  AgentRun agent(node.config(), {}, {"--dry-run"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  leak.grow(mib(200));  // past the threshold, below the limit
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_TRUE(record->outcome().dry_run());
  EXPECT_EQ(victim_of(*record), "leak");
  ASSERT_TRUE(leak.wait_grown());
  EXPECT_TRUE(leak.alive());
  // The threshold stays met, because this kill was simulated. The agent must not simulate a second
  // one for it.
  kill(agent.process().pid(), SIGTERM);
  ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  const std::string log = agent.process().log();
  EXPECT_EQ(log.find("action=kill"), log.rfind("action=kill")) << log;
}

TEST(Agent, FindsWorkloadsMadeAfterItStarted) {
  Node node({{"early", 10, mib(64)}, {"late", 0, mib(1)}});
  node.scratch.remove_child(node.path("late"));
  Hog early = node.hog("early", mib(16));
  AgentRun agent(node.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  node.scratch.child("late");
  Hog late = node.hog("late", mib(8));
  node.leak(late);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(victim_of(*record), "late");
  EXPECT_TRUE(early.alive());
  EXPECT_EQ(node.oom_kills(), 0u);
}

TEST(Agent, FindsPressureThatWasThereBeforeIt) {
  const Node node({{"big", 0, mib(1)}, {"small", 10, mib(64)}});
  Hog big = node.hog("big", mib(208));
  Hog small = node.hog("small", mib(8));
  AgentRun agent(node.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->observation().wake().source(), v1::Wake::STARTUP);
  EXPECT_EQ(victim_of(*record), "big");
  EXPECT_TRUE(small.alive());
}

TEST(Agent, ProtectedWorkloadsSurviveAndAreReported) {
  const Node node({{"leak", 0, mib(1)}});
  Hog leak = node.hog("leak", mib(8));
  std::string config = node.config();
  config.replace(config.rfind('}'), 1, ", protected: true}");
  AgentRun agent(config);
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  leak.grow(mib(200));
  const auto record = agent.wait_record([](const v1::Record& each) {
    return each.decision().reason() == v1::Decision::ALL_PROTECTED;
  });
  ASSERT_TRUE(record) << agent.process().log();
  ASSERT_EQ(record->decision().considered_size(), 1);
  EXPECT_EQ(record->decision().considered(0).exclusion(), v1::Candidate::PROTECTED);
  ASSERT_TRUE(leak.wait_grown());
  EXPECT_TRUE(leak.alive());
}

// A tracer that stops a process in its exit, as a driver or a network file system could.
class ExitHolder {
 public:
  explicit ExitHolder(pid_t target) : tracer_([target] { return hold(target); }) {
    char ready = 0;
    seized_ = read(pipe_[0], &ready, 1) == 1 && ready == 'y';
  }
  [[nodiscard]] bool seized() const { return seized_; }

 private:
  static int hold(pid_t target) {
    const bool seized = ptrace(PTRACE_SEIZE, target, nullptr, PTRACE_O_TRACEEXIT) == 0;
    if (write(pipe_[1], seized ? "y" : "n", 1) != 1) return 1;
    int status = 0;
    while (waitpid(target, &status, __WALL) == target) {
      if (WIFEXITED(status) || WIFSIGNALED(status)) return 0;
      if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXIT << 8))) pause();  // until the test kills it
      ptrace(PTRACE_CONT, target, nullptr, WIFSTOPPED(status) ? WSTOPSIG(status) : 0);
    }
    return 0;
  }
  static inline int pipe_[2] = {-1, -1};
  static inline const bool piped_ = pipe2(pipe_, O_CLOEXEC) == 0;
  bool seized_ = false;
  Child tracer_;
};

// In a spike the growing process is still small when memory runs out; by size the agent would
// choose the bystander.
TEST(Agent, WithGrowthTheBystanderOfASpikeSurvives) {
  const Node node({{"bystander"}, {"spike"}});
  const Hog bystander = node.hog("bystander", mib(120));
  Hog spike = node.hog("spike", mib(2));
  AgentRun agent(node.config("releaseTimeout: 20s\nranking: kubelet+growth"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  node.leak(spike);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(victim_of(*record), "spike");
  EXPECT_TRUE(killed(spike.child()));
  EXPECT_TRUE(bystander.alive());
  const auto& considered = record->decision().considered();
  ASSERT_EQ(considered.size(), 2);
  // From the first warning threshold, 32 MiB ahead, or from before. A late agent has seen some of
  // that already. More than each CPU's stock of charges.
  EXPECT_GT(considered[0].key().growth(), mib(4).count);
  EXPECT_LT(considered[0].key().usage(), considered[1].key().usage()) << "by size it would be";
  EXPECT_EQ(considered[1].key().growth(), 0);
  EXPECT_NE(agent.process().log().find("victim_growth="), std::string::npos);
}

TEST(Agent, VictimThatCannotDieGivesWayToTheNext) {
  const Node node({{"undying", 0, mib(1)}, {"next", 5, mib(1)}, {"spared", 10, mib(64)}});
  Hog next = node.hog("next", mib(40));
  Hog spared = node.hog("spared", mib(8));
  // Past the threshold before the agent starts. At a kill right at the crossing, so little is left
  // to gain that the settling of kernel counters may hide it.
  Hog undying = node.hog("undying", mib(168));
  const ExitHolder holder(undying.pid());
  ASSERT_TRUE(holder.seized());
  // process_mrelease would take the memory of a victim that never reaches its own exit. The time
  // lets the other victims die on a busy machine before they count as stuck.
  AgentRun agent(node.config("releaseTimeout: 5s"), {"process-mrelease"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto first = agent.wait_kill();
  ASSERT_TRUE(first) << agent.process().log();
  EXPECT_EQ(victim_of(*first), "undying");
  EXPECT_EQ(first->outcome().state(), v1::KillProgress::STUCK);
  const auto second = agent.wait_kill();
  ASSERT_TRUE(second) << agent.process().log();
  EXPECT_EQ(victim_of(*second), "next");
  EXPECT_TRUE(spared.alive());
}

TEST(Agent, BadConfigOnReloadLeavesTheOldInForce) {
  const Node node({{"keep", 10, mib(64)}, {"leak", 0, mib(16)}});
  Hog keep = node.hog("keep", mib(8));
  Hog leak = node.hog("leak", mib(8));
  const std::uint16_t port = free_port();
  AgentRun agent(node.config() + fmt::format("metricsAddress: 127.0.0.1:{}\n", port));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto metrics = [&] { return http_body(http_get(port, "/metrics")); };
  EXPECT_NE(metrics().find("\nforestall_config_last_reload_successful 1\n"), std::string::npos);
  agent.rewrite_config("evictonHard: {memory.available: 1Mi}\n");
  kill(agent.process().pid(), SIGHUP);
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  ASSERT_TRUE(agent.process().wait_for_log("reload-refused", deadline)) << agent.process().log();
  EXPECT_NE(agent.process().log().find("config.yaml:1:1"), std::string::npos)
      << agent.process().log();
  EXPECT_NE(metrics().find("\nforestall_config_last_reload_successful 0\n"), std::string::npos);
  node.leak(leak);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(victim_of(*record), "leak");
}

TEST(Agent, GoodConfigOnReloadTakesEffect) {
  const Node node({{"leak", 0, mib(1)}});
  Hog leak = node.hog("leak", mib(100));
  AgentRun agent("evictionHard: {}\npods: {enabled: false}\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  agent.rewrite_config(node.config());
  kill(agent.process().pid(), SIGHUP);
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  ASSERT_TRUE(agent.process().wait_for_log("event=reloaded", deadline)) << agent.process().log();
  node.leak(leak);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(victim_of(*record), "leak");
}

TEST(Agent, LogsInTheSelectedFormat) {
  const std::pair<const char*, const char*> kStarts[] = {
      {"json", "\"level\":\"info\",\"event\":\"start\",\"version\":\""},
      {"logfmt", "Z info    event=start version="},
      {"text", "Z info    started version "}};
  for (const auto& [format, start] : kStarts) {
    AgentRun agent("evictionHard: {}\npods: {enabled: false}\n", {}, {"--log-format", format});
    ASSERT_FALSE(agent.failure()) << agent.failure()->text();
    EXPECT_TRUE(agent.process().wait_for_log(start, SystemClock().now() + kPatience))
        << agent.process().log();
  }
}

TEST(Agent, SecondAgentRefusesAndNamesTheFirst) {
  AgentRun agent("evictionHard: {}\npods: {enabled: false}\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const Ran second = run_forestall({"agent", "--run-dir", agent.directory().path()});
  EXPECT_EQ(second.exit_code, 4);
  EXPECT_NE(second.errors.find(fmt::format("pid {}", agent.process().pid())), std::string::npos)
      << second.errors;
}

// Every pod would appear empty, and none could be killed.
TEST(Agent, RefusesAPidNamespaceOfItsOwn) {
  const TempTree files({{"config.yaml", "evictionHard: {}\npods: {enabled: false}\n"}});
  for (const char* mode : {"agent", "agent --dry-run", "doctor"}) {
    Child pod([&] {
      if (unshare(CLONE_NEWPID) != 0) return 2;
      std::vector<std::string> command{"doctor"};
      if (std::string_view(mode) != "doctor") {
        command = {"agent", "--run-dir", files / "run", "--config", files / "config.yaml"};
        if (std::string_view(mode) != "agent") command.emplace_back("--dry-run");
      }
      const Ran ran = run_forestall(command);
      if (ran.exit_code != cli::kExitUnguarded) return 3;
      const auto text = ran.output + ran.errors;
      return text.find("set hostPID: true") == std::string::npos ? 4 : 0;
    });
    ASSERT_TRUE(pod.wait_exit()) << mode;
    const int status = pod.reap();
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0) << mode;
  }
}

TEST(Agent, KilledAgentLeavesRoomForTheNext) {
  const Node node({{"leak", 0, mib(1)}});
  Hog leak = node.hog("leak", mib(8));
  AgentRun agent(node.config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  kill(agent.process().pid(), SIGKILL);
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  ASSERT_TRUE(agent.process().wait_end(deadline));
  // Its lock and hooks ended with it; only the socket of this test is left.
  unlink((agent.directory() / "notify").c_str());
  auto next = cli::AgentProcess::start(forestall_executable(),
                                       {"--config", agent.directory() / "config.yaml"},
                                       agent.directory().path());
  ASSERT_TRUE(next) << next.error().text();
  node.leak(leak);
  const MonotonicTime patience = SystemClock().now() + kPatience;
  ASSERT_TRUE(next->wait_for_log("event=outcome", patience)) << next->log();
  EXPECT_TRUE(killed(leak.child()));
  EXPECT_EQ(node.oom_kills(), 0u);
}

// Each wake source wakes the agent when it is the only one.
class OneWake : public testing::TestWithParam<const char*> {};

// Sources that see a crossing only during reclaim need reclaim below the limit: memory.high starts
// it on v2; v1 has nothing for that.
bool needs_reclaim(const std::string& feature) {
  return feature == "bpf-reclaim" || feature == "bpf-stall" || feature == "psi-trigger";
}

TEST_P(OneWake, IsEnough) {
  const std::string feature = GetParam();
  if (const auto line = missing_feature(feature)) {
    GTEST_SKIP() << "not applicable: this environment lacks it (" << *line
                 << "); the VM tests run it on the kernels that have it";
  }
  if (needs_reclaim(feature) && mounts().v1) {
    GTEST_SKIP() << "not applicable: " << feature << " needs memory.high to start reclaim below "
                 << "the limit; runs in the VM tests on cgroup v2";
  }
  const Node node({{"keep", 10, mib(64)}, {"leak", 0, mib(16)}});
  if (needs_reclaim(feature)) {
    node.scratch.write(node.scratch.path(), "memory.high", std::to_string(mib(216).count));
  }
  Hog keep = node.hog("keep", mib(16));
  Hog leak = node.hog("leak", mib(8));
  std::vector<std::string> disabled = all_wakes_but(feature);
  if (feature.substr(0, 3) != "bpf") disabled.push_back("bpf");
  AgentRun agent(node.config("recheckInterval: 10m\nreleaseTimeout: 20s"), disabled);
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  if (needs_reclaim(feature)) {
    leak.grow(kLimit, mib(400));  // past memory.high the kernel slows it down
  } else {
    node.leak(leak);
  }
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(victim_of(*record), "leak");
  EXPECT_TRUE(keep.alive());
  EXPECT_EQ(node.oom_kills(), 0u) << agent.process().log();
}

INSTANTIATE_TEST_SUITE_P(Wake, OneWake,
                         testing::Values("bpf-timer", "bpf-charge", "bpf-reclaim", "bpf-stall",
                                         "usage-eventfd", "memory-high", "psi-trigger", "poll"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace forestall::test
