// SPDX-License-Identifier: Apache-2.0
// Conversion of entries to the bytes of a chunk, and back.
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

// One chunk under construction. Its buffers are allocated with the first entry and reused for later
// chunks. Thread rule: one thread.
class ChunkBuilder {
 public:
  ChunkBuilder();
  ~ChunkBuilder();
  ChunkBuilder(ChunkBuilder&&) noexcept;
  ChunkBuilder& operator=(ChunkBuilder&&) noexcept;

  // Whether it has no entries, and no loss is noted before it.
  [[nodiscard]] bool empty() const { return header_.count == 0 && header_.lost_entries == 0; }
  [[nodiscard]] std::uint32_t count() const { return header_.count; }
  [[nodiscard]] std::size_t raw_size() const { return raw_.size(); }

  // Records a loss before this chunk. REQUIRES: no entry yet.
  void note_loss(std::uint64_t entries, std::uint64_t bytes);
  // REQUIRES: no entry yet.
  void begin_with_key() { header_.flags |= kChunkKey; }
  // Whether an entry of this size fits into the rest of the chunk.
  [[nodiscard]] bool fits(std::size_t entry_size) const;
  // REQUIRES: fits().
  void append(std::string_view entry, MonotonicTime at);

  // The bytes to write, and their header for the index. Valid until the next call of any member.
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

// Serializes the index as a chunk. REQUIRES: the index has at most kIndexMax entries.
inline constexpr std::size_t kIndexMax = kChunkRawMax / kIndexEntrySize;
[[nodiscard]] std::string seal_index(const std::vector<ChunkPlace>& index, std::uint32_t sequence);

// Thread rule: one thread.
class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(ChunkDecoder&&) noexcept;
  ChunkDecoder& operator=(ChunkDecoder&&) noexcept;

  // The raw payload. Valid until the next call or, if it was not compressed, as long as `payload`.
  // Errors: the unpacked size differs from the header. REQUIRES: is_intact().
  [[nodiscard]] Result<std::string_view> unpack(const ChunkHeader& header,
                                                std::string_view payload);

 private:
  struct Zstd;

  std::string raw_;
  std::unique_ptr<Zstd> zstd_;
};

// Removes the next entry from the front of a raw payload and returns it; nothing: no complete entry
// is left.
[[nodiscard]] std::optional<std::string_view> take_entry(std::string_view& raw);

}  // namespace forestall::recording
