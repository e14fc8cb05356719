// SPDX-License-Identifier: Apache-2.0
// The agent's records of kills by the kernel's OOM killer in a memory cgroup of the test: victim,
// domain, whether the agent predicted it, and why the agent had not acted. Also the kernel's order
// as a ranking. Runs on this host and in the VMs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>

#include "support/agent_run.h"
#include "support/child.h"
#include "support/http_get.h"
#include "support/scratch_cgroup.h"

namespace forestall::test::agent_oom_test {
namespace {

using testing::HasSubstr;

constexpr Bytes kLimit = mib(96);

// Without additions by a test, no cgroup is watched and no workload can be a victim.
std::string config(const std::string& more = "") {
  return "evictionHard: {}\npods: {enabled: false}\n" + more;
}

std::string watch(const ScratchCgroup& scratch, Bytes available, const std::string& more = "") {
  return fmt::format(
      "watch:\n  - {{cgroup: {0}, available: {1}Mi{2}}}\n"
      "workloads:\n  - {{cgroup: {0}/*}}\n",
      scratch.path(), available.count >> 20, more);
}

MonotonicTime soon() {
  return SystemClock().now() + kPatience;
}

// The record of the kernel's kill of this process.
std::optional<v1::Record> wait_oom_kill(AgentRun& agent, const Hog& hog) {
  return agent.wait_record([&](const v1::Record& record) {
    return record.has_oom_kill() && record.oom_kill().event().victim().pid() == hog.pid();
  });
}

// Waits until the agent predicts this process as the first victim in the cgroup.
bool wait_forecast(AgentRun& agent, const std::string& path, const Hog& hog) {
  return agent.process().wait_for_log(
      fmt::format("event=forecast domain={} verdict=kills pid={} ", path, hog.pid()), soon());
}

// A child that the kernel has killed and that no other process can reap.
void expect_killed_by_the_kernel(const ScratchCgroup& scratch, Hog& hog) {
  EXPECT_TRUE(hog.child().wait_exit());
  EXPECT_EQ(scratch.oom_kills(scratch.path()), 1u);
}

// With each source of OOM events alone, and with both.
class KernelKill : public testing::TestWithParam<std::vector<std::string>> {};

// The kernel logs the details of ten kills in five seconds (mm/oom_kill.c oom_rs), and earlier
// tests may have used them up. A try takes about a second.
constexpr int kTries = 8;

TEST_P(KernelKill, IsRecordedForAnUnwatchedCgroup) {
  const bool by_the_log = !GetParam().empty() && GetParam().front() == "bpf";
  if (!GetParam().empty()) {
    if (const auto line = missing_feature(by_the_log ? "oom-log" : "bpf-oom")) {
      GTEST_SKIP() << "not applicable: no other source of OOM events here (" << *line
                   << "); runs wherever the feature may be used, as in the VM tests";
    }
  }
  for (int tries = 1; tries <= kTries; ++tries) {
    ScratchCgroup scratch;
    scratch.limit(scratch.path(), kLimit);
    const std::string inside = scratch.child("leaf");
    Hog hog(scratch, inside, mib(8));
    AgentRun agent(config(), GetParam(), {"--verbose"});
    ASSERT_FALSE(agent.failure()) << agent.failure()->text();
    hog.grow(kLimit);
    expect_killed_by_the_kernel(scratch, hog);
    const auto record = wait_oom_kill(agent, hog);
    ASSERT_TRUE(record) << agent.process().log();
    const v1::OomKill& kill = record->oom_kill();
    EXPECT_EQ(kill.event().constraint(), v1::OomDomain::MEMCG);
    if (by_the_log && kill.event().domain_path().empty() && tries < kTries) continue;
    EXPECT_EQ(kill.event().domain_path(), scratch.path());
    EXPECT_EQ(kill.event().path(), inside);
    EXPECT_EQ(kill.event().domain_limit_bytes(), kLimit.count);
    EXPECT_GT(kill.event().memory().anon_pages(), mib(64).count / 4096);
    EXPECT_EQ(kill.event().killer().pid(), hog.pid());
    EXPECT_EQ(kill.inaction(), v1::OomKill::NOT_WATCHED);
    EXPECT_FALSE(kill.has_forecast());
    EXPECT_TRUE(agent.process().wait_for_log(fmt::format(" pid={} ", hog.pid()), soon()));
    return;
  }
}

INSTANTIATE_TEST_SUITE_P(Reported, KernelKill,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"oom-log"},
                                         std::vector<std::string>{"bpf"}),
                         [](const auto& parameter) {
                           if (parameter.param.empty()) return "byBoth";
                           return parameter.param.front() == "bpf" ? "byTheLog" : "byBpf";
                         });

