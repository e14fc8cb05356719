// SPDX-License-Identifier: Apache-2.0
// Recordings that are truncated or damaged: whole chunks are read, and the rest is reported.
#include <gtest/gtest.h>

#include <random>

#include "recording/recording_file.h"

namespace forestall::recording {
namespace {

using test::MadeRecording;
using test::make_recording;
using test::random_chunks;
using test::read_back;

// Chunks of `made` that are complete within the first `size` bytes.
std::size_t whole_chunks(const MadeRecording& made, std::size_t size) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < made.places.size(); ++i) {
    const std::size_t end =
        i + 1 < made.places.size() ? made.places[i + 1].offset : made.end_of_chunks;
    if (end <= size) ++count;
  }
  return count;
}

void expect_read_up_to(const MadeRecording& made, const std::vector<test::PlannedChunk>& planned,
                       std::size_t size) {
  const auto back = read_back(std::string_view(made.bytes).substr(0, size));
  ASSERT_TRUE(back) << size << ": " << back.error().text();
  const std::size_t whole = whole_chunks(made, size);
  ASSERT_EQ(back->chunks.size(), whole) << size;
  for (std::size_t i = 0; i < whole; ++i) EXPECT_EQ(back->chunks[i], planned[i].entries);
  EXPECT_EQ(back->complete, size == made.bytes.size()) << size;
  EXPECT_TRUE(back->damages.empty()) << size << ": " << back->damages[0].problem;
  // Where it was truncated: at the end of the last whole chunk, unless the file ends there.
  std::size_t end = whole == 0 ? made.places[0].offset : made.end_of_chunks;
  if (whole < made.places.size()) end = made.places[whole].offset;
  if (size > made.end_of_chunks) return;
  ASSERT_EQ(back->cut.has_value(), size > end) << size;
  if (!back->cut) return;
  EXPECT_EQ(back->cut->offset, end);
  EXPECT_EQ(back->cut->bytes, size - end);
}

TEST(Damage, ReadsASmallFileUpToAnyTruncation) {
  const std::vector<test::PlannedChunk> planned{{{"one", "two"}, true}, {{"three"}}, {{"four"}}};
  const MadeRecording made = make_recording(planned, true);
  for (std::size_t size = made.places[0].offset; size <= made.bytes.size(); ++size) {
    expect_read_up_to(made, planned, size);
  }
  for (std::size_t size = 0; size < made.places[0].offset; ++size) {
    EXPECT_FALSE(read_back(std::string_view(made.bytes).substr(0, size))) << size;
  }
}

TEST(Damage, ALargeFileIsReadUpToAnyOfAHundredRandomCuts) {
  const auto planned = random_chunks(/*chunks=*/300, /*entries=*/100, /*seed=*/7);
  const MadeRecording made = make_recording(planned, true);
  std::mt19937 random(11);
  for (int i = 0; i < 100; ++i) {
    const std::size_t size =
        made.places[0].offset + random() % (made.bytes.size() - made.places[0].offset);
    expect_read_up_to(made, planned, size);
  }
}

// One flipped bit costs its chunk and no other, and is always detected.
TEST(Damage, AFlippedBitCostsItsChunkAndNoOther) {
  const auto planned = random_chunks(/*chunks=*/5, /*entries=*/4, /*seed=*/3);
  const MadeRecording made = make_recording(planned, true);
  for (std::size_t bit = 8 * made.places[0].offset; bit < 8 * made.bytes.size(); ++bit) {
    std::string bytes = made.bytes;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    const auto back = read_back(bytes);
    ASSERT_TRUE(back) << bit;
    const bool in_chunks = bit / 8 < made.end_of_chunks;
    ASSERT_EQ(back->chunks.size(), in_chunks ? 4U : 5U) << "byte " << bit / 8;
    if (in_chunks) {
      ASSERT_EQ(back->damages.size(), 1U) << "byte " << bit / 8;
      const recording::DamagedRange& damage = back->damages[0];
      EXPECT_LE(damage.offset, bit / 8);
      EXPECT_GT(damage.offset + damage.bytes, bit / 8);
    } else if (back->complete) {
      // The damage is in the part of the index that only a seek reads.
      continue;
    } else {
      EXPECT_TRUE(!back->damages.empty() || back->cut) << "byte " << bit / 8;
    }
  }
}

TEST(Damage, AFlippedBitOfTheHeaderIsRefused) {
  const MadeRecording made = make_recording({{{"one"}, true}}, true);
  for (std::size_t bit = 0; bit < 8 * made.places[0].offset; ++bit) {
    std::string bytes = made.bytes;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    // Only the minor version may differ, and the checksum covers it.
    EXPECT_FALSE(read_back(bytes)) << "byte " << bit / 8;
  }
}

TEST(Damage, ADamagedIndexIsMadeAnew) {
  const auto planned = random_chunks(/*chunks=*/9, /*entries=*/4, /*seed=*/5);
  MadeRecording made = make_recording(planned, true);
  made.bytes[made.end_of_chunks + kChunkHeaderSize + 3] ^= 0x10;
  Reader reader = std::move(Reader::open(test::file_of(made.bytes), "test").value());
  EXPECT_TRUE(reader.is_complete());
  EXPECT_EQ(reader.places().value(), made.places);
}

TEST(Damage, ReportsAHoleInTheMiddle) {
  const auto planned = random_chunks(/*chunks=*/9, /*entries=*/50, /*seed=*/5);
  MadeRecording made = make_recording(planned, true);
  // From the middle of the third chunk to the middle of the fifth.
  const std::size_t from = made.places[2].offset + 100;
  const std::size_t to = made.places[4].offset + 100;
  for (std::size_t i = from; i < to; ++i) made.bytes[i] = 0;
  const auto back = read_back(made.bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->chunks.size(), 6U);
  EXPECT_EQ(back->chunks[2], planned[5].entries);
  EXPECT_TRUE(back->after_loss[2]);
  EXPECT_FALSE(back->after_loss[3]);
  ASSERT_EQ(back->damages.size(), 2U);
  EXPECT_EQ(back->damages[0].offset, made.places[2].offset);
  EXPECT_EQ(back->damages[1].offset + back->damages[1].bytes, made.places[5].offset);
}

// The contents of a payload are never taken for a chunk.
TEST(Damage, AMagicInsideAnEntryIsNoChunk) {
  std::string trap(kChunkMagic);
  trap += std::string(200, 'x') + std::string(kChunkMagic);
  MadeRecording made = make_recording({{{trap}, true}, {{"after"}}}, false);
  made.bytes[made.places[0].offset] = 'x';
  const auto back = read_back(made.bytes);
  ASSERT_TRUE(back);
  ASSERT_EQ(back->chunks.size(), 1U);
  EXPECT_EQ(back->chunks[0][0], "after");
}

}  // namespace
}  // namespace forestall::recording
