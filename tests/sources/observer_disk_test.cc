// SPDX-License-Identifier: Apache-2.0
// The observer's data besides memory: filesystems and tasks in every evaluation, and disk usage of
// pods once a walk has measured it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "sources/disk_usage_source.h"
#include "sources/observer.h"
#include "support/manual_clock.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ObserverDisk : public ::testing::Test {
 protected:
  ObserverDisk() {
    for (const char* cgroup : {"", "/burstable", "/burstable/poda", "/burstable/podb"}) {
      const auto path = std::string("cgroup/kubepods") + cgroup;
      files_.write(path + "/memory.current", "100\n");
      files_.write(path + "/memory.stat", "inactive_file 10\n");
      files_.write(path + "/memory.max", "max\n");
      files_.write(path + "/cgroup.procs", "");
    }
    files_.write("kubelet/pods/a/volumes/kubernetes.io~empty-dir/v/file", "something");
    files_.write("logs/shop_front_a/app/0.log", "something");
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    if (!found) throw std::runtime_error(found.error().text());
    tree_ = std::move(found).value();
    config_.filesystems.nodefs = files_ / "kubelet";
    config_.filesystems.pod_logs = files_ / "logs";
    auto made = Observer::create(tree_, config_, files_ / "proc");
    if (!made) throw std::runtime_error(made.error().text());
    observer_ = std::move(made).value();
    notes_ = observer_->refresh();
  }
  Observation evaluate() {
    auto observation = observer_->sample_node(Wake{}, clock_.now());
    observer_->add_workloads(observation, "");
    observer_->add_statistics(observation);
    return observation;
  }
  // Requests a walk and waits for its end.
  void walk() {
    observer_->request_disk_usage(clock_.now());
    DiskUsageSource source(observer_->disk_walker());
    pollfd ready{source.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 60'000), 1);
    std::vector<Wake> wakes;
    source.drain(clock_.now(), wakes);
    ASSERT_THAT(wakes, SizeIs(1));
    EXPECT_EQ(wakes[0].source, WakeSource::disk_usage);
  }
  bool walks_when_asked() {
    observer_->request_disk_usage(clock_.now());
    pollfd ready{observer_->disk_walker().fd(), POLLIN, 0};
    return ::poll(&ready, 1, 100) == 1;
  }
  static const WorkloadSample& pod(const Observation& observation, const std::string& uid) {
    for (const auto& sample : *observation.workloads) {
      if (sample.workload.pod_uid == uid) return sample;
    }
    throw std::runtime_error("no pod " + uid);
  }

  test::TempTree files_{{"cgroup/cgroup.controllers", "memory\n"},
                        {"proc/meminfo", "MemTotal: 1000 kB\n"},
                        {"proc/vmstat", "nr_anon_pages 3\nnr_file_pages 2\nnr_inactive_file 1\n"},
                        {"proc/loadavg", "0.00 0.01 0.05 2/3518 4711\n"},
                        {"proc/sys/kernel/pid_max", "4194304\n"},
                        {"proc/sys/kernel/threads-max", "31000\n"}};
  kernel::CgroupTree tree_;
  Config config_;
  std::unique_ptr<Observer> observer_;
  std::vector<SourceNote> notes_;
  test::ManualClock clock_;
};

TEST_F(ObserverDisk, EveryObservationHasFilesystemsAndTasks) {
  EXPECT_THAT(notes_, IsEmpty());
  const auto seen = observer_->sample_node(Wake{}, clock_.now());
  EXPECT_EQ(seen.filesystems.layout, FilesystemLayout::single);
  ASSERT_TRUE(seen.filesystems.nodefs);
  EXPECT_EQ(seen.filesystems.nodefs->at, clock_.now());
  EXPECT_EQ(seen.filesystems.imagefs, seen.filesystems.nodefs);
  EXPECT_EQ(seen.tasks.capacity, 31000);
  EXPECT_EQ(seen.tasks.running, 3518);
  EXPECT_FALSE(seen.disk_usage_read);
  EXPECT_THAT(seen.notes, IsEmpty());
}

TEST_F(ObserverDisk, StatisticsComeWithTheWalkAndAge) {
  auto seen = evaluate();
  EXPECT_FALSE(seen.disk_usage_read);
  EXPECT_FALSE(pod(seen, "a").statistics);
  walk();
  seen = evaluate();
  EXPECT_TRUE(seen.disk_usage_read);
  ASSERT_TRUE(pod(seen, "a").statistics);
  EXPECT_THAT(pod(seen, "a").statistics->volumes, SizeIs(1));
  EXPECT_THAT(pod(seen, "a").statistics->containers, SizeIs(1));
  ASSERT_TRUE(pod(seen, "b").statistics) << "measured: it occupies nothing";
  EXPECT_EQ(pod(seen, "b").statistics->ephemeral_storage, (DiskUsage{Bytes{0}, 0}));

  clock_.advance(seconds(10));
  EXPECT_TRUE(evaluate().disk_usage_read);
  EXPECT_FALSE(walks_when_asked()) << "recent enough";
  clock_.advance(seconds(1));
  seen = evaluate();
  EXPECT_FALSE(seen.disk_usage_read);
  EXPECT_TRUE(pod(seen, "a").statistics) << "shown all the same";
  EXPECT_TRUE(walks_when_asked());
}

TEST_F(ObserverDisk, WritableLayersAreTheRuntimesWord) {
  ContainerSample app;
  app.name = "app";
  app.rootfs = DiskUsage{mib(5), 7};
  observer_->set_writable_layers({{"a", {app}}, {"unknown", {app}}});
  walk();
  const auto seen = evaluate();
  const auto& statistics = *pod(seen, "a").statistics;
  ASSERT_THAT(statistics.containers, SizeIs(1));
  EXPECT_EQ(statistics.containers[0].rootfs, app.rootfs);
  EXPECT_TRUE(statistics.containers[0].logs);
  EXPECT_GE(statistics.ephemeral_storage->used, mib(5));
}

}  // namespace
}  // namespace forestall::sources
