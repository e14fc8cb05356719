// SPDX-License-Identifier: Apache-2.0
// An idle agent does not poll what the kernel watches for it, and does not walk a large tree for
// which it has cgroup events. The tree is files; the test sets the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "agent/core.h"
#include "exports/metrics.h"
#include "support/manual_clock.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeSource final : public sources::Source {
 public:
  explicit FakeSource(Feature feature) : feature_(feature) {}
  [[nodiscard]] Feature feature() const override { return feature_; }
  [[nodiscard]] int fd() const override { return -1; }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime) override {
    armed.assign(lines.begin(), lines.end());
    return problems;
  }
  void drain(MonotonicTime, std::vector<Wake>&) override {}

  std::vector<Line> armed;
  std::vector<std::string> problems;

 private:
  Feature feature_;
};

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

class CoreIdle : public ::testing::Test {
 protected:
  void start(const Clock& clock, bool reported) {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    ASSERT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    Config config;
    Threshold threshold;
    threshold.signal = Signal::cgroup_memory_available;
    threshold.cgroup = "/pods/*";
    threshold.limit = Limit::bytes(mib(16));
    config.thresholds = {threshold};
    config.recheck_interval = seconds(10);
    auto observer = sources::Observer::create(tree_, config, files_ / "proc");
    ASSERT_TRUE(observer) << observer.error().text();
    observer_ = std::move(observer).value();
    auto ladder = actuators::Ladder::create(tree_, clock, {});
    ASSERT_TRUE(ladder) << ladder.error().text();
    ladder_ = std::move(ladder).value();
    Parts parts;
    parts.clock = &clock;
    parts.tree = &tree_;
    parts.observer = observer_.get();
    parts.ladder = ladder_.get();
    parts.sources = {&bpf_, &poll_};
    parts.log = &log_;
    parts.pass_listeners = listeners_;
    parts.has_cgroup_events = reported;
    parts.has_usage_events = reported;
    core_.emplace(parts, config);
    core_->start();
  }

  void make_pod(const std::string& path) {
    files_.set_group(path, 1 << 20);
    files_.write("cgroup" + path + "/memory.max", "268435456\n");
  }

  [[nodiscard]] bool knows(const std::string& path) const {
    return std::ranges::any_of(bpf_.armed, [&](const Line& line) { return line.path == path; });
  }

  // Runs the due evaluations until so much time has passed.
  void rest(SlowClock& clock, Duration length) {
    const MonotonicTime end = clock.now() + length;
    while (core_->next_due() < end) {
      clock.advance(std::max(core_->next_due() - clock.now(), Duration::zero()));
      core_->time_passed();
    }
  }

  test::SmallNode files_{"/pods"};
  kernel::CgroupTree tree_;
  std::unique_ptr<sources::Observer> observer_;
  std::unique_ptr<actuators::Ladder> ladder_;
  std::vector<exports::PassListener*> listeners_;
  FakeSource bpf_{Feature::bpf};
  FakeSource poll_{Feature::poll};
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  std::optional<Core> core_;
};

TEST_F(CoreIdle, DoesNotPollWhatTheKernelWatches) {
  make_pod("/pods/a");
  const test::ManualClock clock;
  start(clock, true);
  EXPECT_EQ(bpf_.armed.size(), 1U);
  EXPECT_TRUE(poll_.armed.empty());
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
  rest(clock, seconds(20));
  make_pod("/pods/silent");
  rest(clock, seconds(30));
  EXPECT_FALSE(knows("/pods/silent"));
  rest(clock, seconds(60));
  EXPECT_TRUE(knows("/pods/silent")) << "5000 times the 10 ms of a walk are over";
}

TEST_F(CoreIdle, PausesTwentyTimesTheLengthOfAWalk) {
  SlowClock clock(seconds(1));
  start(clock, false);
  make_pod("/pods/soon");
  // Twenty seconds from the walk at the start, which took some of it.
  core_->time_passed();
  EXPECT_FALSE(knows("/pods/soon")) << "when a changed tree would be read again";
  rest(clock, seconds(60));
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
  rest(clock, seconds(20));
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
  rest(clock, seconds(60));
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
  rest(clock, seconds(20));
  make_pod("/pods/silent");
  rest(clock, seconds(11));
  EXPECT_TRUE(knows("/pods/silent"));
}

}  // namespace
}  // namespace forestall::agent
