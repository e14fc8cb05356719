// SPDX-License-Identifier: Apache-2.0
// Which path is used for which filesystem, and the notes for missing paths. Layouts of real
// filesystems are in tests/integration/filesystem_test.cc.
#include "sources/filesystem_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/manual_clock.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using ::testing::IsEmpty;

class FilesystemReaderTest : public ::testing::Test {
 protected:
  FilesystemSamples evaluate(const FilesystemReader& reader) {
    return reader.read(test::ManualClock().now(), notes_);
  }
  // A reader that found every path, unless the test reads the notes.
  FilesystemReader made(const FilesystemPlaces& places) {
    FilesystemReader reader(places, tree_ / "proc");
    reader.refresh(notes_);
    return reader;
  }
  test::TempTree tree_{{"kubelet/", ""}, {"images/", ""}, {"file", "x"}};
  std::vector<SourceNote> notes_;
};

TEST_F(FilesystemReaderTest, WithoutPlacesOfTheirOwnAllAreKubelets) {
  FilesystemPlaces places;
  places.nodefs = tree_ / "kubelet";
  const auto samples = evaluate(made(places));
  EXPECT_EQ(samples.layout, FilesystemLayout::single);
  ASSERT_TRUE(samples.nodefs);
  EXPECT_GT(samples.nodefs->capacity->count, 0);
  EXPECT_EQ(samples.nodefs->at, test::ManualClock().now());
  EXPECT_EQ(samples.imagefs, samples.nodefs);
  EXPECT_EQ(samples.containerfs, samples.nodefs);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(FilesystemReaderTest, OnlyConfiguredPathsMustExist) {
  FilesystemPlaces places;
  places.nodefs = tree_ / "absent";
  const auto samples = evaluate(made(places));
  EXPECT_FALSE(samples.nodefs);
  EXPECT_FALSE(samples.layout);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0].subject, tree_ / "absent");
  notes_.clear();

  places.nodefs.clear();
  EXPECT_FALSE(evaluate(made(places)).nodefs);
  EXPECT_THAT(notes_, IsEmpty()) << "named nothing";

  places.nodefs = tree_ / "file";
  EXPECT_FALSE(evaluate(made(places)).nodefs);
  EXPECT_EQ(notes_.size(), 1u) << "not a directory";
}

TEST_F(FilesystemReaderTest, AnAbsentImagefsLeavesTheLayoutOpenAndNodefsKnown) {
  FilesystemPlaces places;
  places.nodefs = tree_ / "kubelet";
  places.imagefs = tree_ / "later";
  auto reader = made(places);
  EXPECT_EQ(notes_.size(), 1u);
  auto samples = evaluate(reader);
  EXPECT_TRUE(samples.nodefs);
  EXPECT_FALSE(samples.imagefs);
  EXPECT_FALSE(samples.containerfs);
  EXPECT_FALSE(samples.layout);
  std::filesystem::create_directory(tree_ / "later");
  reader.refresh(notes_);
  samples = evaluate(reader);
  EXPECT_TRUE(samples.imagefs);
  EXPECT_EQ(samples.layout, FilesystemLayout::single);
  EXPECT_EQ(notes_.size(), 1u);
  std::filesystem::remove(tree_ / "later");
  reader.refresh(notes_);
  EXPECT_FALSE(evaluate(reader).imagefs);
  EXPECT_EQ(evaluate(reader).layout, FilesystemLayout::single) << "decided once";
}

TEST_F(FilesystemReaderTest, ARuntimeIsWaitedForUnlessThePlaceIsConfigured) {
  FilesystemPlaces places;
  places.nodefs = tree_ / "kubelet";
  places.runtime = "unix:///run/test.sock";
  auto reader = made(places);
  EXPECT_FALSE(reader.layout());
  EXPECT_TRUE(evaluate(reader).nodefs);
  EXPECT_FALSE(evaluate(reader).imagefs) << "not known is not kubelet's";
  reader.discovered(tree_ / "images", "");
  reader.refresh(notes_);
  EXPECT_EQ(reader.layout(), FilesystemLayout::single);
  EXPECT_TRUE(evaluate(reader).imagefs);

  places.imagefs = tree_ / "images";
  EXPECT_EQ(made(places).layout(), FilesystemLayout::single);
  EXPECT_THAT(notes_, IsEmpty());
}

// The configuration has precedence over the runtime.
TEST_F(FilesystemReaderTest, DiscoveredPathsFillOnlyUnsetOnes) {
  FilesystemPlaces places;
  places.nodefs = tree_ / "kubelet";
  places.imagefs = tree_ / "images";
  auto reader = made(places);
  reader.discovered("/absent", "/absent");
  reader.refresh(notes_);
  EXPECT_TRUE(evaluate(reader).imagefs);
  EXPECT_TRUE(evaluate(reader).containerfs);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(FilesystemReaderTest, OtherPlacesAreDecidedOnAnew) {
  FilesystemPlaces places;
  places.nodefs = tree_ / "kubelet";
  auto reader = made(places);
  reader.configure(places);
  EXPECT_TRUE(reader.layout()) << "the same";
  places.imagefs = "/proc";
  reader.configure(places);
  EXPECT_FALSE(reader.layout());
  reader.refresh(notes_);
  EXPECT_EQ(reader.layout(), FilesystemLayout::imagefs);
  const auto imagefs = evaluate(reader).imagefs;
  ASSERT_TRUE(imagefs);
  EXPECT_FALSE(imagefs->inodes) << "procfs has no number of inodes: unknown, not none";
  EXPECT_FALSE(imagefs->inodes_free);
}

}  // namespace
}  // namespace forestall::sources
