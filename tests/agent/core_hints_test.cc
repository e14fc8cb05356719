// SPDX-License-Identifier: Apache-2.0
// Which hints of pressure cause evaluations. The test sets the time.
#include <gtest/gtest.h>

#include "core_on_files.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kHints = 40;

class CoreHints : public CoreOnFiles {
 protected:
  CoreHints() : CoreOnFiles{"/pods"} {
    config_.pods = false;
    config_.recheck_interval = std::chrono::hours(1);
    Threshold& threshold = config_.thresholds.emplace_back();
    threshold.signal = Signal::memory_available;
    threshold.limit = Limit::bytes(mib(100));
    bpf_.reported = WakeSource::stall;
    bpf_.follows_node = true;
  }

  // The evaluations that hints cause in ten seconds, one each 250 ms.
  std::uint64_t evaluations_of_hints() {
    open(config_, clock_);
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .sources = {&bpf_},
                .has_cgroup_events = true,
                .has_usage_events = has_usage_events_},
          config_);
    pass(clock_, seconds(10));
    const std::uint64_t before = core_->evaluations();
    for (std::uint64_t i = 0; i < kHints; ++i) {
      core_->source_ready(bpf_);
      pass(clock_, milliseconds(250));
    }
    return core_->evaluations() - before;
  }

  test::ManualClock clock_;
  Config config_;
  FakeSource bpf_{Feature::bpf};
  bool has_usage_events_ = true;
};

TEST_F(CoreHints, EvaluateSeldomWhileTheKernelFollowsAFarLine) {
  EXPECT_EQ(evaluations_of_hints(), 3U) << "after 0, 5 and 10 s";
}

TEST_F(CoreHints, EvaluateEachIfTheKernelDoesNotFollowALine) {
  bpf_.follows_node = false;
  EXPECT_GE(evaluations_of_hints(), kHints);
}

TEST_F(CoreHints, EvaluateEachWithoutUsageEvents) {
  has_usage_events_ = false;
  EXPECT_GE(evaluations_of_hints(), kHints);
}

TEST_F(CoreHints, EvaluateEachIfTheKernelRejectsALine) {
  bpf_.problems = {"/: not watched by BPF"};
  EXPECT_GE(evaluations_of_hints(), kHints);
}

// Its inactive file pages can shrink while its usage stands still.
TEST_F(CoreHints, EvaluateEachWithALineOfACgroup) {
  make_pod("/pods/a");
  config_.thresholds.push_back(own_limit("/pods/*", mib(16)));
  EXPECT_GE(evaluations_of_hints(), kHints);
}

TEST_F(CoreHints, EvaluateEachWhileAReadingOfTheNodeIsMissing) {
  config_.thresholds.push_back(config_.thresholds.front());
  config_.thresholds.back().signal = Signal::memory_until_oom;
  files_.write("proc/meminfo", "MemTotal: 1000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
  EXPECT_GE(evaluations_of_hints(), kHints);
}

// 860 of 976 MiB are used, in pages of 4 KiB: the first warning line is reached.
TEST_F(CoreHints, EvaluateEachNearTheThreshold) {
  files_.write("proc/vmstat", "nr_anon_pages 220160\nnr_file_pages 0\nnr_inactive_file 0\n");
  EXPECT_GE(evaluations_of_hints(), kHints);
}

// What a victim or a limit is decided on is not a hint.
TEST_F(CoreHints, ACrossingIsEvaluatedAtOnce) {
  bpf_.reported = WakeSource::usage_timer;
  EXPECT_GE(evaluations_of_hints(), kHints);
}

}  // namespace
}  // namespace forestall::agent
