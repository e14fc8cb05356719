// SPDX-License-Identifier: Apache-2.0
// Proactive reclaim (cgroup v2) from a workload that uses half of its memory all the time and the
// other half never.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <random>
#include <string>

#include "forestall/v1/status.pb.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/zram_swap.h"

namespace forestall::vm {
namespace {

using test::AgentRun;
using test::Child;
using test::mounts;
using test::ScratchCgroup;
using test::ZramSwap;

constexpr Bytes kHalf = mib(48);
constexpr Bytes kSaved = mib(32);  // of the cold half
constexpr Bytes kFloor = mib(32);
constexpr Duration kReclaimPatience = std::chrono::seconds(180);
constexpr std::size_t kPage = 4096;
// What none may leave changed.
constexpr const char* kFiles[] = {"memory.high", "memory.max", "memory.min", "memory.low",
                                  "cgroup.freeze"};

// Random words: zram stores a page of equal ones without any work.
char* fill(Bytes size) {
  auto* memory =
      static_cast<std::uint64_t*>(mmap(nullptr, static_cast<std::size_t>(size.count),
                                       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED) return nullptr;
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(size.count) / sizeof(*memory); i += 8) {
    memory[i] = random();
  }
  return reinterpret_cast<char*>(memory);
}

// Shared with the workload.
struct Progress {
  std::atomic<std::uint64_t> passes{0};  // over the hot half
  std::atomic<std::int64_t> faults{0};   // major ones, since the halves are filled
};

class HalfColdWorkload {
 public:
  HalfColdWorkload(const ScratchCgroup& scratch, const std::string& cgroup)
      : progress_(new (mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                            0)) Progress),
        child_([&] {
          scratch.add(cgroup, getpid());
          return run();
        }) {}
  ~HalfColdWorkload() { munmap(progress_, kPage); }
  HalfColdWorkload(const HalfColdWorkload&) = delete;
  HalfColdWorkload& operator=(const HalfColdWorkload&) = delete;

  [[nodiscard]] std::uint64_t passes() const { return progress_->passes; }
  [[nodiscard]] std::int64_t faults() const { return progress_->faults; }

 private:
  int run() const {
    const char* cold = fill(kHalf);
    char* hot = fill(kHalf);
    if (cold == nullptr || hot == nullptr) return 1;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const long begun = usage.ru_majflt;
    for (;;) {
      for (std::size_t at = 0; at < static_cast<std::size_t>(kHalf.count); at += kPage) ++hot[at];
      getrusage(RUSAGE_SELF, &usage);
      progress_->faults = usage.ru_majflt - begun;
      ++progress_->passes;
      poll(nullptr, 0, 20);  // it leaves the CPU to the others
    }
  }

  Progress* progress_;
  Child child_;
};

class ProactiveReclaim : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mounts().v1) {
      GTEST_SKIP() << "not applicable: cgroup v1 has no memory.reclaim; 6.12 v2 runs this";
    }
    named_ = scratch_.child("named");
    neighbour_ = scratch_.child("neighbour");
  }

  [[nodiscard]] std::string config(const std::string& more = "") const {
    return fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\n{}reclaim:\n- name: batch\n  cgroups: "
        "[{}]\n  every: 1s\n  step: 10%\n  floor: {}Mi\n  pressure: 1%\n  backOff: 3s\n"
        "  nodePressure: 60%\n",
        more, named_, kFloor.count >> 20);
  }

  static bool wait_until(const std::function<bool()>& holds) {
    const MonotonicTime end = SystemClock().now() + kReclaimPatience;
    for (; SystemClock().now() < end; poll(nullptr, 0, 100)) {
      if (holds()) return true;
    }
    return holds();
  }
  static v1::AgentStatus status(const AgentRun& agent) {
    const auto ran =
        test::run_forestall({"status", "--run-dir", agent.directory() / "", "-o", "json"});
    v1::AgentStatus status;
    EXPECT_TRUE(messages::from_json(ran.output, status)) << ran.output << ran.errors;
    return status;
  }
  // Of the named cgroup, which has to be the only one.
  static v1::ReclaimedCgroup reclaimed(const AgentRun& agent) {
    const v1::AgentStatus all = status(agent);
    if (all.reclaimed_size() == 0) return {};
    EXPECT_EQ(all.reclaimed_size(), 1) << all.ShortDebugString();
    return all.reclaimed(0);
  }
  static std::uint64_t dry_runs(const AgentRun& agent) {
    const v1::AgentStatus all = status(agent);
    for (const auto& ruleset : all.rulesets()) {
      for (const auto& each : ruleset.attempts()) {
        if (each.outcome() == v1::RulesetRun::DRY_RUN) return each.count();
      }
    }
    return 0;
  }
  // Microseconds for which some task of the named cgroup has stalled.
  [[nodiscard]] std::int64_t stalled() const {
    const std::string text = scratch_.read(named_, "memory.pressure");
    return std::stoll(text.substr(text.find("total=") + 6));
  }
  [[nodiscard]] std::string settings() const {
    std::string all;
    for (const std::string& cgroup : {named_, neighbour_}) {
      for (const char* file : kFiles) all += scratch_.read(cgroup, file);
    }
    return all;
  }

  const ZramSwap swap_{mib(400)};
  ScratchCgroup scratch_;
  std::string named_;
  std::string neighbour_;
};