TEST(AgentOom, ADryRunRecordsThatItPredictedTheKill) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  Hog other(scratch, scratch.child("other"), mib(16));
  Hog leak(scratch, scratch.child("leak"), mib(4));
  AgentRun agent(config(watch(scratch, mib(32))), {}, {"--dry-run", "--verbose"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_forecast(agent, scratch.path(), other)) << agent.process().log();
  leak.grow(mib(56));  // past the threshold, below the limit
  const auto dry = agent.wait_kill();
  ASSERT_TRUE(dry) << agent.process().log();
  ASSERT_TRUE(wait_forecast(agent, scratch.path(), leak)) << agent.process().log();
  leak.grow(kLimit);
  expect_killed_by_the_kernel(scratch, leak);
  const auto record = wait_oom_kill(agent, leak);
  ASSERT_TRUE(record) << agent.process().log();
  const v1::OomKill& kill = record->oom_kill();
  EXPECT_EQ(kill.inaction(), v1::OomKill::DRY_RUN) << agent.process().log();
  EXPECT_GT(kill.since_crossing_ns(), 0);
  ASSERT_TRUE(kill.has_forecast());
  EXPECT_TRUE(kill.forecast().right());
  EXPECT_EQ(kill.forecast().victim().pid(), leak.pid());
  EXPECT_LT(kill.forecast().at_ns(), kill.event().at_ns());
  EXPECT_GT(record->sequence(), dry->sequence());
  EXPECT_TRUE(other.alive());
}

// The threshold is measured against more memory than the cgroup may have, so the kernel's OOM comes
// elsewhere.
TEST(AgentOom, DistinguishesAnUncrossedThreshold) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  Hog hog(scratch, scratch.child("leaf"), mib(8));
  AgentRun agent(config(watch(scratch, mib(16), ", capacity: 1Gi")), {}, {"--verbose"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_forecast(agent, scratch.path(), hog)) << agent.process().log();
  hog.grow(kLimit);
  expect_killed_by_the_kernel(scratch, hog);
  const auto record = wait_oom_kill(agent, hog);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->oom_kill().inaction(), v1::OomKill::BELOW_THRESHOLD);
  EXPECT_FALSE(record->oom_kill().has_since_crossing_ns());
  EXPECT_TRUE(record->oom_kill().forecast().right());
}

// Keeps a process stopped while this object exists.
class Stopped {
 public:
  explicit Stopped(pid_t pid) : pid_(pid) { kill(pid_, SIGSTOP); }
  Stopped(const Stopped&) = delete;
  ~Stopped() { kill(pid_, SIGCONT); }

 private:
  pid_t pid_;
};

