// SPDX-License-Identifier: Apache-2.0
// Passes over disk, inodes and process numbers: node-level reclaim, statistics, limits on local
// storage, waiting for cleanup.
#include <gtest/gtest.h>

#include <vector>

#include "policy/deadlines.h"
#include "tests/policy/pods.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using std::chrono::seconds;

constexpr auto kNodefs = Signal::nodefs_available;
constexpr auto kPids = Signal::pid_available;

WorkloadSample on_disk_pod(const std::string& name, Bytes rootfs) {
  return with_statistics(sample_of(pod(name, {container("c")})),
                         {container_sample("c", on_disk(rootfs, 10), on_disk(mib(1), 1))});
}

// A node with one filesystem of 100 GiB, and two pods on it.
Story disk_run(std::vector<Threshold> thresholds, Compat compat = {}) {
  Config config = policy::config(std::move(thresholds));
  config.compat = compat;
  Story run(std::move(config));
  run.now.filesystems.layout = FilesystemLayout::single;
  run.now.node = node(gib(8), gib(4));
  run.now.disk_usage_read = true;
  run.now.workloads = {on_disk_pod("big", gib(3)), on_disk_pod("small", gib(1))};
  return run;
}

std::string evaluate_at(Story& run, double at, Bytes available) {
  run.now.filesystems.nodefs = filesystem(gib(100), available);
  return run.evaluate(at);
}

TEST(PassTest, WithoutARuntimePodsFollowAtOnce) {
  Story run = disk_run({hard(kNodefs, gib(10))});
  EXPECT_EQ(evaluate_at(run, 0, gib(10)), "none: no-threshold-met");
  EXPECT_EQ(evaluate_at(run, 1, gib(9)), "kill /kubepods/big for node");
  EXPECT_EQ(run.conditions(), "DiskPressure*");
  EXPECT_EQ(run.decision().node_reclaim,
            (std::vector{ReclaimStep::dead_containers, ReclaimStep::unused_images}));
  const Eviction& eviction = run.decision().evictions[0];
  EXPECT_EQ(eviction.grace, seconds(1));
  EXPECT_FALSE(eviction.at_once) << "nothing is lost in a second";
  EXPECT_EQ(eviction.metric_signal, "nodefs.available");
  EXPECT_NE(eviction.message.find("ephemeral-storage"), std::string::npos) << eviction.message;
}

TEST(PassTest, OnlyPodsAreCandidatesForDisk) {
  Story run = disk_run({hard(kNodefs, gib(10))});
  run.now.workloads->push_back(workload("/system.slice/logger", gib(3)));
  EXPECT_EQ(evaluate_at(run, 0, gib(9)), "kill /kubepods/big for node");
  EXPECT_EQ(run.decision().considered.size(), 2U);
  run.now.workloads = {workload("/system.slice/logger", gib(3))};
  run.now.disk_usage_read = false;
  EXPECT_EQ(evaluate_at(run, 1, gib(9)), "none for node: no-candidates") << "no walk without pods";
}

TEST(PassTest, DiskWaitsForItsStatistics) {
  Story run = disk_run({hard(kNodefs, gib(10))});
  const auto workloads = run.now.workloads;
  run.now.workloads.reset();
  run.now.disk_usage_read = false;
  run.now.filesystems.nodefs = filesystem(gib(100), gib(9));
  run.now.filesystems.nodefs->at = second(1);
  EXPECT_EQ(run.evaluate(1), "inspect for node: workloads-unread");
  EXPECT_EQ(inspection_subject(run.decision()), "");
  run.now.workloads = workloads;
  EXPECT_EQ(run.evaluate(2), "inspect for node: disk-usage-unread");
  EXPECT_EQ(run.evaluate(5), "inspect for node: disk-usage-unread") << "a walk takes its time";
  run.now.disk_usage_read = true;
  EXPECT_EQ(run.evaluate(6), "kill /kubepods/big for node") << "on the reading that began it";
  EXPECT_EQ(run.evaluate(7), "none for node: statistics-not-newer");
}

