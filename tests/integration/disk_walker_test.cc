// SPDX-License-Identifier: Apache-2.0
// Disk usage of pods on real filesystems: compared with du(1) where it is GNU's, and with known
// numbers everywhere; and directory trees that are hard to measure.
#include "sources/disk_walker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kernel/tree_usage.h"
#include "sources/disk_usage_source.h"
#include "support/scratch_filesystem.h"

namespace forestall::sources {
namespace {

namespace fs = std::filesystem;
using test::ScratchFilesystem;
using test::ScratchKind;
using ::testing::IsEmpty;

constexpr const char* kEmptyDir = "volumes/kubernetes.io~empty-dir/";

std::int64_t du(const std::string& options, const std::string& path) {
  const auto command = "du -s -x " + options + " '" + path + "'";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::int64_t value = -1;
  EXPECT_EQ(std::fscanf(pipe, "%ld", &value), 1) << command;
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return value;
}

// busybox's du, in the guests, has neither --inodes nor exact bytes, only blocks of 512 bytes.
bool has_gnu_du() {
  static const bool found = std::system("du --version >/dev/null 2>&1") == 0;
  return found;
}

void write_file(const std::string& path, std::size_t size) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file << std::string(size, 'x');
  ASSERT_TRUE(file.flush()) << path;
}

void sync_file_system(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::syncfs(fd.get()), 0);
}

class TreeUsageOn : public ::testing::TestWithParam<ScratchKind> {
 protected:
  kernel::TreeUsage measure(const std::string& path) {
    sync_file_system(disk_.path());  // ext4 allocates late: du and the walker must see the same
    const auto usage = kernel::measure_tree(AT_FDCWD, path, cancelled_);
    EXPECT_TRUE(usage) << usage.error().text();
    return usage ? *usage : kernel::TreeUsage{};
  }
  // Equal to du's result in bytes and inodes.
  void expect_as_du(const std::string& path) {
    const auto usage = measure(path);
    EXPECT_EQ(usage.problem, "");
    EXPECT_EQ(usage.used.count, du("-k", path) * 1024);
    if (!has_gnu_du()) return;
    EXPECT_EQ(usage.used.count, du("--block-size=1", path));
    EXPECT_EQ(usage.inodes, du("--inodes", path));
  }
  ScratchFilesystem disk_{GetParam(), mib(64), 8192};
  std::atomic<bool> cancelled_{false};
};

INSTANTIATE_TEST_SUITE_P(Real, TreeUsageOn,
                         ::testing::Values(ScratchKind::ext4, ScratchKind::tmpfs),
                         [](const auto& kind) {
                           return kind.param == ScratchKind::ext4 ? "Ext4" : "Tmpfs";
                         });

TEST_P(TreeUsageOn, CountsAsDuDoes) {
  write_file(disk_ / "a/one", 1);
  write_file(disk_ / "a/large", 3'000'000);
  write_file(disk_ / "a/b/c/empty", 0);
  for (int i = 0; i < 500; ++i) write_file(disk_ / ("a/many/" + std::to_string(i)), 5000);
  write_file(disk_ / "a/sparse", 10);
  ASSERT_EQ(::truncate((disk_ / "a/sparse").c_str(), 1 << 30), 0);
  expect_as_du(disk_ / "a");
  expect_as_du(disk_ / "a/large");
  EXPECT_EQ(measure(disk_ / "a").inodes, 508);  // a, one, large, b, c, empty, many, 500, sparse
  EXPECT_LT(measure(disk_ / "a").used, mib(16)) << "a hole occupies nothing";
}

TEST_P(TreeUsageOn, AnInodeWithSeveralNamesCountsOnce) {
  write_file(disk_ / "a/first", 1'000'000);
  const auto once = measure(disk_ / "a");
  for (int i = 0; i < 5; ++i)
    fs::create_hard_link(disk_ / "a/first", disk_ / ("a/" + std::to_string(i)));
  EXPECT_EQ(measure(disk_ / "a").inodes, once.inodes);
  EXPECT_EQ(measure(disk_ / "a").used, once.used);
  expect_as_du(disk_ / "a");
  fs::create_hard_link(disk_ / "a/first", disk_ / "outside");
  expect_as_du(disk_ / "a");
}

