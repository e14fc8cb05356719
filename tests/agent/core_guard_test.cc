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
