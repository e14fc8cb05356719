// SPDX-License-Identifier: Apache-2.0
#include "recording/format.h"

#include <concepts>
#include <cstring>

#include "recording/crc32c.h"

namespace forestall::recording {
namespace {

// Offsets of the checksums.
constexpr std::size_t kHeaderCrcAt = 56;
constexpr std::size_t kWholeCrcAt = 60;
constexpr std::size_t kFileCrcAt = 16;
constexpr std::size_t kTrailerCrcAt = 16;
constexpr std::size_t kVarintMax = 10;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they are");

template <std::integral T>
void put(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <std::integral T>
T get(std::string_view bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

// ---- chunks ----

std::array<char, kChunkHeaderSize> encode(const ChunkHeader& header, std::string_view payload) {
  std::array<char, kChunkHeaderSize> out{};
  std::memcpy(out.data(), kChunkMagic.data(), kChunkMagic.size());
  put(&out[8], header.major);
  put(&out[9], header.minor);
  put(&out[10], header.flags);
  put(&out[12], header.sequence);
  put(&out[16], header.first_ns);
  put(&out[24], header.last_ns);
  put(&out[32], header.count);
  put(&out[36], header.raw_size);
  put(&out[40], header.stored_size);
  put(&out[44], header.lost_entries);
  put(&out[48], header.lost_bytes);
  put(&out[kHeaderCrcAt], crc32c({out.data(), kHeaderCrcAt}));
  put(&out[kWholeCrcAt], crc32c(payload, crc32c({out.data(), kWholeCrcAt})));
  return out;
}

std::optional<ChunkHeader> decode_chunk_header(std::string_view bytes) {
  if (!bytes.starts_with(kChunkMagic)) return std::nullopt;
  if (get<std::uint32_t>(bytes, kHeaderCrcAt) != crc32c(bytes.substr(0, kHeaderCrcAt))) {
    return std::nullopt;
  }
  ChunkHeader header;
  header.major = get<std::uint8_t>(bytes, 8);
  header.minor = get<std::uint8_t>(bytes, 9);
  header.flags = get<std::uint16_t>(bytes, 10);
  header.sequence = get<std::uint32_t>(bytes, 12);
  header.first_ns = get<std::int64_t>(bytes, 16);
  header.last_ns = get<std::int64_t>(bytes, 24);
  header.count = get<std::uint32_t>(bytes, 32);
  header.raw_size = get<std::uint32_t>(bytes, 36);
  header.stored_size = get<std::uint32_t>(bytes, 40);
  header.lost_entries = get<std::uint32_t>(bytes, 44);
  header.lost_bytes = get<std::uint64_t>(bytes, 48);
  header.crc = get<std::uint32_t>(bytes, kWholeCrcAt);
  // An entry takes at least one byte.
  const bool possible = header.raw_size <= kChunkRawMax && header.stored_size <= kChunkStoredMax &&
                        (header.count <= header.raw_size || header.has(kChunkIndex));
  return possible ? std::optional(header) : std::nullopt;
}

bool is_intact(const ChunkHeader& header, std::string_view bytes, std::string_view payload) {
  return crc32c(payload, crc32c(bytes.substr(0, kWholeCrcAt))) == header.crc;
}

// ---- the file's own header ----

std::string encode(const FileHeader& header) {
  std::string out(kFileHeaderSize, '\0');
  std::memcpy(out.data(), kFileMagic.data(), kFileMagic.size());
  put(&out[8], header.major);
  put(&out[10], header.minor);
  put(&out[12], static_cast<std::uint32_t>(header.facts.size()));
  put(&out[kFileCrcAt], crc32c(header.facts, crc32c(std::string_view(out).substr(0, kFileCrcAt))));
  return out + header.facts;
}

Result<FileStart> decode_file_start(std::string_view bytes) {
  if (!bytes.starts_with(kFileMagic)) return error("not a Forestall recording");
  FileStart start;
  start.major = get<std::uint16_t>(bytes, 8);
  start.minor = get<std::uint16_t>(bytes, 10);
  start.facts_size = get<std::uint32_t>(bytes, 12);
  start.crc = get<std::uint32_t>(bytes, kFileCrcAt);
  if (start.major != kMajor) {
    return error("a recording of format " + std::to_string(start.major) + "." +
                 std::to_string(start.minor) + "; this version of Forestall reads format " +
                 std::to_string(kMajor) + ", " +
                 (start.major > kMajor ? "use a newer version" : "use an older version"));
  }
  if (start.facts_size > kFactsMax) {
    return error("the header is damaged: it declares " + std::to_string(start.facts_size) +
                 " bytes of facts, at most " + std::to_string(kFactsMax) + " are allowed");
  }
  return start;
}

bool is_intact(std::string_view start_bytes, std::string_view facts, std::uint32_t crc) {
  return crc32c(facts, crc32c(start_bytes.substr(0, kFileCrcAt))) == crc;
}

// ---- index and trailer ----

std::string encode_index(const std::vector<ChunkPlace>& index) {
  std::string out(index.size() * kIndexEntrySize, '\0');
  char* to = out.data();
  for (const ChunkPlace& place : index) {
    put(to, place.offset);
    put(to + 8, place.first_ns);
    put(to + 16, place.last_ns);
    put(to + 24, place.count);
    put(to + 28, place.flags);
    to += kIndexEntrySize;
  }
  return out;
}

std::optional<std::vector<ChunkPlace>> decode_index(std::string_view raw) {
  if (raw.size() % kIndexEntrySize != 0) return std::nullopt;
  std::vector<ChunkPlace> index;
  index.reserve(raw.size() / kIndexEntrySize);
  for (std::size_t at = 0; at < raw.size(); at += kIndexEntrySize) {
    ChunkPlace place{get<std::uint64_t>(raw, at), get<std::int64_t>(raw, at + 8),
                     get<std::int64_t>(raw, at + 16), get<std::uint32_t>(raw, at + 24),
                     get<std::uint16_t>(raw, at + 28)};
    if (!index.empty() && place.offset <= index.back().offset) return std::nullopt;
    index.push_back(place);
  }
  return index;
}

std::array<char, kTrailerSize> encode_trailer(std::uint64_t index_offset) {
  std::array<char, kTrailerSize> out{};
  std::memcpy(out.data(), kTrailerMagic.data(), kTrailerMagic.size());
  put(&out[8], index_offset);
  put(&out[kTrailerCrcAt], crc32c({out.data(), kTrailerCrcAt}));
  return out;
}

std::optional<std::uint64_t> decode_trailer(std::string_view bytes) {
  if (!bytes.starts_with(kTrailerMagic)) return std::nullopt;
  if (get<std::uint32_t>(bytes, kTrailerCrcAt) != crc32c(bytes.substr(0, kTrailerCrcAt))) {
    return std::nullopt;
  }
  return get<std::uint64_t>(bytes, 8);
}

// ---- varints ----

void append_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < kVarintMax; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (i == kVarintMax - 1 && byte > 1) return std::nullopt;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace forestall::recording