TEST_P(TreeUsageOn, NeverFollowsASymbolicLink) {
  write_file(disk_ / "elsewhere/large", 4'000'000);
  write_file(disk_ / "a/own", 1);
  fs::create_symlink(disk_ / "elsewhere", disk_ / "a/directory");
  fs::create_symlink(disk_ / "elsewhere/large", disk_ / "a/file");
  fs::create_symlink("..", disk_ / "a/up");
  expect_as_du(disk_ / "a");
  EXPECT_LT(measure(disk_ / "a").used, kib(64));
  fs::create_symlink(disk_ / "elsewhere", disk_ / "link");
  EXPECT_EQ(measure(disk_ / "link").inodes, 1) << "the link itself";
}

TEST_P(TreeUsageOn, NeverEntersAnotherDevice) {
  write_file(disk_ / "a/own", 1);
  fs::create_directories(disk_ / "a/other");
  const ScratchFilesystem other(ScratchKind::tmpfs, mib(8), 100);
  write_file(other / "large", 4'000'000);
  ASSERT_EQ(::mount(other.path().c_str(), (disk_ / "a/other").c_str(), nullptr, MS_BIND, nullptr),
            0);
  const auto usage = measure(disk_ / "a");
  EXPECT_EQ(usage.inodes, 2);
  EXPECT_LT(usage.used, kib(64));
  expect_as_du(disk_ / "a");
  ASSERT_EQ(::umount((disk_ / "a/other").c_str()), 0);
}