// A stopped agent reads the crossing and the kill at once. It still has their order and the time
// between them, and that it did not run.
TEST(AgentOom, NamesAnAgentThatWasStopped) {
  if (const auto line = missing_feature("bpf-timer")) {
    GTEST_SKIP() << "not applicable: no source reports crossings here (" << *line
                 << "); runs wherever BPF may be used, as in the VM tests";
  }
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  Hog hog(scratch, scratch.child("leaf"), mib(8));
  AgentRun agent(config(watch(scratch, mib(32))));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  {
    const Stopped stopped(agent.process().pid());
    // Crosses the threshold at full speed, then takes four seconds to the limit; the timer needs a
    // thousandth of that.
    hog.leak(mib(80), mib(2));
    expect_killed_by_the_kernel(scratch, hog);
  }
  const auto record = wait_oom_kill(agent, hog);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->oom_kill().inaction(), v1::OomKill::STOPPED) << agent.process().log();
  EXPECT_GT(record->oom_kill().since_crossing_ns(), 1'000'000'000);
  EXPECT_GT(record->oom_kill().agent_away_ns(), 1'000'000'000);
  EXPECT_TRUE(
      agent.process().wait_for_log("event=resumed cause=SIGCONT away_at_least_us=", soon()));
}

// A leak at full speed while the agent is stopped for a few milliseconds. `limited`: from the
// start, or only while the agent is stopped. On a busy or emulated machine the leak takes so long
// that the agent counts as away: then a shorter leak is tried, down to one that takes an eighth of
// the time. If that takes too long as well, the absence is the reason. A short leak may end before
// the agent's timer runs: then the longest one is tried again.
void expect_reason_of_a_fast_leak(bool limited, v1::OomKill::Inaction reason) {
  // From the line to the limit. On a fast machine the timer, which reads the usage every 1 ms,
  // misses a short leak.
  Bytes leak = mib(32);
  for (int tries = 1;; ++tries) {
    ScratchCgroup scratch;
    const Bytes limit = mib(16) + leak;
    if (limited) scratch.limit(scratch.path(), limit);
    Hog hog(scratch, scratch.child("leaf"), mib(8));
    AgentRun agent(config(watch(scratch, leak)));
    ASSERT_FALSE(agent.failure()) << agent.failure()->text();
    {
      const Stopped stopped(agent.process().pid());
      if (!limited) scratch.limit(scratch.path(), limit);
      hog.grow(limit);
      expect_killed_by_the_kernel(scratch, hog);
    }
    const auto record = wait_oom_kill(agent, hog);
    ASSERT_TRUE(record) << agent.process().log();
    const bool away = record->oom_kill().agent_away_ns() > 0;
    if (away && leak > mib(4)) {
      leak = Bytes{leak.count / 2};
      continue;
    }
    if (!away && record->oom_kill().inaction() != reason && leak < mib(32) && tries < 8) {
      leak = mib(32);
      continue;
    }
    const auto expected = away ? v1::OomKill::STOPPED : reason;
    EXPECT_EQ(record->oom_kill().inaction(), expected) << agent.process().log();
    return;
  }
}

TEST(AgentOom, ALeakIsTooFastForAnAgentThatRuns) {
  if (const auto line = missing_feature("bpf-timer")) {
    GTEST_SKIP() << "not applicable: no source reports crossings here (" << *line
                 << "); runs wherever BPF may be used, as in the VM tests";
  }
  expect_reason_of_a_fast_leak(true, v1::OomKill::TOO_FAST);
}

// Without a limit the signal has no capacity; the limit comes after the last evaluation.
TEST(AgentOom, NamesASignalThatWasUnread) {
  expect_reason_of_a_fast_leak(false, v1::OomKill::UNREAD);
}

// A cgroup that the kernel kills in, and the reason that the agent gives.
v1::OomKill::Inaction inaction_in(const ScratchCgroup& scratch, Hog& hog, AgentRun& agent) {
  hog.grow(kLimit);
  expect_killed_by_the_kernel(scratch, hog);
  const auto record = wait_oom_kill(agent, hog);
  EXPECT_TRUE(record) << agent.process().log();
  return record ? record->oom_kill().inaction() : v1::OomKill::INACTION_UNSPECIFIED;
}

TEST(AgentOom, AThresholdThatOnlyWarnsDidNotFailToAct) {
  ScratchCgroup scratch;
  const std::string inside = scratch.child("leaf");
  scratch.limit(inside, kLimit);
  Hog hog(scratch, inside, mib(8));
  AgentRun agent(
      config(fmt::format("ownLimit: {{other: warn, margin: 32Mi}}\n"
                         "workloads:\n  - {{cgroup: {0}/*}}\n",
                         scratch.path())));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.grow(mib(72));
  ASSERT_TRUE(agent.process().wait_for_log("event=own-limit-near", soon()))
      << agent.process().log();
  hog.grow(kLimit);
  EXPECT_TRUE(hog.child().wait_exit());
  const auto record = wait_oom_kill(agent, hog);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->oom_kill().inaction(), v1::OomKill::WARN_ONLY) << agent.process().log();
  EXPECT_GT(record->oom_kill().since_crossing_ns(), 0);
}

TEST(AgentOom, NamesAVictimThatIsProtected) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  Hog hog(scratch, scratch.child("leaf"), mib(8));
  AgentRun agent(
      config(fmt::format("watch:\n  - {{cgroup: {0}, available: 32Mi}}\n"
                         "workloads:\n  - {{cgroup: {0}/*, protected: true}}\n",
                         scratch.path())));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.grow(mib(64));
  ASSERT_TRUE(agent.process().wait_for_log("reason=all-protected", soon()))
      << agent.process().log();
  EXPECT_EQ(inaction_in(scratch, hog, agent), v1::OomKill::NO_VICTIM) << agent.process().log();
}