TEST(PassTest, ReclaimComesFirstAndMaySuffice) {
  Story run = disk_run({hard(kNodefs, gib(10))});
  run.now.reclaim = ReclaimState::ready;
  EXPECT_EQ(evaluate_at(run, 0, gib(9)), "reclaim for node: node-reclaim");
  EXPECT_TRUE(run.decision().considered.empty());
  run.now.reclaim = ReclaimState::running;
  EXPECT_EQ(evaluate_at(run, 1, gib(9)), "none for node: node-reclaim");
  run.now.reclaim = ReclaimState::done;
  EXPECT_EQ(evaluate_at(run, 2, gib(20)), "none for node: node-reclaim-sufficed");
  run.now.reclaim = ReclaimState::ready;
  EXPECT_EQ(evaluate_at(run, 3, gib(20)), "none: no-threshold-met");
  EXPECT_EQ(evaluate_at(run, 4, gib(9)), "reclaim for node: node-reclaim") << "a second crossing";
}

TEST(PassTest, ReclaimThatIsNotEnoughIsFollowedByAPod) {
  Story run = disk_run({hard(kNodefs, gib(10), gib(5))});
  run.now.reclaim = ReclaimState::ready;
  EXPECT_EQ(evaluate_at(run, 0, gib(9)), "reclaim for node: node-reclaim");
  run.now.reclaim = ReclaimState::done;
  EXPECT_EQ(evaluate_at(run, 1, gib(14)), "kill /kubepods/big for node")
      << "the minimum reclaim is not there";
  run.now.reclaim = ReclaimState::ready;
  EXPECT_EQ(evaluate_at(run, 2, gib(14)), "reclaim for node: node-reclaim") << "in every pass";
}

// As in kubelet, node-level reclaim fails while another threshold is met, so a pod is evicted
// although the filesystem is fine.
TEST(PassTest, ReclaimMustClearEverything) {
  const auto thresholds =
      std::vector{hard(kNodefs, gib(10)), soft(hard(Signal::memory_available, gib(5)))};
  for (const bool all : {true, false}) {
    Compat compat;
    compat.reclaim_must_clear_all = all;
    Story run = disk_run(thresholds, compat);
    run.now.reclaim = ReclaimState::ready;
    EXPECT_EQ(evaluate_at(run, 0, gib(9)), "reclaim for node: node-reclaim");
    run.now.reclaim = ReclaimState::done;
    EXPECT_EQ(evaluate_at(run, 1, gib(50)),
              all ? "kill /kubepods/big for node" : "none for node: node-reclaim-sufficed");
    run.now.reclaim = ReclaimState::ready;
    EXPECT_EQ(evaluate_at(run, 2, gib(50)), "none: in-grace") << "that was its pass";
  }
}

TEST(PassTest, AWalkAfterReclaimDoesNotRequestReclaimAgain) {
  Story run = disk_run({hard(kNodefs, gib(10))});
  run.now.disk_usage_read = false;
  run.now.reclaim = ReclaimState::ready;
  EXPECT_EQ(evaluate_at(run, 0, gib(9)), "reclaim for node: node-reclaim");
  run.now.reclaim = ReclaimState::done;
  EXPECT_EQ(evaluate_at(run, 1, gib(9)), "inspect for node: disk-usage-unread");
  run.now.reclaim = ReclaimState::ready;
  EXPECT_EQ(evaluate_at(run, 2, gib(9)), "inspect for node: disk-usage-unread");
  run.now.disk_usage_read = true;
  EXPECT_EQ(evaluate_at(run, 3, gib(9)), "kill /kubepods/big for node");
}

TEST(PassTest, RecoveryWhileReclaimIsNotEvenBegunForgetsIt) {
  Story run = disk_run({hard(kNodefs, gib(10))});
  run.now.reclaim = ReclaimState::ready;
  evaluate_at(run, 0, gib(9));
  EXPECT_EQ(evaluate_at(run, 1, gib(20)), "none: no-threshold-met");
  EXPECT_EQ(run.state().reclaim, std::nullopt);
}

TEST(PassTest, ReclaimDoesNotHoldUpMemory) {
  Story run = disk_run({hard(kNodefs, gib(10)), hard(Signal::memory_available, gib(1))});
  run.now.reclaim = ReclaimState::ready;
  evaluate_at(run, 0, gib(9));
  run.now.reclaim = ReclaimState::running;
  run.now.node = node(gib(8), mib(1));
  EXPECT_EQ(evaluate_at(run, 1, gib(9)), "kill /kubepods/big for node");
  EXPECT_EQ(run.decision().evidence[*run.decision().driving].threshold.signal,
            Signal::memory_available);
  run.now.node = node(gib(8), gib(4));
  run.now.reclaim = ReclaimState::done;
  EXPECT_EQ(evaluate_at(run, 2, gib(9)), "kill /kubepods/big for node") << "its place was kept";
}

