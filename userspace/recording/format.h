// SPDX-License-Identifier: Apache-2.0
// How a recording lies in a file: the one description of its bytes.
//
//   file    = header chunk* [index trailer]
//   header  = magic, major, minor, size of the facts, checksum, facts
//   chunk   = chunk header (64 bytes), payload
//   payload = entries, each with its length before it as a varint; zstd over all of them
//   index   = a chunk whose payload names every chunk before it
//   trailer = magic, offset of the index, checksum
//
// All numbers are little-endian. The facts and the entries are opaque here (they are the messages
// of forestall/v1/recording.proto).
//
// Why it is so:
// - A chunk says all that is needed to read it, so a file that is cut, or damaged in the middle,
//   is lost only where it is damaged: the next chunk is found by its magic.
// - A chunk's header has a sum of its own before that of the whole: its sizes must be known to be
//   right before anything is read, skipped or allocated by them.
// - What was lost before a chunk is counted in its header, not in an entry: whoever loses entries
//   has no room for one, and a reader that knows no entries can tell of it.
// - Entries refer to earlier ones (a workload is described once). A chunk that begins with a key
//   begins anew: nothing in it or behind it refers to what lies before. Readers start, and start
//   again after a loss, at such chunks.
// - The sequence of chunks is numbered, so that a hole shows even where the bytes around it fit.
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

// A reader refuses another major version. A newer minor one may have flags and kinds of entries
// that it does not know, all of which it can skip.
inline constexpr std::uint8_t kMajor = 1;
inline constexpr std::uint8_t kMinor = 0;

// The first byte is none that text begins with, the line end shows a transfer that changed them.
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

// Declared sizes beyond these are refused before anything is allocated by them.
inline constexpr std::size_t kFactsMax = std::size_t{1} << 20;
inline constexpr std::size_t kChunkRawMax = std::size_t{16} << 20;
inline constexpr std::size_t kChunkStoredMax = kChunkRawMax + (kChunkRawMax >> 7);
// So that a chunk can always take an entry and its length.
inline constexpr std::size_t kEntryMax = kChunkRawMax - 16;

// The low byte may be ignored by who does not know a flag, the high byte makes the chunk one to
// skip.
enum ChunkFlag : std::uint16_t {
  kChunkKey = 1U << 0,    // begins with a key
  kChunkPlain = 1U << 8,  // the payload is not compressed
  kChunkIndex = 1U << 9,  // the payload is the index
};
inline constexpr std::uint16_t kChunkMustKnow = 0xff00;
inline constexpr std::uint16_t kChunkKnown = kChunkKey | kChunkPlain | kChunkIndex;

struct ChunkHeader {
  std::uint8_t major = kMajor;
  std::uint8_t minor = kMinor;
  std::uint16_t flags = 0;
  std::uint32_t sequence = 0;  // counts the chunks of the file, the index as well, from 0
  std::int64_t first_ns = 0;   // CLOCK_MONOTONIC of the first entry
  std::int64_t last_ns = 0;    // and of the last
  std::uint32_t count = 0;     // entries
  std::uint32_t raw_size = 0;
  std::uint32_t stored_size = 0;
  std::uint32_t lost_entries = 0;  // since the last chunk: never written; saturates
  std::uint64_t lost_bytes = 0;    // of them
  std::uint32_t crc = 0;           // over this header up to here, and the payload

  [[nodiscard]] bool has(ChunkFlag flag) const { return (flags & flag) != 0; }
  // A flag that this reader would have to know.
  [[nodiscard]] bool is_foreign() const { return (flags & kChunkMustKnow & ~kChunkKnown) != 0; }
  friend bool operator==(const ChunkHeader&, const ChunkHeader&) = default;
};

// The header's bytes with both sums; `crc` is computed here, over `payload` as well.
[[nodiscard]] std::array<char, kChunkHeaderSize> encode(const ChunkHeader& header,
                                                        std::string_view payload);
// Nothing: these bytes are no header, or a damaged one, or one whose sizes cannot be.
// REQUIRES: kChunkHeaderSize bytes.
[[nodiscard]] std::optional<ChunkHeader> decode_chunk_header(std::string_view bytes);
// Whether header and payload are as they were written. REQUIRES: the header's bytes are sound.
[[nodiscard]] bool is_intact(const ChunkHeader& header, std::string_view bytes,
                             std::string_view payload);

struct FileHeader {
  std::uint16_t major = kMajor;
  std::uint16_t minor = kMinor;
  std::string facts;
};

[[nodiscard]] std::string encode(const FileHeader& header);

// What the fixed part says: how long the facts are. Errors: no recording, another major version,
// damaged, a size that cannot be. REQUIRES: kFileHeaderSize bytes.
struct FileStart {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
  std::uint32_t facts_size = 0;
  std::uint32_t crc = 0;
};
[[nodiscard]] Result<FileStart> decode_file_start(std::string_view bytes);
[[nodiscard]] bool is_intact(std::string_view start_bytes, std::string_view facts,
                             std::uint32_t crc);

// Where a chunk lies and what it holds.
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
// Nothing: not a whole number of entries, or offsets that do not rise.
[[nodiscard]] std::optional<std::vector<ChunkPlace>> decode_index(std::string_view raw);

[[nodiscard]] std::array<char, kTrailerSize> encode_trailer(std::uint64_t index_offset);
// Offset of the index; nothing: this is no trailer. REQUIRES: kTrailerSize bytes.
[[nodiscard]] std::optional<std::uint64_t> decode_trailer(std::string_view bytes);

// A varint as protobuf has it.
void append_varint(std::string& out, std::uint64_t value);
// Taken from the front of `bytes`; nothing: it is not complete, or longer than 64 bits.
[[nodiscard]] std::optional<std::uint64_t> take_varint(std::string_view& bytes);

}  // namespace forestall::recording
