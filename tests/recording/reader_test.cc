// SPDX-License-Identifier: Apache-2.0
// Recordings that are valid, older, newer, or of another format.
#include "recording/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "recording/crc32c.h"
#include "recording/recording_file.h"
#include "support/temp_tree.h"

namespace forestall::recording {
namespace {

using test::make_recording;
using test::PlannedChunk;
using test::read_back;

const std::vector<PlannedChunk> kThree{
    {{"one", "two"}, true}, {{"three"}}, {{"four", "", "five"}, true}};

TEST(Reader, ReadsEveryEntryInItsOrder) {
  const auto back = read_back(make_recording(kThree, true).bytes);
  ASSERT_TRUE(back) << back.error().text();
  ASSERT_EQ(back->chunks.size(), 3U);
  EXPECT_THAT(back->chunks[0], testing::ElementsAre("one", "two"));
  EXPECT_THAT(back->chunks[2], testing::ElementsAre("four", "", "five"));
  EXPECT_TRUE(back->complete);
  EXPECT_TRUE(back->damages.empty());
  EXPECT_FALSE(back->cut);
  EXPECT_THAT(back->after_loss, testing::ElementsAre(false, false, false));
}

TEST(Reader, ReadsAFileThatWasNotEnded) {
  const auto back = read_back(make_recording(kThree, false).bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->entries(), 6U);
  EXPECT_FALSE(back->complete);
  EXPECT_FALSE(back->cut);
}

TEST(Reader, ReadsAnEmptyRecording) {
  for (const bool ended : {false, true}) {
    const auto back = read_back(make_recording({}, ended).bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->chunks.size(), 0U);
    EXPECT_EQ(back->complete, ended);
  }
}

// A file that is still written: wherever it ends when it is opened, refresh() finds the rest.
TEST(Reader, ContinuesWithWhatWasWrittenMeanwhile) {
  const auto made = make_recording(kThree, true);
  for (std::size_t begun = made.places[0].offset; begun <= made.bytes.size(); ++begun) {
    SCOPED_TRACE(begun);
    UniqueFd file = test::file_of(std::string_view(made.bytes).substr(0, begun));
    const UniqueFd writer(::dup(file.get()));
    Reader reader = std::move(Reader::open(std::move(file), "test").value());
    std::size_t chunks = 0;
    const auto read = [&] {
      for (;;) {
        const auto chunk = reader.next();
        ASSERT_TRUE(chunk) << chunk.error().text();
        if (!*chunk) return;
        EXPECT_FALSE((*chunk)->after_loss);
        EXPECT_EQ((*chunk)->place.offset, made.places[chunks++].offset);
      }
    };
    read();
    EXPECT_EQ(reader.is_complete(), begun == made.bytes.size());
    const bool grew = begun < made.bytes.size();
    const std::string_view rest = std::string_view(made.bytes).substr(begun);
    ASSERT_EQ(::pwrite(writer.get(), rest.data(), rest.size(), static_cast<off_t>(begun)),
              static_cast<ssize_t>(rest.size()));
    EXPECT_EQ(reader.refresh().value(), grew);
    read();
    EXPECT_EQ(chunks, 3U);
    EXPECT_TRUE(reader.is_complete());
    EXPECT_FALSE(reader.refresh().value());
    EXPECT_FALSE(reader.cut());
    EXPECT_TRUE(reader.damages().empty());
  }
}

TEST(Reader, RefusesToContinueInATruncatedFile) {
  UniqueFd file = test::file_of(make_recording(kThree, false).bytes);
  const UniqueFd writer(::dup(file.get()));
  Reader reader = std::move(Reader::open(std::move(file), "test").value());
  ASSERT_EQ(::ftruncate(writer.get(), 60), 0);
  const auto refreshed = reader.refresh();
  ASSERT_FALSE(refreshed);
  EXPECT_EQ(refreshed.error().text(), "test: was truncated by another program");
}

TEST(Reader, ReportsLossesBeforeAChunk) {
  auto chunks = kThree;
  chunks[1].lost = 42;
  Reader reader =
      std::move(Reader::open(test::file_of(make_recording(chunks, true).bytes), "test").value());
  EXPECT_FALSE(reader.next().value()->after_loss);
  const auto second = reader.next();
  EXPECT_TRUE((*second)->after_loss);
  EXPECT_EQ((*second)->header.lost_entries, 42U);
  EXPECT_EQ((*second)->header.lost_bytes, 420U);
  EXPECT_FALSE(reader.next().value()->after_loss);
}

TEST(Reader, ReportsAMissingChunk) {
  const auto made = make_recording(kThree, false);
  std::string bytes = made.bytes;
  bytes.erase(made.places[1].offset, made.places[2].offset - made.places[1].offset);
  const auto back = read_back(bytes);
  ASSERT_TRUE(back);
  EXPECT_THAT(back->after_loss, testing::ElementsAre(false, true));
  EXPECT_TRUE(back->damages.empty());
}

TEST(Reader, SeeksToTheKeyBefore) {
  // Entries are at seconds 1, 2 | 3 | 4, 5, 6; keys are the first and the third chunk.
  for (const bool ended : {true, false}) {
    Reader reader =
        std::move(Reader::open(test::file_of(make_recording(kThree, ended).bytes), "test").value());
    ASSERT_TRUE(reader.seek(3'500'000'000));
    EXPECT_EQ(reader.next().value()->place.first_ns, 1'000'000'000);
    ASSERT_TRUE(reader.seek(4'000'000'000));
    EXPECT_EQ(reader.next().value()->place.first_ns, 4'000'000'000);
    ASSERT_TRUE(reader.seek(0));
    EXPECT_EQ(reader.next().value()->place.first_ns, 1'000'000'000);
    EXPECT_EQ(reader.places().value(), make_recording(kThree, ended).places);
  }
}

TEST(Reader, SkipsAdditionsOfANewerVersion) {
  const auto made = make_recording(kThree, false);
  std::string bytes = made.bytes;
  const auto set_flag = [&](std::size_t chunk, std::uint16_t flag) {
    const std::size_t at = made.places[chunk].offset;
    const std::size_t next =
        chunk + 1 < made.places.size() ? made.places[chunk + 1].offset : bytes.size();
    ChunkHeader header = *decode_chunk_header(std::string_view(bytes).substr(at));
    header.flags |= flag;
    header.minor = 9;
    const auto encoded = encode(header, std::string_view(bytes).substr(
                                            at + kChunkHeaderSize, next - at - kChunkHeaderSize));
    bytes.replace(at, encoded.size(), encoded.data(), encoded.size());
  };
  set_flag(0, 1U << 5);   // may be ignored
  set_flag(1, 1U << 14);  // must be understood
  const auto back = read_back(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->chunks.size(), 2U);
  EXPECT_EQ(back->foreign, 1U);
  EXPECT_THAT(back->after_loss, testing::ElementsAre(false, true));
  EXPECT_TRUE(back->damages.empty());
}

TEST(Reader, RefusesOtherFiles) {
  const auto problem = [](std::string_view bytes) {
    const auto back = read_back(bytes);
    return back ? std::string("read") : back.error().message;
  };
  EXPECT_EQ(problem(""), "test: not a Forestall recording");
  EXPECT_EQ(problem("{\"atNs\": 1}\n{\"atNs\": 2}\n"), "test: not a Forestall recording");
  EXPECT_EQ(problem(make_recording({}, false).bytes.substr(0, 12)),
            "test: the file ends within its header");
  EXPECT_EQ(
      problem(encode(FileHeader{9, 0, ""})),
      "test: a recording of format 9.0; this version of Forestall reads format 1, use a newer "
      "version");
  std::string huge = encode(FileHeader{kMajor, kMinor, "facts"});
  huge[12] = huge[13] = huge[14] = huge[15] = '\xff';
  EXPECT_EQ(
      problem(huge),
      "test: the header is damaged: it declares 4294967295 bytes of facts, at most 1048576 are "
      "allowed");
  std::string damaged = encode(FileHeader{kMajor, kMinor, "facts"});
  damaged.back() = 'S';
  EXPECT_EQ(problem(damaged), "test: its header is damaged");
}

TEST(Reader, RecognizesARecordingByItsHeader) {
  const test::TempTree tree(
      {{"recording", make_recording({}, true).bytes}, {"lines", "{\"atNs\": 1}\n"}, {"empty", ""}});
  EXPECT_TRUE(Reader::is_recording(tree / "recording").value());
  EXPECT_FALSE(Reader::is_recording(tree / "lines").value());
  EXPECT_FALSE(Reader::is_recording(tree / "empty").value());
  EXPECT_FALSE(Reader::is_recording("/dev/null").value());
  EXPECT_EQ(Reader::is_recording(tree / "none").error().code, ENOENT);
}

}  // namespace
}  // namespace forestall::recording
