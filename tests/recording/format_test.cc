// SPDX-License-Identifier: Apache-2.0
#include "recording/format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "recording/chunk.h"
#include "recording/crc32c.h"
#include "recording/recording_file.h"

namespace forestall::recording {
namespace {

ChunkHeader sample_header() {
  ChunkHeader header;
  header.flags = kChunkKey;
  header.sequence = 7;
  header.first_ns = -5;
  header.last_ns = std::numeric_limits<std::int64_t>::max();
  header.count = 3;
  header.raw_size = 100;
  header.stored_size = 4;
  header.lost_entries = 2;
  header.lost_bytes = 1ULL << 40;
  return header;
}

TEST(Format, ReadsTheChunkHeaderItWrote) {
  const ChunkHeader header = sample_header();
  const auto bytes = encode(header, "load");
  const std::string_view view(bytes.data(), bytes.size());
  auto read = decode_chunk_header(view);
  ASSERT_TRUE(read);
  EXPECT_TRUE(is_intact(*read, view, "load"));
  EXPECT_FALSE(is_intact(*read, view, "loaf"));
  read->crc = 0;
  EXPECT_EQ(*read, header);
}

// The bytes are the format: later versions read today's files.
TEST(Format, KeepsItsBytes) {
  const auto bytes = encode(sample_header(), "load");
  const unsigned char expected[] = {
      0x93, 'F',  'S',  'T',  'C',  'H',  'K',  '\n', 1,    0,    1,    0,    7,    0,
      0,    0,    0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
      0xff, 0xff, 0xff, 0x7f, 3,    0,    0,    0,    100,  0,    0,    0,    4,    0,
      0,    0,    2,    0,    0,    0,    0,    0,    0,    0,    0,    1,    0,    0};
  EXPECT_EQ(std::memcmp(bytes.data(), expected, sizeof expected), 0);
  const std::string head = encode(FileHeader{1, 0, "ab"});
  EXPECT_EQ(head.substr(0, 16), std::string("\x93"
                                            "FSTREC\n\1\0\0\0\2\0\0\0",
                                            16));
  EXPECT_EQ(head.substr(20), "ab");
}

TEST(Format, TakesNoHeaderWithAnyBitOff) {
  const auto whole = encode(sample_header(), "load");
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    auto bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    const std::string_view view(bytes.data(), bytes.size());
    const auto read = decode_chunk_header(view);
    EXPECT_FALSE(read && is_intact(*read, view, "load")) << "bit " << bit;
  }
}

// Sums do not prove sizes: they are checked before use.
TEST(Format, RefusesSizesThatCannotBe) {
  for (const auto& [raw, stored] : {std::pair{std::uint32_t{0xffffffff}, std::uint32_t{4}},
                                    std::pair{std::uint32_t{100}, std::uint32_t{0xffffffff}},
                                    std::pair{std::uint32_t{kChunkRawMax + 1}, std::uint32_t{4}}}) {
    ChunkHeader header = sample_header();
    header.raw_size = raw;
    header.stored_size = stored;
    const auto bytes = encode(header, "load");
    EXPECT_FALSE(decode_chunk_header({bytes.data(), bytes.size()}));
  }
  ChunkHeader header = sample_header();
  header.count = 101;
  const auto bytes = encode(header, "load");
  EXPECT_FALSE(decode_chunk_header({bytes.data(), bytes.size()}));
}

TEST(Format, RefusesAFrameThatDeclaresMoreThanItsHeader) {
  ChunkBuilder large;
  large.append(std::string(1 << 20, 'x'), from_ns(1));
  const auto sealed = large.seal(0);
  ChunkHeader header = sealed.header;
  header.raw_size = 100;  // the frame declares 1 MiB
  ChunkDecoder decoder;
  EXPECT_FALSE(decoder.unpack(header, sealed.bytes.substr(kChunkHeaderSize)));
  EXPECT_TRUE(decoder.unpack(sealed.header, sealed.bytes.substr(kChunkHeaderSize)));
}

TEST(Format, KeepsIncompressibleDataUnchanged) {
  ChunkBuilder chunk;
  chunk.append("a", from_ns(1));
  const auto sealed = chunk.seal(0);
  EXPECT_TRUE(sealed.header.has(kChunkPlain));
  EXPECT_EQ(sealed.bytes.substr(kChunkHeaderSize), std::string("\1a"));
}

TEST(Format, SpansTheTimesOfItsEntriesInAnyOrder) {
  ChunkBuilder chunk;
  chunk.append("a", from_ns(20));
  chunk.append("b", from_ns(10));
  chunk.append("c", from_ns(15));
  const auto sealed = chunk.seal(0);
  EXPECT_EQ(sealed.header.first_ns, 10);
  EXPECT_EQ(sealed.header.last_ns, 20);
}

// A seek to 15 needs the key before this one.
TEST(Format, StartsWithItsKey) {
  ChunkBuilder chunk;
  chunk.begin_with_key();
  chunk.append("key", from_ns(20));
  chunk.append("outcome", from_ns(10));
  chunk.append("evaluation", from_ns(30));
  const auto sealed = chunk.seal(0);
  EXPECT_EQ(sealed.header.first_ns, 20);
  EXPECT_EQ(sealed.header.last_ns, 30);
}

TEST(Format, ReadsTheIndexItWrote) {
  const std::vector<ChunkPlace> index{{29, 1, 2, 3, kChunkKey}, {500, 4, 5, 6, 0}};
  EXPECT_EQ(decode_index(encode_index(index)), index);
  EXPECT_FALSE(decode_index(encode_index(index).substr(1)));
  EXPECT_FALSE(decode_index(encode_index({index[1], index[0]})));
  EXPECT_EQ(decode_index("")->size(), 0U);
}

TEST(Format, RefusesAnUnknownVersion) {
  std::string bytes = encode(FileHeader{2, 3, ""});
  const auto newer = decode_file_start(bytes);
  ASSERT_FALSE(newer);
  EXPECT_EQ(
      newer.error().message,
      "a recording of format 2.3; this version of Forestall reads format 1, use a newer version");
  EXPECT_TRUE(decode_file_start(encode(FileHeader{1, 9, ""})));
  EXPECT_EQ(decode_file_start(std::string(20, '{')).error().message, "not a Forestall recording");
}

TEST(Varint, ReadsWhatItWrote) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128},
                                    std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    std::string bytes;
    append_varint(bytes, value);
    std::string_view view = bytes;
    EXPECT_EQ(take_varint(view), value);
    EXPECT_TRUE(view.empty());
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      std::string_view part = std::string_view(bytes).substr(0, cut);
      EXPECT_FALSE(take_varint(part));
    }
  }
  std::string_view too_long = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
  EXPECT_FALSE(take_varint(too_long));
}

}  // namespace
}  // namespace forestall::recording
