// SPDX-License-Identifier: Apache-2.0
// Workloads near a limit of their own: the whole agent against the kernel's memcg OOM killer. Runs
// on this host (v1) and in the VMs (v1 and v2).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "integration/bpf_events.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test::agent_own_limit_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Bytes kLimit = mib(192);
constexpr Bytes kMargin = mib(64);
// Where the fast part of a leak ends: past the margin, and 20 s of slow growth below the limit.
constexpr Bytes kSpurtEnd = kLimit - kMargin + mib(24);
constexpr Bytes kPace = mib(2);

// A calm workload without a limit, and one with a limit of its own.
class Pair {
 public:
  Pair() { scratch.limit(limited, kLimit); }

  [[nodiscard]] std::string config(const std::string& action, const std::string& more = "") const {
    return fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 20s\n{}\n"
        "ownLimit: {{other: {}, margin: {}Mi}}\nworkloads:\n  - {{cgroup: {}/*}}\n",
        more, action, kMargin.count >> 20, scratch.path());
  }
  [[nodiscard]] Bytes to_spurt_end() const { return kSpurtEnd - scratch.usage(limited); }
  // Whether memory.high is at the margin, or as far below the usage as one step goes
  // (actuators/rule_settings_writer.h): on a slow machine the leak is far past the margin by then,
  // and its memory cannot be reclaimed.
  [[nodiscard]] bool is_slowed() const {
    const std::string high = scratch.read(limited, "memory.high");
    if (high == "max\n") return false;
    const Bytes value{std::stoll(high)};
    const Bytes target = kLimit - kMargin;
    return value == target || (value > target && value + mib(31) <= scratch.usage(limited));
  }
  [[nodiscard]] std::uint64_t oom_kills() const { return scratch.oom_kills(limited); }

  ScratchCgroup scratch;
  std::string calm = scratch.child("calm");
  std::string limited = scratch.child("limited");
};

MonotonicTime soon() {
  return SystemClock().now() + kPatience;
}

TEST(AgentOwnLimit, EvictEndsItBeforeTheKernelDoes) {
  const Pair pair;
  const Hog calm(pair.scratch, pair.calm, mib(220));  // larger than the limit of the other
  Hog leak(pair.scratch, pair.limited, mib(4));
  AgentRun agent(pair.config("evict"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  leak.leak(pair.to_spurt_end(), kPace);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), pair.limited);
  const auto& driving = record->decision().evidence(static_cast<int>(record->decision().driving()));
  EXPECT_EQ(driving.subject(), pair.limited);
  EXPECT_EQ(driving.capacity(), kLimit.count);
  EXPECT_EQ(driving.threshold().own_limits_of(), "other");
  EXPECT_TRUE(leak.child().wait_exit());
  EXPECT_TRUE(calm.alive());
  EXPECT_EQ(pair.oom_kills(), 0U);
}

// Page cache fills the group to its limit first. While the leak replaces it, usage does not change;
// only the working set grows.
TEST(AgentOwnLimit, PageCacheDoesNotHideALeak) {
  const Pair pair;
  Hog leak(pair.scratch, pair.limited, mib(4));
  const CacheFile cache(mib(256));
  Child reader([&] {
    pair.scratch.add(pair.limited, getpid());
    return cache.read_through(1);
  });
  ASSERT_TRUE(reader.wait_exit());
  ASSERT_GT(pair.scratch.usage(pair.limited), kLimit - mib(32)) << "the cache did not fill it";
  AgentRun agent(pair.config("evict"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  leak.leak(kSpurtEnd, kPace);
  const auto record = agent.wait_kill();
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), pair.limited);
  EXPECT_EQ(pair.oom_kills(), 0U);
}