TEST(PassTest, DiskWaitsUntilTheLastVictimIsGone) {
  Story run = disk_run({hard(kNodefs, gib(10))});
  EXPECT_EQ(evaluate_at(run, 0, gib(9)), "kill /kubepods/big for node");
  run.now.kills = {kill("/kubepods/big", gib(1), KillState::terminating)};
  run.now.kills[0].started = second(0);
  run.now.kills[0].kill_at = second(1);
  EXPECT_EQ(evaluate_at(run, 0.5, gib(9)), "none for node: cleanup-pending");
  run.now.kills[0].state = KillState::in_flight;
  EXPECT_EQ(evaluate_at(run, 2, gib(9)), "none for node: cleanup-pending");
  EXPECT_EQ(next_deadline(run.config(), run.state()), second(30));
  run.now.kills[0].state = KillState::released;
  EXPECT_EQ(evaluate_at(run, 3, gib(9)), "none for node: cleanup-pending") << "its cgroup is there";
  const auto workloads = run.now.workloads;
  run.now.workloads.reset();
  EXPECT_EQ(evaluate_at(run, 4, gib(9)), "inspect for node: workloads-unread") << "is it?";
  run.now.workloads = {workloads->back()};
  EXPECT_EQ(evaluate_at(run, 5, gib(9)), "kill /kubepods/small for node") << "now it is gone";
}

TEST(PassTest, TheWaitForCleanupIsGivenUpAfterThirtySeconds) {
  for (const auto state : {KillState::in_flight, KillState::released, KillState::stuck}) {
    Story run = disk_run({hard(kNodefs, gib(10))});
    run.now.kills = {kill("/kubepods/big", gib(1), state)};
    run.now.kills[0].started = second(0);
    EXPECT_EQ(evaluate_at(run, 29.999, gib(9)), "none for node: cleanup-pending")
        << to_string(state);
    EXPECT_NE(evaluate_at(run, 30, gib(9)), "none for node: cleanup-pending") << to_string(state);
  }
  Story run = disk_run({hard(kNodefs, gib(10))});
  run.now.kills = {kill("/kubepods/big", gib(1), KillState::failed)};
  EXPECT_EQ(evaluate_at(run, 1, gib(9)), "kill /kubepods/small for node") << "nothing to wait for";
}

TEST(PassTest, AHardCrossingEndsTheGraceOfASoftVictim) {
  Story run = disk_run({hard(kNodefs, gib(5)), soft(hard(kNodefs, gib(10)), seconds(10))});
  evaluate_at(run, 0, gib(9));
  EXPECT_EQ(evaluate_at(run, 10, gib(9)), "kill /kubepods/big for node");
  run.now.kills = {kill("/kubepods/big", gib(1), KillState::terminating)};
  run.now.kills[0].started = second(10);
  run.now.kills[0].kill_at = second(100);
  EXPECT_EQ(evaluate_at(run, 11, gib(9)), "none for node: cleanup-pending");
  EXPECT_EQ(evaluate_at(run, 12, gib(4)), "kill /kubepods/big for node");
  run.now.kills[0].kill_at = second(13);
  EXPECT_EQ(evaluate_at(run, 12.1, gib(4)), "none for node: cleanup-pending") << "not twice";
}

TEST(PassTest, ProcessNumbersRankEverybodyAndKillAtOnce) {
  Story run(config({hard(kPids, {100})}));
  run.now.workloads = {with_processes(workload("/forks", mib(1)), 500),
                       with_processes(workload("/quiet", gib(5)), 3)};
  run.now.tasks = tasks(1000, 900);
  EXPECT_EQ(run.evaluate(0), "none: no-threshold-met");
  run.now.tasks = tasks(1000, 901);
  EXPECT_EQ(run.evaluate(1), "kill /forks for node");
  EXPECT_EQ(run.conditions(), "PIDPressure*");
  EXPECT_TRUE(run.decision().evictions[0].at_once);
  run.now.kills = {kill("/forks", mib(1))};
  run.now.kills[0].started = second(1);
  EXPECT_EQ(run.evaluate(2), "none for node: cleanup-pending") << "no credit for processes";
}

