// SPDX-License-Identifier: Apache-2.0
// Real filesystems made for the test: their layout, their free space compared with statvfs(3), and
// wakes when a line is crossed in either direction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>

#include "sources/capacity_source.h"
#include "sources/filesystem_reader.h"
#include "sources/task_reader.h"
#include "support/scratch_filesystem.h"

namespace forestall::sources {
namespace {

namespace fs = std::filesystem;
using test::ScratchFilesystem;
using test::ScratchKind;
using ::testing::IsEmpty;

MonotonicTime now() {
  return SystemClock().now();
}

std::optional<FilesystemLayout> layout_of(const FilesystemPlaces& places) {
  FilesystemReader reader(places, "/proc");
  std::vector<SourceNote> notes;
  reader.refresh(notes);
  EXPECT_THAT(notes, IsEmpty());
  return reader.layout();
}

void write_file(const std::string& path, std::size_t size) {
  std::ofstream file(path, std::ios::binary);
  file << std::string(size, 'x');
  ASSERT_TRUE(file.flush()) << path;
}

class Filesystems : public ::testing::Test {
 protected:
  Filesystems()
      : first_(ScratchKind::ext4, mib(32), 256),
        second_(ScratchKind::ext4, mib(32), 256),
        third_(ScratchKind::tmpfs, mib(32), 256) {
    for (const auto* disk : {&first_, &second_, &third_}) {
      for (const char* name : {"kubelet", "images", "layers"}) {
        fs::create_directories(*disk / name);
      }
    }
  }
  ScratchFilesystem first_;
  ScratchFilesystem second_;
  ScratchFilesystem third_;
};

TEST_F(Filesystems, AllThreeLayouts) {
  FilesystemPlaces places;
  places.nodefs = first_ / "kubelet";
  EXPECT_EQ(layout_of(places), FilesystemLayout::single);
  places.imagefs = first_ / "images";
  EXPECT_EQ(layout_of(places), FilesystemLayout::single);
  places.imagefs = second_ / "images";
  EXPECT_EQ(layout_of(places), FilesystemLayout::imagefs) << "layers are with the images";
  places.containerfs = second_ / "layers";
  EXPECT_EQ(layout_of(places), FilesystemLayout::imagefs);
  places.containerfs = first_ / "layers";
  EXPECT_EQ(layout_of(places), FilesystemLayout::split);
}

TEST_F(Filesystems, LayersApartFromBothAreSplitWithANote) {
  FilesystemPlaces places;
  places.nodefs = first_ / "kubelet";
  places.imagefs = second_ / "images";
  places.containerfs = third_ / "layers";
  FilesystemReader reader(places, "/proc");
  std::vector<SourceNote> notes;
  reader.refresh(notes);
  EXPECT_EQ(reader.layout(), FilesystemLayout::split);
  EXPECT_EQ(notes.size(), 1u);
}

TEST_F(Filesystems, FiguresAreThoseOfStatvfs) {
  FilesystemPlaces places;
  places.nodefs = first_ / "kubelet";
  places.imagefs = third_ / "images";
  FilesystemReader reader(places, "/proc");
  std::vector<SourceNote> notes;
  reader.refresh(notes);
  write_file(first_ / "kubelet/file", 1 << 20);
  const auto expect_same = [](const std::optional<FilesystemSample>& sample,
                              const std::string& path) {
    struct statvfs expected {};
    ASSERT_EQ(::statvfs(path.c_str(), &expected), 0);
    ASSERT_TRUE(sample);
    const auto unit = static_cast<std::int64_t>(expected.f_frsize);
    EXPECT_EQ(sample->available, Bytes{static_cast<std::int64_t>(expected.f_bavail) * unit});
    EXPECT_EQ(sample->capacity, Bytes{static_cast<std::int64_t>(expected.f_blocks) * unit});
    EXPECT_EQ(sample->inodes_free, static_cast<std::int64_t>(expected.f_ffree));
    EXPECT_EQ(sample->inodes, static_cast<std::int64_t>(expected.f_files));
    EXPECT_TRUE(sample->at);
  };
  const auto samples = reader.read(now(), notes);
  expect_same(samples.nodefs, first_.path());
  expect_same(samples.imagefs, third_.path());
  EXPECT_EQ(samples.containerfs, samples.imagefs);
  EXPECT_EQ(samples.layout, FilesystemLayout::imagefs);
  EXPECT_THAT(notes, IsEmpty());
}

// If a directory becomes a mount point, the next refresh() reads the new filesystem. The layout
// does not change.
TEST_F(Filesystems, FindsALaterMount) {
  FilesystemPlaces places;
  places.nodefs = first_ / "kubelet";
  places.imagefs = first_ / "images";
  FilesystemReader reader(places, "/proc");
  std::vector<SourceNote> notes;
  reader.refresh(notes);
  const auto before = reader.read(now(), notes);
  ASSERT_EQ(before.imagefs->capacity, before.nodefs->capacity);
  const auto point = first_ / "images";
  ASSERT_EQ(::mount(third_.path().c_str(), point.c_str(), nullptr, MS_BIND, nullptr), 0);
  reader.refresh(notes);
  const auto after = reader.read(now(), notes);
  ASSERT_EQ(::umount2(point.c_str(), MNT_DETACH), 0);
  EXPECT_EQ(after.imagefs->capacity, mib(32)) << "the tmpfs";
  EXPECT_EQ(after.nodefs->capacity, before.nodefs->capacity);
  EXPECT_EQ(after.layout, FilesystemLayout::single);
  EXPECT_THAT(notes, IsEmpty());
}

// FUSE and network filesystems are reported and not read. A guest without FUSE has no such mount,
// so the type comes from a mount table of the test.
TEST_F(Filesystems, ServedFilesystemsAreNotTouched) {
  const test::TempTree proc;
  proc.write("self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:44 / " +
                                   (first_ / "kubelet") + " rw - fuse.sshfs host: rw\n");
  FilesystemPlaces places;
  places.nodefs = first_ / "kubelet";
  FilesystemReader reader(places, proc.path());
  std::vector<SourceNote> notes;
  reader.refresh(notes);
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_FALSE(reader.read(now(), notes).nodefs);
  EXPECT_FALSE(reader.has(Filesystem::nodefs));
  EXPECT_FALSE(reader.layout());
}

class CapacityWakes : public Filesystems {
 protected:
  CapacityWakes() : reader_(places(), "/proc"), tasks_("/proc") {
    reader_.refresh(notes_);
    auto made = CapacitySource::create(reader_, tasks_);
    if (!made) throw std::runtime_error(made.error().text());
    source_ = std::move(made).value();
  }
  FilesystemPlaces places() const {
    FilesystemPlaces made;
    made.nodefs = first_ / "kubelet";
    return made;
  }
  std::int64_t available(Signal signal) {
    const auto sample = reader_.read(Filesystem::nodefs, now(), notes_);
    return signal == Signal::nodefs_available ? sample->available->count : *sample->inodes_free;
  }
  void watch(Signal signal, std::int64_t met_below) {
    const CapacityLine line{signal, met_below, available(signal)};
    source_->watch(std::span(&line, 1), now());
  }
  // Number of wakes after the first one, or after so many polls.
  std::size_t wakes_within(int evaluations) {
    std::vector<Wake> wakes;
    for (int i = 0; i < evaluations && wakes.empty(); ++i) {
      pollfd ready{source_->fd(), POLLIN, 0};
      EXPECT_EQ(::poll(&ready, 1, 15'000), 1);
      source_->drain(now(), wakes);
    }
    for (const Wake& wake : wakes) EXPECT_EQ(wake.source, WakeSource::poll);
    return wakes.size();
  }
  FilesystemReader reader_;
  TaskReader tasks_;
  std::vector<SourceNote> notes_;
  std::unique_ptr<CapacitySource> source_;
};

TEST_F(CapacityWakes, SpaceUsedUpAndGivenBack) {
  constexpr auto kSignal = Signal::nodefs_available;
  watch(kSignal, available(kSignal) - mib(4).count);
  EXPECT_EQ(wakes_within(3), 0u);
  write_file(first_ / "kubelet/file", 8 << 20);
  EXPECT_EQ(wakes_within(50), 1u);
  EXPECT_EQ(wakes_within(2), 0u) << "reported already";
  fs::remove(first_ / "kubelet/file");
  EXPECT_EQ(wakes_within(50), 1u) << "recovery";
}

TEST_F(CapacityWakes, InodesUsedUpToTheLast) {
  constexpr auto kSignal = Signal::nodefs_inodes_free;
  watch(kSignal, 20);
  EXPECT_EQ(wakes_within(3), 0u);
  int made = 0;
  for (;; ++made) {
    std::ofstream file(first_ / ("kubelet/" + std::to_string(made)));
    if (!file) break;
  }
  EXPECT_GT(made, 50);
  EXPECT_EQ(available(kSignal), 0) << "the disk took no more files";
  EXPECT_GT(available(Signal::nodefs_available), mib(16).count) << "inodes are short, not space";
  EXPECT_EQ(wakes_within(50), 1u);
  for (int i = 0; i < 50; ++i) fs::remove(first_ / ("kubelet/" + std::to_string(i)));
  EXPECT_EQ(wakes_within(50), 1u);
}

}  // namespace
}  // namespace forestall::sources