TEST_F(ProactiveReclaim, TakesTheColdHalfAndBacksOffUnderPressure) {
  const HalfColdWorkload workload(scratch_, named_);
  const HalfColdWorkload other(scratch_, neighbour_);
  ASSERT_TRUE(wait_until([&] { return workload.passes() > 3 && other.passes() > 3; }));
  const std::string before = settings();
  const Bytes usage = scratch_.usage(named_);
  ASSERT_GT(usage, kHalf + kSaved);
  AgentRun agent(config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const std::int64_t stalled_before = stalled();
  const std::uint64_t passes = workload.passes();
  const MonotonicTime begun = SystemClock().now();
  ASSERT_TRUE(wait_until([&] { return scratch_.usage(named_) < usage - kSaved; }))
      << scratch_.usage(named_).mib() << "\n"
      << agent.process().log();
  const double seconds = std::chrono::duration<double>(SystemClock().now() - begun).count();
  // The agent counts a reclaim at its next evaluation.
  v1::ReclaimedCgroup saved;
  static_cast<void>(wait_until([&] {
    saved = reclaimed(agent);
    return saved.reclaimed_bytes() >= static_cast<std::uint64_t>(kSaved.count);
  }));
  const double share = static_cast<double>(stalled() - stalled_before) / 1e4 / seconds;
  fmt::print(
      "@metric proactive_saved {} MiB\n@metric proactive_seconds {:.1f} s\n"
      "@metric proactive_pressure {:.2f} %\n@metric proactive_hot_faults {} pages\n",
      saved.reclaimed_bytes() >> 20, seconds, share, workload.faults());
  EXPECT_EQ(saved.ruleset(), "reclaim:batch");
  EXPECT_EQ(saved.cgroup(), named_);
  EXPECT_GE(saved.reclaimed_bytes(), static_cast<std::uint64_t>(kSaved.count));
  EXPECT_EQ(saved.failures(), 0U);
  EXPECT_GE(saved.writes(), 3U) << "at most a tenth of its usage at once";
  EXPECT_LT(share, 5) << "the target is 1 %";
  EXPECT_LT(workload.faults(), static_cast<std::int64_t>(kHalf.count / kPage))
      << "the hot half was read back once or more";
  EXPECT_GT(workload.passes(), passes + 3) << "it does not progress";

  // A limit below the hot half makes the workload stall.
  scratch_.write(named_, "memory.high", std::to_string(mib(24).count));
  ASSERT_TRUE(wait_until([&] { return reclaimed(agent).back_offs() > saved.back_offs(); }))
      << agent.process().log();
  const std::uint64_t writes = reclaimed(agent).writes();
  const std::int64_t at_back_off = stalled();
  ASSERT_TRUE(wait_until([&] { return stalled() > at_back_off + 5'000'000; }));
  EXPECT_EQ(reclaimed(agent).writes(), writes) << "reclaimed under pressure";
  scratch_.write(named_, "memory.high", "max");

  EXPECT_EQ(scratch_.read(neighbour_, "memory.swap.current"), "0\n") << "it is not named";
  ASSERT_EQ(kill(agent.process().pid(), SIGKILL), 0);
  ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kReclaimPatience));
  EXPECT_EQ(settings(), before) << "the agent is gone, and something of it stays";
}

TEST_F(ProactiveReclaim, ADryRunReportsAndWritesNothing) {
  const HalfColdWorkload workload(scratch_, named_);
  ASSERT_TRUE(wait_until([&] { return workload.passes() > 3; }));
  AgentRun agent(config("dryRun: true\n"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(wait_until([&] { return dry_runs(agent) > 3; })) << agent.process().log();
  EXPECT_EQ(status(agent).reclaimed_size(), 0);
  EXPECT_EQ(scratch_.read(named_, "memory.swap.current"), "0\n");
  EXPECT_NE(agent.process().log().find("outcome=dry-run bytes="), std::string::npos)
      << agent.process().log();
}

}  // namespace
}  // namespace forestall::vm
