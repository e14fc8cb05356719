// SPDX-License-Identifier: Apache-2.0
// An idle agent does not poll what the kernel watches for it, and does not walk a large tree for
// which it has cgroup events. The tree is files; the test sets the time.
#include <gtest/gtest.h>

#include <sstream>

#include "core_on_files.h"
#include "exports/metrics.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Each read of it takes some time, so that a walk has a duration.
class SlowClock final : public Clock {
 public:
  explicit SlowClock(Duration step = milliseconds(10)) : step_(step) {}
  [[nodiscard]] MonotonicTime now() const override { return now_ += step_; }
  void advance(Duration by) { now_ += by; }

 private:
  Duration step_;
  mutable MonotonicTime now_ = MonotonicTime(seconds(1000));
};

class CoreIdle : public CoreOnFiles {
 protected:
  CoreIdle() : CoreOnFiles{"/pods"} {}

  void start(const Clock& clock, bool reported) {
    Config config;
    config.thresholds = {own_limit("/pods/*", mib(16))};
    config.recheck_interval = seconds(10);
    open(config, clock);
    CoreOnFiles::start(Parts{.clock = clock,
                             .tree = tree_,
                             .observer = *observer_,
                             .ladder = *ladder_,
                             .log = *log_,
                             .sources = {&bpf_, &poll_},
                             .pass_listeners = listeners_,
                             .has_cgroup_events = reported,
                             .has_usage_events = reported},
                       config);
  }

  [[nodiscard]] bool knows(const std::string& path) const { return bpf_.watches(path); }

  std::vector<exports::PassListener*> listeners_;
  FakeSource bpf_{Feature::bpf};
  FakeSource poll_{Feature::poll};
};

TEST_F(CoreIdle, DoesNotPollWhatTheKernelWatches) {
  make_pod("/pods/a");
  const test::ManualClock clock;
  start(clock, true);
  EXPECT_EQ(bpf_.armed.size(), 1U);
  EXPECT_TRUE(poll_.armed.empty());
}

TEST_F(CoreIdle, PollsOnlyWhatTheKernelDoesNotSee) {
  make_pod("/pods/a");
  make_pod("/pods/b");
  bpf_.unseen = "/pods/b";
  const test::ManualClock clock;
  start(clock, true);
  EXPECT_EQ(bpf_.armed.size(), 2U);
  ASSERT_EQ(poll_.armed.size(), 1U);
  EXPECT_EQ(poll_.armed.front().path, "/pods/b");
}

TEST_F(CoreIdle, PollsAllIfTheKernelRejectsALine) {
  make_pod("/pods/a");
  bpf_.problems = {"/pods/a: not watched by BPF"};
  const test::ManualClock clock;
  start(clock, true);
  EXPECT_EQ(poll_.armed.size(), 1U);
}

TEST_F(CoreIdle, PollsAllWithoutKernelSources) {
  make_pod("/pods/a");
  const test::ManualClock clock;
  start(clock, false);
  EXPECT_EQ(poll_.armed.size(), 1U);
}

TEST_F(CoreIdle, SeldomWalksATreeWithCgroupEvents) {
  SlowClock clock;
  start(clock, true);
  pass(clock, seconds(20));
  make_pod("/pods/silent");
  pass(clock, seconds(30));
  EXPECT_FALSE(knows("/pods/silent"));
  pass(clock, seconds(60));
  EXPECT_TRUE(knows("/pods/silent")) << "5000 times the 10 ms of a walk are over";
}

TEST_F(CoreIdle, PausesTwentyTimesTheLengthOfAWalk) {
  SlowClock clock(seconds(1));
  start(clock, false);
  make_pod("/pods/soon");
  // Twenty seconds from the walk at the start, which took some of it.
  core_->time_passed();
  EXPECT_FALSE(knows("/pods/soon")) << "when a changed tree would be read again";
  pass(clock, seconds(60));
  EXPECT_TRUE(knows("/pods/soon"));
}

// A recording: passes at a fixed rate, and the workloads at the end of each.
class EachSecond final : public exports::PassListener {
 public:
  void passed(const exports::PolicyPass&) override { ++passes; }
  [[nodiscard]] std::optional<Duration> pass_interval() const override { return seconds(1); }
  [[nodiscard]] bool needs_workload_sample(MonotonicTime) override { return true; }
  void sampled(const exports::WorkloadSampling&) override { ++samples; }

  int passes = 0;
  int samples = 0;
};

TEST_F(CoreIdle, EvaluatesAsOftenAsAListenerRequests) {
  EachSecond listener;
  listeners_ = {&listener};
  SlowClock clock(milliseconds(1));
  start(clock, true);
  pass(clock, seconds(20));
  EXPECT_GE(listener.passes, 20);
  EXPECT_LE(listener.passes, 30);
  EXPECT_GE(listener.samples, 20);
}

TEST_F(CoreIdle, CountsTheEvaluationsThatListenersReceive) {
  EachSecond listener;
  exports::Metrics metrics("1", Tier::full);
  listeners_ = {&listener, &metrics};
  SlowClock clock(milliseconds(1));
  start(clock, true);
  make_pod("/pods/new");  // an evaluation that finds it decides twice
  pass(clock, seconds(60));
  core_->reload(Config());
  EXPECT_EQ(core_->evaluations(), static_cast<std::uint64_t>(listener.passes));
  std::istringstream text(metrics.text());
  double counted = 0;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("forestall_evaluations_total{")) continue;
    counted += std::stod(line.substr(line.rfind(' ')));
  }
  EXPECT_EQ(counted, listener.passes);
}

TEST_F(CoreIdle, WalksATreeWithoutCgroupEventsAtEachRecheck) {
  SlowClock clock;
  start(clock, false);
  pass(clock, seconds(20));
  make_pod("/pods/silent");
  pass(clock, seconds(11));
  EXPECT_TRUE(knows("/pods/silent"));
}

}  // namespace
}  // namespace forestall::agent
