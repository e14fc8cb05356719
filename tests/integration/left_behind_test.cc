// SPDX-License-Identifier: Apache-2.0
// Memory of a workload that has ended by itself: the ladder reclaims it on its thread.
#include <gtest/gtest.h>
#include <unistd.h>

#include "integration/bpf_events.h"
#include "integration/ladder_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using actuators::LadderOptions;
using actuators::Reclaimed;

class LeftBehindTest : public ::testing::Test {
 protected:
  // Page cache of a process that has exited.
  WorkloadSample leave_cache(LadderRun& run, const std::string& path) {
    Child reader([&] {
      scratch_.add(path, ::getpid());
      return file_.read_through(1);
    });
    EXPECT_TRUE(reader.wait_exit(std::chrono::seconds(60)));
    EXPECT_EQ(reader.reap(), 0);
    WorkloadSample sample = run.rank(path);
    sample.usage = scratch_.usage(path);
    sample.processes = 0;
    EXPECT_GE(*sample.usage, mib(28));
    return sample;
  }
  static std::vector<Reclaimed> wait(LadderRun& run) {
    std::vector<Reclaimed> all;
    EXPECT_TRUE(run.turn_until([&] {
      all = run.ladder().take_reclaimed();
      return !all.empty();
    }));
    return all;
  }

  ScratchCgroup scratch_;
  const std::string path_ = scratch_.child("tenant");
  const CacheFile file_{mib(32)};
};

TEST_F(LeftBehindTest, IsReclaimedAndReportedWithItsKinds) {
  LadderRun run({});
  const auto sample = leave_cache(run, path_);
  ASSERT_TRUE(run.ladder().reclaim(sample));
  const auto reclaimed = wait(run);
  ASSERT_EQ(reclaimed.size(), 1U);
  EXPECT_EQ(reclaimed[0].path, path_);
  EXPECT_EQ(reclaimed[0].before, *sample.usage);
  ASSERT_TRUE(reclaimed[0].after);
  EXPECT_LE(*reclaimed[0].after, mib(4));
  EXPECT_FALSE(reclaimed[0].failure) << reclaimed[0].failure->text();
  EXPECT_TRUE(reclaimed[0].kinds.file);
}

// A tenant that fills its cache again and again does not keep the thread busy.
TEST_F(LeftBehindTest, EachGroupIsTriedOnceInTenSeconds) {
  LadderRun run({});
  const auto sample = leave_cache(run, path_);
  ASSERT_TRUE(run.ladder().reclaim(sample));
  (void)wait(run);
  EXPECT_FALSE(run.ladder().reclaim(sample));
  const std::string other = scratch_.child("other");
  const auto next = leave_cache(run, other);
  EXPECT_TRUE(run.ladder().reclaim(next));
  (void)wait(run);
}

TEST_F(LeftBehindTest, ManyGroupsAreTriedAtABoundedRate) {
  LadderRun run({});
  const auto began = SystemClock().now();
  int started = 0;
  for (int i = 0; i < 100; ++i) {
    auto sample = run.rank(scratch_.child("g" + std::to_string(i)));
    sample.usage = mib(2);
    sample.processes = 0;
    if (!run.ladder().reclaim(sample)) continue;
    ++started;
    (void)wait(run);
  }
  const auto periods = 1 + (SystemClock().now() - began) / std::chrono::seconds(10);
  EXPECT_GE(started, 64);
  EXPECT_LE(started, 64 * periods);
}

TEST_F(LeftBehindTest, NothingElseIsTouched) {
  LadderRun run({});
  auto sample = leave_cache(run, path_);
  auto busy = sample;
  busy.processes = 1;
  EXPECT_FALSE(run.ladder().reclaim(busy)) << "it has processes";
  busy.processes.reset();
  EXPECT_FALSE(run.ladder().reclaim(busy)) << "it may have processes";
  auto another = sample;
  another.workload.cgroup.inode += 1'000'000;
  EXPECT_FALSE(run.ladder().reclaim(another)) << "another cgroup at this path";
  LadderOptions dry;
  dry.dry_run = true;
  LadderRun dry_run(dry);
  EXPECT_FALSE(dry_run.ladder().reclaim(sample));
  EXPECT_GE(scratch_.usage(path_), mib(28));
}

}  // namespace
}  // namespace forestall::test
