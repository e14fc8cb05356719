// SPDX-License-Identifier: Apache-2.0
#include "recording/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "recording/destination.h"
#include "recording/reader.h"
#include "support/scratch_filesystem.h"
#include "support/temp_tree.h"

namespace forestall::recording {
namespace {

using testing::ElementsAre;

void fill(ChunkBuilder& chunk, std::size_t size, char of) {
  // Bytes that cannot be compressed.
  std::string entry(size, of);
  std::uint32_t state = static_cast<unsigned char>(of) + 1U;
  for (char& byte : entry) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  chunk.append(entry, from_ns(1));
}

TEST(Segments, AreNamedByNumber) {
  EXPECT_EQ(segment_number("segment-0000000042.rec"), 42U);
  EXPECT_EQ(segment_number("segment-12345678901.rec"), 12345678901U);
  EXPECT_FALSE(segment_number("segment-00000000042.rec"));
  EXPECT_FALSE(segment_number("segment-42.rec"));
  EXPECT_FALSE(segment_number("segment-000000004x.rec"));
  EXPECT_FALSE(segment_number("segment-0000000042.rec.tmp"));
}

TEST(Segments, StayWithinTheirBoundAndLoseTheOldest) {
  const test::TempTree tree({{"keep.txt", "mine"}});
  const std::string ring = tree / "ring";
  auto destination = Destination::open({ring, false, mib(1)}, "facts");
  ASSERT_TRUE(destination) << destination.error().text();
  for (int i = 0; i < 100; ++i) {
    ChunkBuilder chunk;
    fill(chunk, 50'000, static_cast<char>(i));
    if (destination->is_full()) {
      ASSERT_TRUE(destination->begin_next());
    }
    ASSERT_TRUE(destination->write(chunk));
    std::uint64_t total = 0;
    const auto names = segment_names(ring);
    for (const std::string& name : *names) {
      struct stat file {};
      ASSERT_EQ(stat((ring + "/" + name).c_str(), &file), 0);
      EXPECT_EQ(file.st_mode & 0777, 0600U);
      total += static_cast<std::uint64_t>(file.st_size);
    }
    EXPECT_LE(total, 1U << 20);
  }
  ASSERT_TRUE(destination->finish());
  EXPECT_GT(destination->bytes(), 5'000'000U);
  EXPECT_EQ(destination->chunks(), 100U);
  const auto names = segment_names(ring);
  EXPECT_GE(names->size(), 4U);
  // The oldest were removed in order: there is no gap.
  EXPECT_GT(segment_number(names->front()), 1U);
  EXPECT_EQ(*segment_number(names->back()), *segment_number(names->front()) + names->size() - 1);
  // All but the last were ended when the next one began; the last one by finish().
  for (const std::string& name : *names) {
    auto reader = Reader::open(ring + "/" + name);
    ASSERT_TRUE(reader);
    EXPECT_TRUE(reader->is_complete()) << name;
    EXPECT_EQ(reader->header().facts, "facts");
  }
}

TEST(Segments, OfEarlierRunsCountAndGoFirst) {
  const test::TempTree tree({{"segment-0000000007.rec", std::string(700'000, 'x')},
                             {"segment-0000000009.rec", std::string(200'000, 'x')},
                             {"segment-9.rec", std::string(2'000'000, 'x')},
                             {"notes.txt", std::string(2'000'000, 'x')}});
  auto destination = Destination::open({tree.path().string(), false, mib(1)}, "facts");
  ASSERT_TRUE(destination);
  EXPECT_THAT(
      *segment_names(tree.path().string()),
      ElementsAre("segment-0000000007.rec", "segment-0000000009.rec", "segment-0000000010.rec"));
  ChunkBuilder chunk;
  fill(chunk, 200'000, 'a');
  ASSERT_TRUE(destination->write(chunk));
  EXPECT_THAT(*segment_names(tree.path().string()),
              ElementsAre("segment-0000000009.rec", "segment-0000000010.rec"));
  // Files with other names are not touched.
  struct stat file {};
  EXPECT_EQ(stat((tree / "notes.txt").c_str(), &file), 0);
  EXPECT_EQ(stat((tree / "segment-9.rec").c_str(), &file), 0);
}

TEST(Segments, GoOnBesideThoseOfAnotherAndInADirectoryMadeAnew) {
  const test::TempTree tree({});
  const std::string ring = tree / "ring";
  auto destination = Destination::open({ring, false, mib(1)}, "facts");
  ASSERT_TRUE(destination);
  tree.write("ring/segment-0000000002.rec", "another's");
  ASSERT_TRUE(destination->begin_next());
  EXPECT_THAT(*segment_names(ring), ElementsAre("segment-0000000001.rec", "segment-0000000002.rec",
                                                "segment-0000000003.rec"));
  std::filesystem::remove_all(ring);
  ASSERT_TRUE(destination->begin_next());
  EXPECT_THAT(*segment_names(ring), ElementsAre("segment-0000000001.rec"));
}

TEST(Segments, OfEarlierRunsStayWhenOthersFillTheDisk) {
  const test::ScratchFilesystem disk(test::ScratchKind::tmpfs, mib(2), 100);
  const std::string ring = disk / "ring";
  std::filesystem::create_directory(ring);
  const auto put = [](const std::string& path, std::size_t size) {
    std::ofstream(path) << std::string(size, 'x');
  };
  put(ring + "/segment-0000000001.rec", 512 << 10);
  put(ring + "/segment-0000000002.rec", 512 << 10);
  put(disk / "of-others", 768 << 10);
  auto destination = Destination::open({ring, false, mib(64)}, "facts");
  ASSERT_TRUE(destination) << destination.error().text();
  const auto write = [&]() -> Result<void> {
    ChunkBuilder chunk;
    fill(chunk, 200 << 10, 'n');
    return destination->write(chunk);
  };
  // A quarter of a MiB is left: one chunk.
  ASSERT_TRUE(write());
  const Result<void> refused = write();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
  EXPECT_THAT(*segment_names(ring), ElementsAre("segment-0000000001.rec", "segment-0000000002.rec",
                                                "segment-0000000003.rec"));
  EXPECT_EQ(std::filesystem::file_size(ring + "/segment-0000000001.rec"), 512U << 10);
  // Once there is room, the recording continues.
  std::filesystem::remove(disk / "of-others");
  EXPECT_TRUE(write());
}

// The ring is at its own limit and the disk is full: at most one segment makes room, once.
TEST(Segments, AFullDiskCostsARingAtItsLimitOneSegment) {
  const test::ScratchFilesystem disk(test::ScratchKind::tmpfs, mib(4), 100);
  const std::string ring = disk / "ring";
  auto destination = Destination::open({ring, false, mib(1)}, "facts");
  ASSERT_TRUE(destination) << destination.error().text();
  const auto write = [&]() -> Result<void> {
    if (destination->is_full()) TRY(destination->begin_next());
    ChunkBuilder chunk;
    fill(chunk, 60 << 10, 'n');
    return destination->write(chunk);
  };
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(write()) << i;
  const auto before = segment_names(ring)->size();
  const auto fill_disk = [&] {
    std::ofstream others(disk / "of-others", std::ios::app);
    const std::string page(4096, 'x');
    while (others.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) {
    }
  };
  fill_disk();
  for (int i = 0; i < 40; ++i) {
    if (!write()) fill_disk();
  }
  EXPECT_GE(segment_names(ring)->size() + 1, before);
}

TEST(Segments, ASingleFileEndsAtItsLimit) {
  const test::TempTree tree({});
  Target target{tree / "recording"};
  target.file_max = mib(1);
  auto destination = Destination::open(target, "facts");
  ASSERT_TRUE(destination);
  Result<void> last;
  int written = 0;
  for (; last; ++written) {
    ChunkBuilder chunk;
    fill(chunk, 100'000, 'n');
    last = destination->write(chunk);
  }
  EXPECT_EQ(last.error().code, EFBIG);
  EXPECT_EQ(written - 1, 10);
  ASSERT_TRUE(destination->finish());
  EXPECT_LE(std::filesystem::file_size(target.path), 1U << 20);
  auto reader = Reader::open(target.path);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->is_complete());
}

TEST(Segments, TwoRecordingsDoNotShareADirectory) {
  const test::TempTree tree({});
  const Target ring{tree / "ring", false, mib(1)};
  {
    const auto first = Destination::open(ring, "facts");
    ASSERT_TRUE(first);
    const auto second = Destination::open(ring, "facts");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EBUSY);
  }
  EXPECT_TRUE(Destination::open(ring, "facts"));
}

TEST(Segments, NeedRoomToBeOfUse) {
  const test::TempTree tree({});
  const auto refused = Destination::open({tree.path().string(), false, kib(100)}, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
}

}  // namespace
}  // namespace forestall::recording
