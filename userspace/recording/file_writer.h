// SPDX-License-Identifier: Apache-2.0
// Writes one recording to disk: consecutive chunks, then the index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "recording/chunk.h"

namespace forestall::recording {

// Thread rule: one thread. Every write has a known offset. If a write fails halfway because the
// disk is full, it is repeated at the same offset; until then, readers see a truncated file.
class FileWriter {
 public:
  // Creates a file with its header, readable only by its owner because it names processes and pods.
  // `path` starts at the directory `at`; AT_FDCWD is the current one. An existing file is an error
  // (EEXIST) unless `overwrite`.
  [[nodiscard]] static Result<FileWriter> create(int at, const std::string& path,
                                                 std::string_view facts, bool overwrite);

  // Appends the contents of `chunk`. On failure the file is unchanged.
  [[nodiscard]] Result<void> write(ChunkBuilder& chunk);
  // Flushes all writes to disk.
  [[nodiscard]] Result<void> sync();
  // Writes index and trailer; no write may follow. A file with more chunks than an index can hold
  // (half a million) gets no index, and readers scan it.
  [[nodiscard]] Result<void> finish();

  [[nodiscard]] std::uint64_t size() const { return offset_; }
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

 private:
  FileWriter(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  [[nodiscard]] Result<void> append(std::string_view bytes);
  [[nodiscard]] Result<void> append_index();

  UniqueFd fd_;
  std::string path_;
  std::uint64_t offset_ = 0;
  std::uint64_t chunks_ = 0;
  std::vector<ChunkPlace> index_;  // of the first kIndexMax chunks
};

}  // namespace forestall::recording