// Deeper than the number of open descriptors and the length of a path name allow.
TEST_P(TreeUsageOn, DepthCostsNothing) {
  constexpr int kDepth = 1500;
  fs::create_directories(disk_ / "deep");
  UniqueFd at(::open((disk_ / "deep").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kDepth; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "next", 0755), 0);
    // Entries to visit on the way up, before and after the descent in any order.
    for (const char* name : {"a", "z"}) {
      const UniqueFd file(::openat(at.get(), name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
      ASSERT_TRUE(file);
    }
    at.reset(::openat(at.get(), "next", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at);
  }
  const auto usage = measure(disk_ / "deep");
  EXPECT_EQ(usage.problem, "");
  EXPECT_EQ(usage.inodes, 1 + 3 * kDepth);
}

TEST_P(TreeUsageOn, NothingThereIsNotZero) {
  const auto usage = kernel::measure_tree(AT_FDCWD, disk_ / "absent", cancelled_);
  ASSERT_FALSE(usage);
  EXPECT_EQ(usage.error().code, ENOENT);
}

// Waits for the descriptor as the loop does, then drains the source.
std::vector<Wake> wait_end(DiskWalker& walker, DiskUsageSource& source) {
  pollfd ready{walker.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 60'000), 1) << "the walk did not end";
  std::vector<Wake> wakes;
  source.drain(SystemClock().now(), wakes);
  return wakes;
}

class DiskWalk : public ::testing::Test {
 protected:
  DiskWalk() : disk_(ScratchKind::tmpfs, mib(256), 200'000) {
    auto made = DiskWalker::create();
    if (!made) throw std::runtime_error(made.error().text());
    walker_ = std::move(made).value();
    places_.nodefs = disk_ / "kubelet";
    places_.pod_logs = disk_ / "log";
  }
  std::string pod(const std::string& uid, const std::string& path) const {
    return places_.nodefs + "/pods/" + uid + "/" + path;
  }
  // Walks once and returns at the end of the walk.
  void walk(std::vector<std::string> uids) {
    DiskUsageSource source(*walker_);
    ASSERT_TRUE(walker_->request_walk(places_, std::move(uids), SystemClock().now(), Duration(-1)));
    const auto wakes = wait_end(*walker_, source);
    ASSERT_EQ(wakes.size(), 1u);
    EXPECT_EQ(wakes[0].source, WakeSource::disk_usage);
    std::vector<Wake> more;
    source.drain(SystemClock().now(), more);
    EXPECT_THAT(more, IsEmpty());
  }
  ScratchFilesystem disk_;
  FilesystemPlaces places_;
  std::unique_ptr<DiskWalker> walker_;
};

// 100 000 files in one pod: the walk stops in the middle and keeps what it has measured.
TEST_F(DiskWalk, ALargeOneIsCancelledPromptly) {
  constexpr int kFiles = 100'000;
  write_file(pod("a", kEmptyDir + std::string("v/file")), 5000);
  const auto volume = pod("b", kEmptyDir + std::string("v"));
  fs::create_directories(volume);
  const UniqueFd at(::open(volume.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kFiles; ++i) {
    const UniqueFd file(
        ::openat(at.get(), std::to_string(i).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    ASSERT_TRUE(file);
  }
  walk({"a", "b"});
  ASSERT_NE(walker_->find("b"), nullptr);
  EXPECT_EQ(walker_->find("b")->volumes.at(0).usage.inodes, kFiles + 1);
  const auto whole = walker_->ended();
  ASSERT_TRUE(whole);

  // The large one repeatedly: a full walk would take minutes.
  std::vector<std::string> uids{"a"};
  uids.insert(uids.end(), 2000, "b");
  const SystemClock clock;
  ASSERT_TRUE(walker_->request_walk(places_, std::move(uids), clock.now(), Duration(-1)));
  EXPECT_TRUE(walker_->request_walk(places_, {}, clock.now(), Duration(-1))) << "one at a time";
  DiskUsageSource source(*walker_);
  const auto begun = clock.now();
  walker_->cancel();
  EXPECT_EQ(wait_end(*walker_, source).size(), 1u);
  EXPECT_LT(clock.now() - begun, std::chrono::seconds(5));
  EXPECT_EQ(walker_->ended(), whole) << "a part is not the whole";
  EXPECT_TRUE(walker_->fresh(*whole)) << "nor does it make the last one void";
  EXPECT_NE(walker_->find("b"), nullptr);

  // The end of the agent does not wait for it.
  ASSERT_TRUE(walker_->request_walk(places_, std::vector<std::string>(2000, "b"), clock.now(),
                                    Duration(-1)));
  const auto destroyed = clock.now();
  walker_.reset();
  EXPECT_LT(clock.now() - destroyed, std::chrono::seconds(5));
}

// Pods are removed while they are measured: the walk ends and reports no problem.
TEST_F(DiskWalk, PodsVanishDuringTheWalk) {
  constexpr int kPods = 40;
  std::vector<std::string> uids;
  for (int i = 0; i < kPods; ++i) {
    uids.push_back("uid-" + std::to_string(i));
    for (int file = 0; file < 50; ++file) {
      const auto directory = kEmptyDir + std::string("v/") + std::to_string(file % 5);
      write_file(pod(uids.back(), directory + "/" + std::to_string(file)), 100);
    }
  }
  DiskUsageSource source(*walker_);
  ASSERT_TRUE(walker_->request_walk(places_, uids, SystemClock().now()));
  // In reverse order, so that both work on the same entry once.
  std::thread remover([&] {
    for (int i = kPods - 1; i >= 0; --i) fs::remove_all(pod(uids[static_cast<std::size_t>(i)], ""));
  });
  EXPECT_EQ(wait_end(*walker_, source).size(), 1u);
  remover.join();
  EXPECT_THAT(walker_->notes(), IsEmpty());
  for (const auto& uid : uids) ASSERT_NE(walker_->find(uid), nullptr) << uid;
  walk(uids);
  EXPECT_EQ(walker_->find("uid-0")->ephemeral_storage, (DiskUsage{Bytes{0}, 0}));
}

// A volume in memory is a device of its own: it is measured, but is not ephemeral storage.
TEST_F(DiskWalk, VolumesInMemoryAreMeasuredButNotEphemeral) {
  write_file(pod("a", kEmptyDir + std::string("disk/file")), 8192);
  fs::create_directories(pod("a", kEmptyDir + std::string("memory")));
  const ScratchFilesystem memory(ScratchKind::tmpfs, mib(8), 100);
  write_file(memory / "file", 1'000'000);
  const auto point = pod("a", kEmptyDir + std::string("memory"));
  ASSERT_EQ(::mount(memory.path().c_str(), point.c_str(), nullptr, MS_BIND, nullptr), 0);
  walk({"a"});
  const auto* found = walker_->find("a");
  ASSERT_NE(found, nullptr);
  ASSERT_EQ(found->volumes.size(), 2u);
  EXPECT_EQ(found->volumes[0].name, "disk");
  EXPECT_EQ(found->volumes[1].name, "memory");
  EXPECT_GE(found->volumes[1].usage.used, Bytes{1'000'000});
  EXPECT_EQ(found->ephemeral_storage, found->volumes[0].usage);
  ASSERT_EQ(::umount(point.c_str()), 0);
}

}  // namespace
}  // namespace forestall::sources
