// SPDX-License-Identifier: Apache-2.0
// The watchdog's orders for several thresholds of one subject: it watches each of them, whichever
// is the nearest when the orders are made. On real memory. The test sets the node's thresholds by
// hand, so that other load of this machine does not matter.
#include "agent/watchdog.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "agent/growth_watch.h"
#include "agent/readiness.h"
#include "integration/core_run.h"
#include "policy/signals.h"
#include "sources/node_reader.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

constexpr Duration kSoon = std::chrono::milliseconds(40);

class WatchdogTest : public ::testing::Test {
 protected:
  WatchdogTest()
      : path_(scratch_.child("victim")),
        hog_(scratch_, path_, mib(16)),
        config_(watching(scratch_.path(), mib(64), {"victim"})),
        observer_(LadderRun::must(sources::Observer::create(run_.tree(), config_))),
        growth_(clock_, *observer_),
        readiness_(*observer_, run_.ladder(), growth_),
        watchdog_(LadderRun::must(
            agent::Watchdog::create(run_.tree(), clock_, /*real_time=*/false, kSoon))) {
    observer_->refresh();
    std::vector<SourceNote> notes;
    std::string buffer;
    node_ = LadderRun::must(sources::NodeReader::open(run_.tree(), "/proc")).read(buffer, notes);
  }

  // A threshold of the node: `is_met` always or never, whatever the node's memory does.
  [[nodiscard]] Line line(Signal signal, Bytes headroom, bool is_met) const {
    const auto level = signal == Signal::memory_until_oom ? policy::until_oom_level(node_)
                                                          : policy::node_level(node_);
    Line line;
    line.signal = signal;
    line.path = "/";
    line.headroom = headroom;
    line.capacity = level->capacity;
    line.floor_line = is_met ? Bytes{0} : level->capacity;
    line.margin = mib(64);
    return line;
  }
  // The orders that the victim cache makes of them.
  std::vector<agent::Watchdog::Order> orders_for(const std::vector<Line>& lines) {
    readiness_.note(lines, clock_.now());
    while (readiness_.working()) readiness_.work(config_, {}, clock_.now());
    return readiness_.orders();
  }
  std::optional<agent::KillRequest> wait_kill() {
    pollfd fired{watchdog_->fd(), POLLIN, 0};
    ::poll(&fired, 1, static_cast<int>(kPatience / std::chrono::milliseconds(1)));
    return watchdog_->take_kill();
  }

  SystemClock clock_;
  LadderRun run_{actuators::LadderOptions{.usable = kAllOfKilling}};
  ScratchCgroup scratch_;
  std::string path_;
  Hog hog_;
  Config config_;
  std::unique_ptr<sources::Observer> observer_;
  agent::GrowthWatch growth_;
  agent::Readiness readiness_;
  std::unique_ptr<agent::Watchdog> watchdog_;
  NodeSample node_;
};

TEST_F(WatchdogTest, EveryThresholdOfASubjectIsWatched) {
  const auto orders = orders_for({line(Signal::memory_available, gib(1), false),
                                  line(Signal::memory_until_oom, mib(8), false)});
  ASSERT_EQ(orders.size(), 2U);
  for (const Signal signal : {Signal::memory_available, Signal::memory_until_oom}) {
    const auto order = std::ranges::find(orders, signal, &agent::Watchdog::Order::signal);
    ASSERT_NE(order, orders.end());
    EXPECT_EQ(order->victim.sample.workload.path, path_);
    EXPECT_NE(order->grip, nullptr);
  }
}

// memory.untilOom is the nearer one when the loop hangs, and stays unmet.
TEST_F(WatchdogTest, MemoryAvailableIsActedUponBehindANearerUntilOom) {
  auto orders = orders_for({line(Signal::memory_until_oom, mib(8), false),
                            line(Signal::memory_available, mib(32), true)});
  watchdog_->post(std::move(orders), clock_.now() + kPatience);
  const auto kill = wait_kill();
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->decision.evidence.front().threshold.signal, Signal::memory_available);
  EXPECT_EQ(kill->signalled->processes, 1U);
  EXPECT_TRUE(hog_.child().wait_exit());
}

TEST_F(WatchdogTest, UntilOomIsActedUponToo) {
  auto orders = orders_for({line(Signal::memory_available, mib(8), false),
                            line(Signal::memory_until_oom, mib(32), true)});
  watchdog_->post(std::move(orders), clock_.now() + kPatience);
  const auto kill = wait_kill();
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->decision.evidence.front().threshold.signal, Signal::memory_until_oom);
  EXPECT_GT(kill->observation.wake.usage, Bytes{0});
  EXPECT_TRUE(hog_.child().wait_exit());
}

// If the amount of swap changes after the order, its line is elsewhere.
TEST_F(WatchdogTest, UntilOomOfAnotherCapacityIsVoid) {
  Line stale = line(Signal::memory_until_oom, mib(8), true);
  stale.capacity += mib(64);
  auto orders = orders_for({stale, line(Signal::memory_available, mib(32), true)});
  ASSERT_EQ(orders.size(), 2U);
  watchdog_->post(std::move(orders), clock_.now() + kPatience);
  const auto kill = wait_kill();
  ASSERT_TRUE(kill);
  EXPECT_EQ(kill->decision.evidence.front().threshold.signal, Signal::memory_available);
}

}  // namespace
}  // namespace forestall::test
