// SPDX-License-Identifier: Apache-2.0
// A runtime makes a pod's cgroup first and writes its limit a moment later. The agent must read the
// limit long before the next regular recheck. The tree is files; the test sets the time.
#include <gtest/gtest.h>

#include "core_on_files.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoreSettling : public CoreOnFiles {
 protected:
  CoreSettling() : CoreOnFiles{"/pods"} {}

  void SetUp() override {
    Config config;
    config.thresholds = {own_limit("/pods/*", mib(16))};
    config.recheck_interval = seconds(10);
    open(config, clock_);
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .sources = {&source_},
                .has_cgroup_events = true},
          config);
  }

  // Advances the clock to the next deadline of the core and returns the difference.
  Duration next() {
    const Duration wait = core_->next_due() - clock_.now();
    clock_.advance(wait);
    core_->time_passed();
    return wait;
  }

  test::ManualClock clock_;
  FakeSource source_{Feature::bpf_cgroups};
};

TEST_F(CoreSettling, ALimitWrittenAfterTheCgroupWasMadeIsKnownSoon) {
  while (next() < seconds(9)) {
  }
  clock_.advance(seconds(1));
  make_pod("/pods/b", "max");
  core_->source_ready(source_);
  EXPECT_FALSE(source_.watches("/pods/b")) << "it has no limit yet";
  make_pod("/pods/b");
  EXPECT_LE(next(), milliseconds(100));
  EXPECT_TRUE(source_.watches("/pods/b"));
}

TEST_F(CoreSettling, ATreeAtRestIsReadAtItsInterval) {
  EXPECT_EQ(next(), milliseconds(100));
  EXPECT_EQ(next(), seconds(1));
  EXPECT_EQ(next(), seconds(10));
  EXPECT_EQ(next(), seconds(10));
  clock_.advance(seconds(1));
  make_pod("/pods/b", "max");
  core_->source_ready(source_);
  EXPECT_EQ(next(), milliseconds(100));
  EXPECT_EQ(next(), seconds(1));
  EXPECT_EQ(next(), seconds(10));
}

}  // namespace
}  // namespace forestall::agent