TEST(AgentOom, NamesAGracePeriod) {
  ScratchCgroup scratch;
  const std::string inside =
      scratch.child("kubepods/besteffort/pod12345678-1234-1234-1234-123456789012/c0ffee");
  scratch.limit(scratch.path() + "/kubepods", kLimit);
  Hog hog(scratch, inside, mib(8));
  AgentRun agent(fmt::format(
      "evictionHard: {{}}\nevictionSoft: {{allocatableMemory.available: 32Mi}}\n"
      "evictionSoftGracePeriod: {{allocatableMemory.available: 1h}}\npods: {{cgroupRoot: {}}}\n",
      scratch.path()));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.grow(mib(72));
  ASSERT_TRUE(agent.process().wait_for_log("reason=in-grace", soon())) << agent.process().log();
  hog.grow(kLimit);
  EXPECT_TRUE(hog.child().wait_exit());
  const auto record = wait_oom_kill(agent, hog);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->oom_kill().inaction(), v1::OomKill::IN_GRACE) << agent.process().log();
}

TEST(AgentOom, MetricsCountIt) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  Hog hog(scratch, scratch.child("leaf"), mib(8));
  const std::uint16_t port = free_port();
  AgentRun agent(config(fmt::format("metricsAddress: \"127.0.0.1:{}\"\n", port)));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const std::string kSeries =
      "forestall_kernel_oom_kills_total{constraint=\"memcg\",inaction=\"not-watched\","
      "predicted=\"none\"} ";
  EXPECT_THAT(http_get(port, "/metrics"), HasSubstr("\n" + kSeries + "0\n"));
  EXPECT_THAT(http_get(port, "/healthz"), HasSubstr(" 200 OK\r\n"));
  hog.grow(kLimit);
  ASSERT_TRUE(wait_oom_kill(agent, hog)) << agent.process().log();
  // The agent updates the count just after it has written the record: poll until it is there.
  std::string answer;
  for (const auto end = soon(); SystemClock().now() < end;) {
    answer = http_get(port, "/metrics");
    if (answer.find(kSeries + "1\n") != std::string::npos) break;
  }
  EXPECT_THAT(answer, HasSubstr("\n" + kSeries + "1\n"));
}

TEST(AgentOom, ReportsAPortInUseAndStillGuards) {
  const std::uint16_t port = free_port();
  const std::string text = config(fmt::format("metricsAddress: \"127.0.0.1:{}\"\n", port));
  AgentRun first(text);
  ASSERT_FALSE(first.failure()) << first.failure()->text();
  AgentRun second(text);
  ASSERT_FALSE(second.failure()) << second.failure()->text();
  EXPECT_TRUE(second.process().wait_for_log("event=no-metrics", soon()));
  EXPECT_THAT(second.process().log(), HasSubstr(fmt::format("127.0.0.1:{}", port)));
  EXPECT_THAT(second.process().log(), HasSubstr("in use"));
}

// Kubelet's rules choose the leak, which uses most. The kernel's choose the small one, because of
// its oom_score_adj.
TEST(AgentOom, TheKernelRankingKillsTheKernelsChoice) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  Hog offered(scratch, scratch.child("offered"), mib(16));
  Hog leak(scratch, scratch.child("leak"), mib(4));
  std::ofstream(fmt::format("/proc/{}/oom_score_adj", offered.pid())) << 900;
  AgentRun agent(config("ranking: kernel\nreleaseTimeout: 20s\n" + watch(scratch, mib(32))));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  leak.leak(mib(50), mib(2));
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), scratch.path() + "/offered");
  const v1::Decision& decision = record->decision();
  ASSERT_EQ(decision.considered_size(), 2);
  EXPECT_GT(decision.considered(0).key().badness(), decision.considered(1).key().badness());
  EXPECT_GT(decision.considered(1).key().usage(), decision.considered(0).key().usage());
  EXPECT_TRUE(offered.child().wait_exit());
}

}  // namespace
}  // namespace forestall::test::agent_oom_test
