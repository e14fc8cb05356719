// SPDX-License-Identifier: Apache-2.0
#include "sources/host_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::SizeIs;

class HostSample : public ::testing::Test {
 protected:
  HostSample() {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    if (!found) throw std::runtime_error(found.error().text());
    tree_ = std::move(found).value();
    config_.filesystems.nodefs = files_ / "kubelet";
    config_.filesystems.pod_logs = files_ / "logs";
    make_observer();
  }
  void make_observer() {
    auto made = Observer::create(tree_, config_, files_ / "proc");
    if (!made) throw std::runtime_error(made.error().text());
    observer_ = std::move(made).value();
  }
  void add_pod(const std::string& name) {
    for (const std::string& group : {std::string(), "/" + name}) {
      files_.write("cgroup/kubepods" + group + "/memory.current", "100\n");
      files_.write("cgroup/kubepods" + group + "/memory.stat", "inactive_file 10\n");
      files_.write("cgroup/kubepods" + group + "/memory.max", "max\n");
      files_.write("cgroup/kubepods" + group + "/cgroup.procs", "");
    }
  }

  test::TempTree files_{{"cgroup/cgroup.controllers", "memory\n"},
                        {"kubelet/pods/a/volumes/kubernetes.io~empty-dir/v/file", "something"},
                        {"logs/", ""},
                        {"proc/meminfo", "MemTotal: 1000 kB\n"},
                        {"proc/vmstat", "nr_anon_pages 3\nnr_file_pages 2\nnr_inactive_file 1\n"},
                        {"proc/loadavg", "0.00 0.01 0.05 2/3518 4711\n"},
                        {"proc/sys/kernel/pid_max", "4194304\n"},
                        {"proc/sys/kernel/threads-max", "31000\n"}};
  kernel::CgroupTree tree_;
  Config config_;
  std::unique_ptr<Observer> observer_;
};

TEST_F(HostSample, EachSampleFindsTheWorkloadsOfThatMoment) {
  add_pod("poda");
  auto sample = sample_host(*observer_);
  ASSERT_TRUE(sample) << sample.error().text();
  EXPECT_EQ(sample->wake.source, WakeSource::command);
  EXPECT_THAT(*sample->workloads, SizeIs(1));
  EXPECT_FALSE(sample->disk_usage_read);
  add_pod("podb");
  sample = sample_host(*observer_);
  ASSERT_TRUE(sample) << sample.error().text();
  EXPECT_THAT(*sample->workloads, SizeIs(2));
}

TEST_F(HostSample, DiskUsageIsThatOfAFinishedWalk) {
  add_pod("poda");
  const auto sample = sample_host(*observer_, {.disk = true});
  ASSERT_TRUE(sample) << sample.error().text();
  EXPECT_TRUE(sample->disk_usage_read);
  ASSERT_THAT(*sample->workloads, SizeIs(1));
  ASSERT_TRUE(sample->workloads->front().statistics);
  EXPECT_THAT(sample->workloads->front().statistics->volumes, SizeIs(1));
}

TEST_F(HostSample, ACancelledWalkIsAnError) {
  add_pod("poda");
  const UniqueFd cancel(::eventfd(1, EFD_CLOEXEC));
  const auto sample = sample_host(*observer_, {.disk = true, .cancel_fd = cancel.get()});
  ASSERT_FALSE(sample);
  EXPECT_EQ(sample.error().code, ECANCELED);
}

TEST_F(HostSample, NotesContainWhatTheRescanCouldNotOpen) {
  add_pod("poda");
  config_.filesystems.nodefs = files_ / "absent";
  make_observer();
  const auto sample = sample_host(*observer_);
  ASSERT_TRUE(sample) << sample.error().text();
  EXPECT_THAT(sample->notes, Contains(Field(&SourceNote::subject, config_.filesystems.nodefs)));
}

}  // namespace
}  // namespace forestall::sources
