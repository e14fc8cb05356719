// SPDX-License-Identifier: Apache-2.0
// Destination of a writer's chunks: one file, or a directory of segments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "recording/chunk.h"
#include "recording/file_writer.h"
#include "recording/segments.h"

namespace forestall::recording {

struct Target {
  std::string path;        // of the file; with `size_max`, of the directory
  bool overwrite = false;  // replaces an existing file
  // Set: a directory of segments whose total size stays within this. At least kSizeMin.
  std::optional<Bytes> size_max = std::nullopt;
  // The limit of a single file. Later chunks are refused, so that an agent that is left recording
  // does not fill the disk; what was written stays.
  Bytes file_max = gib(1);
};

// A smaller ring would hold less than one period of pressure.
inline constexpr Bytes kSizeMin = mib(1);

// Thread rule: one thread.
class Destination {
 public:
  // Errors: EINVAL for a size_max below kSizeMin, and file system errors.
  [[nodiscard]] static Result<Destination> open(const Target& target, std::string facts);

  // EFBIG: a single file is at its limit. ENOSPC or EDQUOT: the disk is full. Nothing is deleted
  // for it, not even in a ring: a program that fills the disk must not erase the history, which
  // shows what it did.
  [[nodiscard]] Result<void> write(ChunkBuilder& chunk);
  [[nodiscard]] Result<void> sync() { return file_.sync(); }
  // Whether the next key should start a new segment.
  [[nodiscard]] bool is_full() const;
  // Closes this segment and starts the next. On failure this segment remains in use.
  [[nodiscard]] Result<void> begin_next();
  [[nodiscard]] Result<void> finish();

  // Totals since open(), removed segments included.
  [[nodiscard]] std::uint64_t bytes() const { return closed_bytes_ + file_.size(); }
  [[nodiscard]] std::uint64_t chunks() const { return closed_chunks_ + file_.chunks(); }
  [[nodiscard]] std::uint64_t files() const { return files_; }

 private:
  Destination(FileWriter file, std::string facts)
      : file_(std::move(file)), facts_(std::move(facts)) {}

  FileWriter file_;
  std::string facts_;
  std::optional<Segments> segments_;
  Bytes file_max_{0};
  std::uint64_t segment_size_ = 0;
  std::uint64_t closed_bytes_ = 0;
  std::uint64_t closed_chunks_ = 0;
  std::uint64_t files_ = 1;
};

}  // namespace forestall::recording
