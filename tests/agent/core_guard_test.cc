// SPDX-License-Identifier: Apache-2.0
// What the loop gives to the guard in the kernel costs no time before a victim is signalled.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "agent/release_wait.h"
#include "core_on_files.h"
#include "support/child.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

// Notes how many kills were begun when it was given the decision for them.
class DecisionsOfKills final : public LoopGuard {
 public:
  void decided(Record& record) override {
    if (record.decision.action != Action::kill) return;
    begun = ladder->progress().size();
    considered = record.decision.considered.size();
  }

  const actuators::Ladder* ladder = nullptr;
  std::optional<std::size_t> begun;
  std::optional<std::size_t> considered;
};

// Has lists to take and a turn of its work due, as the test sets them.
class ListsToServe final : public LoopGuard {
 public:
  [[nodiscard]] std::optional<MonotonicTime> preparation_due() const override { return due; }
  void prepare(const Config& /*config*/, const GrowthWatch& /*growth*/) override {
    ++turns;
    due.reset();
  }
  void take_lists() override { ++taken; }

  std::optional<MonotonicTime> due;
  int turns = 0;
  int taken = 0;
};

class CoreGuard : public CoreOnFiles {
 protected:
  CoreGuard() : CoreOnFiles{"/all", "/all/leak"} {
    for (const char* group : {"/all", "/all/leak"}) {
      files_.set_group(group, static_cast<int>(mib(200).count));
      files_.write(std::string("cgroup") + group + "/memory.max",
                   std::to_string(mib(256).count) + "\n");
    }
    files_.write("cgroup/all/leak/cgroup.procs", std::to_string(child_.pid()) + "\n");
    config_.pods = false;
    config_.dry_run = false;
    config_.thresholds = {own_limit("/all", mib(64))};
    config_.workloads.emplace_back().cgroup = "/all/leak";
  }

  test::Child child_{[] {
    for (;;) pause();
    return 0;
  }};
  test::ManualClock clock_{SystemClock().now()};
  Config config_;
  DecisionsOfKills guard_;
};

TEST_F(CoreGuard, ADecisionIsGivenToTheGuardWhenItsVictimIsSignalled) {
  actuators::LadderOptions options;
  options.usable.set(static_cast<std::size_t>(Feature::pidfd));
  open(config_, clock_, options);
  guard_.ladder = &*ladder_;
  start(Parts{.clock = clock_,
              .tree = tree_,
              .observer = *observer_,
              .ladder = *ladder_,
              .log = *log_,
              .guard = guard_},
        config_);
  EXPECT_EQ(guard_.begun, 1U);
  EXPECT_EQ(guard_.considered, 1U);
  EXPECT_TRUE(child_.wait_exit());
}

// A tenant that creates cgroups causes events without a pause. The loop serves its timer later.
class CoreGuardUnderEvents : public CoreGuard {
 protected:
  void SetUp() override {
    config_.dry_run = true;
    open(config_, clock_);
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .guard = lists_},
          config_);
    lists_.taken = 0;
  }
  ListsToServe lists_;
  FakeSource events_{Feature::bpf};
};

TEST_F(CoreGuardUnderEvents, ListsThatAreDoneAreTaken) {
  core_->source_ready(events_);
  EXPECT_GE(lists_.taken, 1);
  lists_.taken = 0;
  core_->ladder_ready();
  EXPECT_GE(lists_.taken, 1);
}

TEST_F(CoreGuardUnderEvents, AnOverdueTurnIsServedAndAnotherOneWaits) {
  lists_.due = clock_.now();
  core_->source_ready(events_);
  EXPECT_EQ(lists_.turns, 0);
  clock_.advance(std::chrono::milliseconds(10));
  core_->source_ready(events_);
  EXPECT_EQ(lists_.turns, 1);
  lists_.due = clock_.now() - std::chrono::milliseconds(10);
  core_->guard_ready();
  EXPECT_EQ(lists_.turns, 2);
}

TEST_F(CoreGuard, WithoutAGuardTheMemoryOfAFormerOnesKillIsAwaited) {
  actuators::LadderOptions options;
  options.usable.set(static_cast<std::size_t>(Feature::pidfd));
  open(config_, clock_, options);
  ReleaseWait wait(clock_, clock_.now() + std::chrono::seconds(1));
  start(Parts{.clock = clock_,
              .tree = tree_,
              .observer = *observer_,
              .ladder = *ladder_,
              .log = *log_,
              .guard = wait},
        config_);
  pass(clock_, std::chrono::milliseconds(999));
  EXPECT_TRUE(ladder_->progress().empty());
  pass(clock_, std::chrono::milliseconds(501));
  EXPECT_EQ(ladder_->progress().size(), 1U);
  EXPECT_TRUE(child_.wait_exit());
}

}  // namespace
}  // namespace forestall::agent
