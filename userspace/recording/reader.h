// SPDX-License-Identifier: Apache-2.0
// Reads the chunks of a recording from a file that may be complete, truncated, damaged, or still
// being written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "recording/chunk.h"
#include "recording/format.h"

namespace forestall::recording {

// Bytes that are not a readable chunk.
struct DamagedRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::string problem;
};

struct Chunk {
  ChunkPlace place;
  ChunkHeader header;
  // Parsed by take_entry(); valid until the next call of the reader.
  std::string_view raw;
  // A chunk before it is missing, because it was never written or is unreadable: the entries may
  // refer to missing entries.
  bool after_loss = false;
};

// Thread rule: one thread.
class Reader {
 public:
  // Whether a file starts like a recording. Errors: it cannot be read.
  [[nodiscard]] static Result<bool> is_recording(const std::string& path);

  // Errors: the file cannot be read; it is not a recording; it has another major version; its
  // header is truncated or damaged.
  [[nodiscard]] static Result<Reader> open(const std::string& path);
  // `name` is for errors. REQUIRES: the descriptor supports pread() (not a pipe).
  [[nodiscard]] static Result<Reader> open(UniqueFd fd, std::string name);

  [[nodiscard]] const FileHeader& header() const { return header_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // The next chunk with entries; nothing at the end. Skips damaged parts, which damages() reports.
  // Errors: the file cannot be read any more.
  [[nodiscard]] Result<std::optional<Chunk>> next();

  // Takes in what was appended to the file since open() or the last call; next() continues after
  // the last whole chunk. Returns whether there is anything new. Errors: the file cannot be read
  // any more; it was truncated.
  [[nodiscard]] Result<bool> refresh();

  // Continues with the last key chunk that begins at or before `ns`, or with the first chunk if
  // there is none. Uses the index, or every header if there is no index.
  [[nodiscard]] Result<void> seek(std::int64_t ns);

  // The position of every readable chunk: from the index, or by scanning.
  [[nodiscard]] Result<std::vector<ChunkPlace>> places();

  // Whether the writer completed the file. If not, the file is truncated: its writer was killed, or
  // is still writing.
  [[nodiscard]] bool is_complete() const { return index_offset_.has_value(); }
  // Start of the chunk within which a truncated file ends; known once next() has reached the end.
  // Nothing: the file does not end within a chunk.
  [[nodiscard]] const std::optional<DamagedRange>& cut() const { return cut_; }
  // Damage found so far, in that order.
  [[nodiscard]] const std::vector<DamagedRange>& damages() const { return damages_; }
  // Number of chunks skipped so far because of flags that a newer version defines.
  [[nodiscard]] std::uint64_t foreign_chunks() const { return foreign_chunks_; }

 private:
  Reader(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  [[nodiscard]] Result<void> read_header();
  [[nodiscard]] Result<void> find_index();
  [[nodiscard]] Result<std::string_view> read_at(std::uint64_t offset, std::size_t size,
                                                 std::string& buffer) const;
  [[nodiscard]] Result<std::optional<ChunkHeader>> header_at(std::uint64_t offset);
  [[nodiscard]] Result<std::optional<std::vector<ChunkPlace>>> read_index();
  [[nodiscard]] Result<std::optional<Chunk>> take_chunk(const ChunkHeader& header);
  [[nodiscard]] Result<void> pass_damage();
  [[nodiscard]] Result<std::uint64_t> find_magic(std::uint64_t from);
  void end_within(std::uint64_t offset);
  void note_damage(std::uint64_t offset, std::uint64_t bytes, std::string problem);
  [[nodiscard]] std::uint64_t end() const { return index_offset_.value_or(size_); }

  UniqueFd fd_;
  std::string name_;
  FileHeader header_;
  std::uint64_t size_ = 0;                 // when the file was opened or refreshed
  std::uint64_t first_ = 0;                // offset of the first chunk
  std::uint64_t at_ = 0;                   // offset of the next chunk
  std::optional<std::uint32_t> sequence_;  // of the last chunk; nothing: no gap check
  bool lost_ = false;                      // something was skipped since the last chunk
  std::optional<std::uint64_t> index_offset_;
  std::optional<DamagedRange> cut_;
  std::vector<DamagedRange> damages_;
  std::uint64_t foreign_chunks_ = 0;
  std::string header_bytes_;
  std::string payload_;
  std::string window_;  // for find_magic()
  ChunkDecoder decoder_;
};

}  // namespace forestall::recording