TEST(PassTest, MemoryBeforeDiskAndHardBeforeSoft) {
  Story run =
      disk_run({hard(kNodefs, gib(10)), soft(hard(Signal::memory_available, gib(5)), seconds(10)),
                hard(kPids, {9})});
  evaluate_at(run, 0, gib(20));
  run.now.tasks = tasks(100, 99);
  EXPECT_EQ(evaluate_at(run, 10, gib(9)), "kill /kubepods/big for node");
  EXPECT_EQ(run.decision().evidence[*run.decision().driving].threshold.signal,
            Signal::memory_available);
  EXPECT_EQ(run.conditions(), "MemoryPressure DiskPressure* PIDPressure*");
}

TEST(PassTest, LimitsOnLocalStorageComeBeforeThresholds) {
  Story run = disk_run({hard(Signal::memory_available, gib(5))});
  Pod limited = pod("limited", {container("c")});
  limited.volumes = {empty_dir("scratch", "1Gi")};
  const auto over =
      with_statistics(sample_of(limited), {container_sample("c", on_disk(mib(1)), on_disk(mib(1)))},
                      {VolumeSample{"scratch", on_disk(gib(2))}});
  run.now.workloads->push_back(over);
  EXPECT_EQ(evaluate_at(run, 0, gib(50)), "kill /kubepods/limited: local-storage-limit");
  EXPECT_EQ(run.decision().driving, std::nullopt);
  EXPECT_EQ(run.conditions(), "MemoryPressure*") << "thresholds are assessed all the same";
  // It is being evicted: once is enough, and the threshold is next.
  run.now.kills = {kill("/kubepods/limited", mib(1), KillState::terminating)};
  run.now.kills[0].kill_at = second(1);
  run.now.node = node(gib(8), gib(6));
  EXPECT_EQ(evaluate_at(run, 0.1, gib(50)), "none: no-threshold-met");
  // Removed and started again by kubelet: the statistics are the earlier ones.
  run.now.kills[0].state = KillState::released;
  EXPECT_EQ(evaluate_at(run, 1.5, gib(50)), "none: no-threshold-met");
  EXPECT_EQ(evaluate_at(run, 30, gib(50)), "kill /kubepods/limited: local-storage-limit");
  run.now.kills.clear();
  run.now.disk_usage_read = false;
  EXPECT_EQ(evaluate_at(run, 31, gib(50)), "none: no-threshold-met") << "nothing was measured";
}

TEST(PassTest, WithoutIsolationLimitsAreIgnored) {
  Config config = policy::config({});
  config.local_storage_isolation = false;
  Story run(config);
  Pod limited = pod("limited", {container("c")});
  limited.volumes = {empty_dir("scratch", "1Gi")};
  run.now.disk_usage_read = true;
  run.now.workloads = {
      with_statistics(sample_of(limited), {}, {VolumeSample{"scratch", on_disk(gib(2))}})};
  EXPECT_EQ(run.evaluate(0), "none: no-data");
}

TEST(PassTest, ContainerfsCountsFromTheSecondPass) {
  for (const bool second_pass : {true, false}) {
    Compat compat;
    compat.containerfs_from_second_pass = second_pass;
    Story run = disk_run({hard(kNodefs, gib(10))}, compat);
    run.now.filesystems.containerfs = filesystem(gib(100), gib(1));
    EXPECT_EQ(evaluate_at(run, 0, gib(50)),
              second_pass ? "none: no-threshold-met" : "kill /kubepods/big for node");
    EXPECT_EQ(evaluate_at(run, 10, gib(50)), "kill /kubepods/big for node");
    EXPECT_EQ(run.decision().evictions[0].metric_signal, "containerfs.available");
  }
}

TEST(PassTest, InodesAreAResourceOfTheirOwn) {
  Story run = disk_run({share(Signal::nodefs_inodes_free, 0.05F)});
  run.now.filesystems.nodefs = filesystem(gib(100), gib(90), 1000, 50);
  EXPECT_EQ(run.evaluate(0), "none: no-threshold-met");
  run.now.filesystems.nodefs = filesystem(gib(100), gib(90), 1000, 49);
  EXPECT_EQ(run.evaluate(1), "kill /kubepods/big for node");
  EXPECT_EQ(run.decision().evidence[0].limit.value(), 50);
}

}  // namespace
}  // namespace forestall::policy