TEST(AgentOwnLimit, WarnReportsOnceAndKillsNothing) {
  const Pair pair;
  Hog hog(pair.scratch, pair.limited, mib(4));
  AgentRun agent(pair.config("warn"), {}, {"--verbose"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.grow(pair.to_spurt_end());
  const auto record = agent.wait_record([](const v1::Record& each) {
    return each.decision().reason() == v1::Decision::OWN_LIMIT_NEAR;
  });
  ASSERT_TRUE(record) << agent.process().log();
  ASSERT_EQ(record->decision().evidence_size(), 1);
  EXPECT_EQ(record->decision().evidence(0).subject(), pair.limited);
  EXPECT_EQ(record->decision().evidence(0).threshold().response(), "warn");
  // The next evaluation of its own; it would write another record if it reported twice.
  ASSERT_TRUE(hog.wait_grown());
  hog.grow(mib(4));
  ASSERT_TRUE(hog.wait_grown());
  ASSERT_TRUE(agent.process().wait_for_log("event=evaluation wake=recheck", soon()));
  const std::string log = agent.process().log();
  const auto first = log.find("event=own-limit-near");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("event=own-limit-near", first + 1), std::string::npos) << log;
  EXPECT_TRUE(hog.alive());
  hog.child().reap();
  EXPECT_TRUE(agent.process().wait_for_log("event=own-limit-receded", soon()));
}

// On v2 the kernel throttles it below its limit. v1 has no means for that, so the agent only warns.
TEST(AgentOwnLimit, SlowThrottlesWhereTheKernelCan) {
  const Pair pair;
  Hog leak(pair.scratch, pair.limited, mib(4));
  AgentRun agent(pair.config("slow"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  if (mounts().v1) {
    EXPECT_THAT(agent.process().log(), HasSubstr("cgroup v1 has no memory.high"));
    leak.grow(pair.to_spurt_end());
    EXPECT_TRUE(agent.process().wait_for_log("event=own-limit-near", soon()));
    EXPECT_THAT(agent.process().log(), HasSubstr("slowed=no"));
    return;
  }
  EXPECT_EQ(pair.scratch.read(pair.limited, "memory.high"), "max\n") << "nothing is set ahead";
  // Without throttling, this is far past the limit.
  leak.leak(kSpurtEnd - mib(4), mib(32));
  ASSERT_TRUE(agent.process().wait_for_log("event=own-limit-near", soon()))
      << agent.process().log();
  EXPECT_THAT(agent.process().log(), HasSubstr("slowed=yes"));
  for (const auto end = soon(); !pair.is_slowed() && SystemClock().now() < end;) {
  }
  EXPECT_TRUE(pair.is_slowed()) << pair.scratch.read(pair.limited, "memory.high") << "usage "
                                << pair.scratch.usage(pair.limited).count;
  EXPECT_EQ(pair.oom_kills(), 0U);
  EXPECT_TRUE(leak.alive());
  leak.child().reap();
  ASSERT_TRUE(agent.process().wait_for_log("event=own-limit-receded", soon()));
  for (const auto end = soon(); SystemClock().now() < end;) {
    if (pair.scratch.read(pair.limited, "memory.high") == "max\n") break;
  }
  EXPECT_EQ(pair.scratch.read(pair.limited, "memory.high"), "max\n") << "given back";
}

TEST(AgentOwnLimit, ADryRunSetsNothing) {
  const Pair pair;
  Hog hog(pair.scratch, pair.limited, mib(4));
  AgentRun agent(pair.config("slow", "dryRun: true"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.grow(pair.to_spurt_end());
  EXPECT_TRUE(agent.process().wait_for_log("event=own-limit-near", soon()));
  EXPECT_THAT(agent.process().log(), HasSubstr("slowed=no"));
  EXPECT_THAT(agent.process().log(), Not(HasSubstr("slowed=yes")));
}

TEST(AgentOwnLimit, WithoutItsClassNoWorkloadIsWatched) {
  const Pair pair;
  Hog hog(pair.scratch, pair.limited, mib(4));
  AgentRun agent(pair.config("off"), {}, {"--verbose"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.grow(pair.to_spurt_end());
  ASSERT_TRUE(hog.wait_grown());
  ASSERT_TRUE(agent.process().wait_for_log("event=evaluation wake=recheck", soon()));
  EXPECT_THAT(agent.process().log(), Not(HasSubstr("own-limit")));
}

}  // namespace
}  // namespace forestall::test::agent_own_limit_test
