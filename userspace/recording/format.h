// SPDX-License-Identifier: Apache-2.0
// The file format of a recording.
//
//   file    = header chunk* [index trailer]
//   header  = magic, major, minor, size of the facts, checksum, facts
//   chunk   = chunk header (64 bytes), payload
//   payload = entries, each prefixed with its length as a varint; zstd over all of them
//   index   = a chunk whose payload names every chunk before it
//   trailer = magic, offset of the index, checksum
//
// All numbers are little-endian. The facts and the entries are opaque here (they are the messages
// of forestall/v1/recording.proto).
//
// Reasons for this format:
// - A chunk contains everything that is needed to read it. A truncated or damaged file therefore
//   loses only the damaged part: readers find the next chunk by its magic.
// - A chunk's header has its own checksum in addition to that of the whole chunk, because readers
//   must verify the sizes before they read, skip or allocate by them.
// - The header of a chunk counts the entries lost before it. An entry for the loss would not fit
//   either, and a reader that cannot parse entries can still report the loss.
// - Entries refer to earlier ones (a workload is described once). Entries in and after a chunk that
//   begins with a key do not refer to entries before it. Readers start at such chunks, and resume
//   there after a loss.
// - Chunks are numbered, so that a gap is detected even if the bytes around it are valid.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace forestall::recording {

// Readers refuse another major version. A newer minor version may add flags and kinds of entries,
// which older readers can skip.
inline constexpr std::uint8_t kMajor = 1;
inline constexpr std::uint8_t kMinor = 0;

// The first byte is not valid at the start of a text; the line end reveals a transfer that changed
// line ends.
inline constexpr std::string_view kFileMagic =
    "\x93"
    "FSTREC\n";
inline constexpr std::string_view kChunkMagic =
    "\x93"
    "FSTCHK\n";
inline constexpr std::string_view kTrailerMagic =
    "\x93"
    "FSTEND\n";

inline constexpr std::size_t kFileHeaderSize = 20;  // without the facts
inline constexpr std::size_t kChunkHeaderSize = 64;
inline constexpr std::size_t kTrailerSize = 24;
inline constexpr std::size_t kIndexEntrySize = 32;

// Readers refuse larger declared sizes before they allocate.
inline constexpr std::size_t kFactsMax = std::size_t{1} << 20;
inline constexpr std::size_t kChunkRawMax = std::size_t{16} << 20;
inline constexpr std::size_t kChunkStoredMax = kChunkRawMax + (kChunkRawMax >> 7);
// A chunk always has space for an entry of this size and its length.
inline constexpr std::size_t kEntryMax = kChunkRawMax - 16;

// A reader may ignore unknown flags in the low byte; it must skip a chunk with an unknown flag in
// the high byte.
enum ChunkFlag : std::uint16_t {
  kChunkKey = 1U << 0,    // begins with a key
  kChunkPlain = 1U << 8,  // the payload is not compressed
  kChunkIndex = 1U << 9,  // the payload is the index
};
inline constexpr std::uint16_t kChunkMandatory = 0xff00;
inline constexpr std::uint16_t kChunkKnown = kChunkKey | kChunkPlain | kChunkIndex;

struct ChunkHeader {
  std::uint8_t major = kMajor;
  std::uint8_t minor = kMinor;
  std::uint16_t flags = 0;
  std::uint32_t sequence = 0;  // counts the chunks of the file, including the index, from 0
  std::int64_t first_ns = 0;   // CLOCK_MONOTONIC of the first entry
  std::int64_t last_ns = 0;    // and of the last
  std::uint32_t count = 0;     // entries
  std::uint32_t raw_size = 0;
  std::uint32_t stored_size = 0;
  std::uint32_t lost_entries = 0;  // entries lost since the last chunk and never written; saturates
  std::uint64_t lost_bytes = 0;    // size of those entries
  std::uint32_t crc = 0;           // over this header up to here, and the payload

  [[nodiscard]] bool has(ChunkFlag flag) const { return (flags & flag) != 0; }
  // Whether it has a flag that this reader must support but does not.
  [[nodiscard]] bool is_foreign() const { return (flags & kChunkMandatory & ~kChunkKnown) != 0; }
  friend bool operator==(const ChunkHeader&, const ChunkHeader&) = default;
};

// The header's bytes with both checksums; computes `crc` over the header and `payload`.
[[nodiscard]] std::array<char, kChunkHeaderSize> encode(const ChunkHeader& header,
                                                        std::string_view payload);
// Nothing: the bytes are not a header, are damaged, or declare impossible sizes. REQUIRES:
// kChunkHeaderSize bytes.
[[nodiscard]] std::optional<ChunkHeader> decode_chunk_header(std::string_view bytes);
// Whether header and payload are unchanged. REQUIRES: decode_chunk_header() accepted the header's
// bytes.
[[nodiscard]] bool is_intact(const ChunkHeader& header, std::string_view bytes,
                             std::string_view payload);

struct FileHeader {
  std::uint16_t major = kMajor;
  std::uint16_t minor = kMinor;
  std::string facts;
};

[[nodiscard]] std::string encode(const FileHeader& header);

// The fixed part of the file header, with the size of the facts. Errors: not a recording, another
// major version, damaged, or an impossible size. REQUIRES: kFileHeaderSize bytes.
struct FileStart {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
  std::uint32_t facts_size = 0;
  std::uint32_t crc = 0;
};
[[nodiscard]] Result<FileStart> decode_file_start(std::string_view bytes);
[[nodiscard]] bool is_intact(std::string_view start_bytes, std::string_view facts,
                             std::uint32_t crc);

// Position and contents of a chunk.
struct ChunkPlace {
  std::uint64_t offset = 0;
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
  std::uint32_t count = 0;
  std::uint16_t flags = 0;

  [[nodiscard]] bool is_key() const { return (flags & kChunkKey) != 0; }
  friend bool operator==(const ChunkPlace&, const ChunkPlace&) = default;
};

[[nodiscard]] std::string encode_index(const std::vector<ChunkPlace>& index);
// Nothing: not a whole number of entries, or offsets that do not increase.
[[nodiscard]] std::optional<std::vector<ChunkPlace>> decode_index(std::string_view raw);

[[nodiscard]] std::array<char, kTrailerSize> encode_trailer(std::uint64_t index_offset);
// Offset of the index; nothing: not a trailer. REQUIRES: kTrailerSize bytes.
[[nodiscard]] std::optional<std::uint64_t> decode_trailer(std::string_view bytes);

// A varint in protobuf's encoding.
void append_varint(std::string& out, std::uint64_t value);
// Removed from the front of `bytes`; nothing: incomplete, or longer than 64 bits.
[[nodiscard]] std::optional<std::uint64_t> take_varint(std::string_view& bytes);

}  // namespace forestall::recording
