// SPDX-License-Identifier: Apache-2.0
// Chunks of a recording, from a file that may be whole, cut, damaged, or still being written.
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

// Bytes that are no chunk, or none that can be read.
struct Damage {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::string problem;
};

struct Chunk {
  ChunkPlace place;
  ChunkHeader header;
  // Its entries, for take_entry(); valid until the next call of the reader.
  std::string_view raw;
  // Something is missing before it, whether it was never written or cannot be read: what its
  // entries refer to may not be there.
  bool after_loss = false;
};

// Thread rule: one thread.
class Reader {
 public:
  // Whether a file begins as a recording does. Errors: it cannot be read.
  [[nodiscard]] static Result<bool> is_recording(const std::string& path);

  // Errors: the file cannot be read; it is no recording; another major version; its header is cut
  // or damaged.
  [[nodiscard]] static Result<Reader> open(const std::string& path);
  // `name` is for errors. REQUIRES: the descriptor can be read at any place (no pipe).
  [[nodiscard]] static Result<Reader> open(UniqueFd fd, std::string name);

  [[nodiscard]] const FileHeader& header() const { return header_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // The next chunk with entries; nothing at the end. What is damaged on the way is passed over and
  // told by damages(). Errors: the file cannot be read any more.
  [[nodiscard]] Result<std::optional<Chunk>> next();

  // Continues with the last key chunk that begins at or before `ns`, or with the first chunk if
  // there is none. Looks at the index, or at every header where there is none.
  [[nodiscard]] Result<void> seek(std::int64_t ns);

  // Where every readable chunk lies: from the index, or by scanning.
  [[nodiscard]] Result<std::vector<ChunkPlace>> places();

  // Whether the file was ended by its writer. Otherwise it is cut: its writer was killed, or is
  // still at it.
  [[nodiscard]] bool is_complete() const { return index_offset_.has_value(); }
  // Where the file stopped being readable, known when next() came to the end: of a file that is
  // cut within a chunk, where that chunk begins. Nothing: it is whole.
  [[nodiscard]] const std::optional<Damage>& cut() const { return cut_; }
  // So far, in the order they were met.
  [[nodiscard]] const std::vector<Damage>& damages() const { return damages_; }
  // Chunks with flags that a newer version gave a meaning, passed over so far.
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
  std::uint64_t size_ = 0;                 // when it was opened
  std::uint64_t first_ = 0;                // offset of the first chunk
  std::uint64_t at_ = 0;                   // of the next one
  std::optional<std::uint32_t> sequence_;  // of the last chunk; nothing: it does not matter
  bool lost_ = false;                      // something was passed over since the last chunk
  std::optional<std::uint64_t> index_offset_;
  std::optional<Damage> cut_;
  std::vector<Damage> damages_;
  std::uint64_t foreign_chunks_ = 0;
  std::string header_bytes_;
  std::string payload_;
  std::string window_;  // for find_magic()
  ChunkDecoder decoder_;
};

}  // namespace forestall::recording
