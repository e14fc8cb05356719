// SPDX-License-Identifier: Apache-2.0
// Entries to the bytes of a chunk, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "recording/format.h"

namespace forestall::recording {

// One chunk while it grows. Its buffers stay from chunk to chunk; none is made before the first
// entry. Thread rule: one thread.
class ChunkBuilder {
 public:
  ChunkBuilder();
  ~ChunkBuilder();
  ChunkBuilder(ChunkBuilder&&) noexcept;
  ChunkBuilder& operator=(ChunkBuilder&&) noexcept;

  // Nothing in it, and nothing lost before it.
  [[nodiscard]] bool empty() const { return header_.count == 0 && header_.lost_entries == 0; }
  [[nodiscard]] std::uint32_t count() const { return header_.count; }
  [[nodiscard]] std::size_t raw_size() const { return raw_.size(); }

  // To be told of before this chunk. REQUIRES: no entry yet.
  void note_loss(std::uint64_t entries, std::uint64_t bytes);
  // REQUIRES: no entry yet.
  void begin_with_key() { header_.flags |= kChunkKey; }
  // Whether `entry` fits behind what is there.
  [[nodiscard]] bool fits(std::size_t entry_size) const;
  // REQUIRES: fits().
  void append(std::string_view entry, MonotonicTime at);

  // The bytes to be written and where they would be found. Valid until the next call of anything.
  struct Sealed {
    std::string_view bytes;
    ChunkHeader header;
  };
  [[nodiscard]] Sealed seal(std::uint32_t sequence);
  void clear();

 private:
  struct Zstd;

  ChunkHeader header_;
  std::string raw_;
  std::string sealed_;
  std::unique_ptr<Zstd> zstd_;
};

// A chunk of the index. REQUIRES: the index has at most kIndexMax entries.
inline constexpr std::size_t kIndexMax = kChunkRawMax / kIndexEntrySize;
[[nodiscard]] std::string seal_index(const std::vector<ChunkPlace>& index, std::uint32_t sequence);

// Thread rule: one thread.
class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(ChunkDecoder&&) noexcept;
  ChunkDecoder& operator=(ChunkDecoder&&) noexcept;

  // The raw payload, valid until the next call or, if it was not compressed, as long as `payload`.
  // Errors: it does not unpack to what the header declares. REQUIRES: is_intact().
  [[nodiscard]] Result<std::string_view> unpack(const ChunkHeader& header,
                                                std::string_view payload);

 private:
  struct Zstd;

  std::string raw_;
  std::unique_ptr<Zstd> zstd_;
};

// The next entry, taken from the front of a raw payload; nothing: what is left is none.
[[nodiscard]] std::optional<std::string_view> take_entry(std::string_view& raw);

}  // namespace forestall::recording
