// SPDX-License-Identifier: Apache-2.0
// One recording on disk while it is written: chunks behind one another, the index at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "recording/chunk.h"

namespace forestall::recording {

// Thread rule: one thread. Every write goes to a known offset: one that fails half way, because the
// disk is full, is done again at the same place, and what a reader finds until then is a file that
// is cut.
class FileWriter {
 public:
  // A new file, its header written, readable by its owner alone: it names processes and pods.
  // `at`: directory `path` starts from, AT_FDCWD for the current one. An existing file is an error
  // (EEXIST) unless `overwrite`.
  [[nodiscard]] static Result<FileWriter> create(int at, const std::string& path,
                                                 std::string_view facts, bool overwrite);

  // Appends what `chunk` holds. On failure the file is as it was.
  [[nodiscard]] Result<void> write(ChunkBuilder& chunk);
  // What was written is on disk afterwards.
  [[nodiscard]] Result<void> sync();
  // Index and trailer; nothing can be written afterwards. A file with more chunks than an index
  // takes (half a million) has none, and is read by scanning.
  [[nodiscard]] Result<void> finish();

  // Bytes so far.
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
  std::vector<ChunkPlace> index_;  // of the first kIndexMax of them
};

}  // namespace forestall::recording
