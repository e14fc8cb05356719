// SPDX-License-Identifier: Apache-2.0
// Real kills by the kernel in a cgroup with a limit, as its log and as BPF report them.
#include "sources/oom_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "kernel/bpf_programs.h"
#include "sources/bpf_source.h"
#include "sources/oom_event_correlator.h"
#include "sources/oom_scene.h"
#include "support/child.h"
#include "support/process_forest.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

class OomLogRunTest : public testing::Test {
 protected:
  OomLogRunTest()
      : tree_(kernel::CgroupTree::discover().value()),
        inner_(scratch_.child("limited/inner,pid=1")) {
    scratch_.limit(limited_, mib(24));
  }

  // Waits for the next kill of `victim` that `source` reports.
  template <typename EventSource>
  std::optional<OomKillEvent> wait_kill(EventSource& source, pid_t victim) {
    const MonotonicTime end = clock_.now() + kPatience;
    while (clock_.now() < end) {
      pollfd ready{source.fd(), POLLIN, 0};
      ::poll(&ready, 1, 1000);
      std::vector<Wake> wakes;
      source.drain(clock_.now(), wakes);
      for (auto& kill : source.take_kills()) {
        if (kill.victim.pid == victim) return kill;
      }
    }
    return std::nullopt;
  }

  SystemClock clock_;
  kernel::CgroupTree tree_;
  ScratchCgroup scratch_;
  std::string limited_ = scratch_.path() + "/limited";
  std::string inner_;
};

TEST_F(OomLogRunTest, TheLogNamesVictimConstraintAndPlaces) {
  auto log = sources::OomLog::open().value();
  // The kernel logs all details for ten kills in five seconds (mm/oom_kill.c oom_rs), and other
  // OOMs of this machine may have used them up: repeat until it does.
  const MonotonicTime end = clock_.now() + kPatience;
  std::optional<OomKillEvent> kill;
  pid_t victim = 0;
  while ((!kill || kill->path.empty()) && clock_.now() < end) {
    const MonotonicTime before = clock_.now();
    const Hog hog(scratch_, inner_, mib(4));
    victim = hog.pid();
    hog.grow(mib(64));
    kill = wait_kill(*log, victim);
    ASSERT_TRUE(kill.has_value());
    EXPECT_EQ(kill->constraint, Constraint::memcg);
    // The log's clock is exact to about the time that the line waited for its reader.
    EXPECT_GE(kill->at, before - std::chrono::seconds(1));
    EXPECT_LE(kill->at, clock_.now());
  }
  EXPECT_FALSE(kill->constraint_deduced);
  EXPECT_EQ(kill->path, inner_);
  EXPECT_EQ(kill->domain_path, limited_);
  EXPECT_EQ(kill->domain_limit, mib(24));
  ASSERT_TRUE(kill->domain_usage.has_value());
  EXPECT_GT(*kill->domain_usage, mib(20));
  EXPECT_EQ(kill->killer, (ProcessId{victim, 0}));
  EXPECT_EQ(kill->comm, kill->killer_comm);
  ASSERT_TRUE(kill->memory.has_value());
  EXPECT_GT(kill->memory->anon, mib(16).count / 4096);
  EXPECT_FALSE(kill->with_another);
}

TEST_F(OomLogRunTest, BothSourcesReportOneKillOnce) {
  auto programs = kernel::BpfPrograms::load({}).value();
  ASSERT_TRUE(programs->in_use(Feature::bpf_oom));
  sources::BpfSource bpf(*programs, tree_);
  auto log = sources::OomLog::open().value();
  std::optional<OomKillEvent> event;
  std::optional<OomKillEvent> line;
  const Hog hog(scratch_, inner_, mib(4));
  hog.grow(mib(64));
  event = wait_kill(bpf, hog.pid());
  line = wait_kill(*log, hog.pid());
  ASSERT_TRUE(event.has_value());
  ASSERT_TRUE(line.has_value());
  EXPECT_LT(event->at - line->at, std::chrono::seconds(1));
  EXPECT_LT(line->at - event->at, std::chrono::seconds(1));
  EXPECT_EQ(event->path, inner_);
  EXPECT_EQ(event->cgroup, tree_.open(inner_).value().id());
  EXPECT_EQ(event->domain, tree_.open(limited_).value().id());
  EXPECT_EQ(event->domain_path, limited_);
  sources::OomEventCorrelator events(true, true);
  events.report(sources::OomEventSource::log, *line, clock_.now());
  events.report(sources::OomEventSource::bpf, *event, clock_.now());
  std::vector<OomKillEvent> kills;
  events.take(clock_.now(), kills);
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills.front().constraint, Constraint::memcg);
  EXPECT_FALSE(kills.front().constraint_deduced);
  EXPECT_EQ(kills.front().victim, event->victim);
  EXPECT_NE(kills.front().victim.start_ticks, 0U);
}

TEST_F(OomLogRunTest, ASceneOfTheLimitedGroup) {
  const Hog hog(scratch_, inner_, mib(4));
  auto processes = sources::proc_process_source(tree_).value();
  sources::OomSceneReader reader(tree_, *processes);
  OomScene scene;
  auto done = reader.read_memcg(limited_, scene);
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_EQ(scene.domain.path, limited_);
  EXPECT_GE(scene.domain.total_pages, mib(24).count / 4096);
  ASSERT_EQ(scene.cgroups.size(), 2U);
  EXPECT_EQ(scene.cgroups[1].path, inner_);
  ASSERT_EQ(scene.processes.size(), 1U);
  EXPECT_EQ(scene.processes.front().id.pid, hog.pid());
  EXPECT_EQ(scene.processes.front().cgroup, scene.cgroups[1].id);
  EXPECT_FALSE(reader.read_memcg(inner_, scene).ok());
  done = reader.read_node(scene);
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_EQ(scene.cgroups.front().path, "/");
  EXPECT_GT(scene.processes.size(), 1U);
}

}  // namespace
}  // namespace forestall::test
