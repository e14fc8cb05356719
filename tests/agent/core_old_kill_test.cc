// SPDX-License-Identifier: Apache-2.0
// The loop runs again after the guard has killed a workload. The processes of the victim's cgroup
// are ended if the kill is recent, and left alone if they may belong to a workload that was started
// again.
#include <gtest/gtest.h>
#include <unistd.h>

#include "actuators/newer_processes.h"
#include "core_on_files.h"
#include "guard_with_a_kill.h"
#include "held_scanner.h"
#include "support/child.h"
#include "support/manual_clock.h"
#include "support/record_collector.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

class CoreOldKill : public CoreOnFiles {
 protected:
  CoreOldKill() : CoreOnFiles{"/all", "/all/leak"} {
    files_.write("cgroup/all/leak/cgroup.procs", std::to_string(child_.pid()) + "\n");
    files_.write("cgroup/all/leak/memory.current", "8388608\n");
    files_.write("cgroup/all/leak/memory.stat", "inactive_file 0\n");
    config_.pods = false;
    config_.dry_run = false;
    for (const char* path : {"/all/leak/crit", "/all/leak", "/all/late"}) {
      config_.workloads.emplace_back().cgroup = path;
    }
    config_.workloads.front().is_protected = true;
    actuators::LadderOptions options;
    options.usable.set(static_cast<std::size_t>(Feature::pidfd));
    open(config_, clock_, options);
    observer_->make_standby_tree();
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .sinks = {&sink_},
                .guard = guard_,
                .scanner = scanner_,
                .has_cgroup_events = true},
          config_);
  }
  // The guard has killed the workload `before` the process in the cgroup started, which is now, and
  // the loop takes the kill after `delay`.
  void take_kill(Duration before, Duration delay) {
    Observation read;
    observer_->add_workloads(read, "/all");
    ASSERT_EQ(read.workloads->size(), 1U);
    KillRequest request;
    request.origin = KillOrigin::guard;
    request.decision.considered.emplace_back().sample = read.workloads->front();
    request.set_victim(0);
    request.signalled = actuators::Signalled{clock_.now() - before, 1, mib(8)};
    guard_.kill = std::move(request);
    clock_.advance(delay);
    core_->guard_ready();
  }

  test::Child child_{[] {
    for (;;) pause();
    return 0;
  }};
  test::ManualClock clock_{SystemClock().now()};  // that of the child's start
  Config config_;
  GuardWithAKill guard_;
  HeldScanner scanner_;
  test::RecordCollector sink_;
};

TEST_F(CoreOldKill, ARecentKillIsCompleted) {
  ASSERT_NO_FATAL_FAILURE(take_kill({}, milliseconds(20)));
  EXPECT_TRUE(child_.wait_exit());
}

// The signal missed it.
TEST_F(CoreOldKill, AProcessThatIsOlderThanAnOldKillIsEnded) {
  ASSERT_NO_FATAL_FAILURE(take_kill({}, actuators::kForksWithin + milliseconds(1)));
  EXPECT_TRUE(child_.wait_exit());
}

TEST_F(CoreOldKill, AWorkloadStartedAgainAfterAnOldKillLives) {
  ASSERT_NO_FATAL_FAILURE(take_kill(minutes(10), {}));
  EXPECT_FALSE(child_.ended());
  const auto recorded = std::ranges::find_if(
      sink_.records, [](const Record& record) { return record.outcome.has_value(); });
  ASSERT_NE(recorded, sink_.records.end());
  const Outcome& outcome = *recorded->outcome;
  EXPECT_EQ(ladder_->progress().size(), 1U) << "killLimit counts it";
  EXPECT_EQ(outcome.state, KillState::released);
  EXPECT_TRUE(std::ranges::any_of(outcome.attempts, [](const Attempt& attempt) {
    return attempt.failure && attempt.failure->text().find("started again") != std::string::npos;
  }));
}

// A listing waits for locks that any tenant takes, and further crossings would wait with it.
TEST_F(CoreOldKill, ANewCgroupElsewhereNeedsNoListing) {
  files_.set_group("/all/late", 8, 0);
  ASSERT_NO_FATAL_FAILURE(take_kill({}, milliseconds(20)));
  EXPECT_TRUE(child_.wait_exit());
  EXPECT_EQ(observer_->workload_count(), 1U) << "the loop listed the tree";
}

TEST_F(CoreOldKill, ANewProtectedCgroupInTheVictimIsFound) {
  files_.set_group("/all/leak/crit", 8, 0);
  ASSERT_NO_FATAL_FAILURE(take_kill({}, milliseconds(20)));
  EXPECT_FALSE(child_.ended());
  EXPECT_TRUE(ladder_->progress().empty());
}

}  // namespace
}  // namespace forestall::agent
