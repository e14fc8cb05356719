// SPDX-License-Identifier: Apache-2.0
// What the loop does in one stretch: between two kills it serves other events.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "core_on_files.h"
#include "support/child.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

// A reading has to be newer than the kill before it.
constexpr Duration kLater = std::chrono::microseconds(1);

// Two cgroups, each past its threshold, with one workload.
class CoreStretch : public CoreOnFiles {
 protected:
  CoreStretch() : CoreOnFiles{"/one", "/one/leak", "/two", "/two/leak"} {
    config_.pods = false;
    config_.dry_run = false;
    for (const char* group : {"/one", "/two"}) {
      const std::string leak = std::string(group) + "/leak";
      files_.set_group(group, static_cast<int>(mib(200).count));
      files_.set_group(leak, static_cast<int>(mib(200).count));
      for (const std::string& limited : {std::string(group), leak}) {
        files_.write("cgroup" + limited + "/memory.max", std::to_string(mib(256).count) + "\n");
      }
      config_.thresholds.push_back(own_limit(group, mib(64)));
      config_.workloads.emplace_back().cgroup = leak;
    }
    files_.write("cgroup/one/leak/cgroup.procs", std::to_string(first_.pid()) + "\n");
    files_.write("cgroup/two/leak/cgroup.procs", std::to_string(second_.pid()) + "\n");
    actuators::LadderOptions options;
    options.usable.set(static_cast<std::size_t>(Feature::pidfd));
    open(config_, clock_, options);
  }
  void start_core(std::vector<sources::Source*> sources = {}) {
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .sources = std::move(sources)},
          config_);
  }

  static int wait_for_signals() {
    for (;;) pause();
    return 0;
  }
  test::Child first_{wait_for_signals};
  test::Child second_{wait_for_signals};
  test::ManualClock clock_{SystemClock().now()};
  Config config_;
};

TEST_F(CoreStretch, AFurtherKillIsDueAtOnceAndLeavesTheLoopInBetween) {
  start_core();
  EXPECT_EQ(ladder_->progress().size(), 1U);
  EXPECT_LE(core_->next_due(), clock_.now());
  clock_.advance(kLater);
  pass(clock_, Duration::zero());
  EXPECT_EQ(ladder_->progress().size(), 2U);
  EXPECT_TRUE(first_.wait_exit());
  EXPECT_TRUE(second_.wait_exit());
}

// Their descriptors precede the loop's timer.
TEST_F(CoreStretch, HintsThatKeepComingDoNotDelayAFurtherKill) {
  FakeSource hints(Feature::bpf);
  hints.reported = WakeSource::kill_progress;
  start_core({&hints});
  ASSERT_EQ(ladder_->progress().size(), 1U);
  clock_.advance(kLater);
  core_->source_ready(hints);
  EXPECT_EQ(ladder_->progress().size(), 2U);
}

}  // namespace
}  // namespace forestall::agent
