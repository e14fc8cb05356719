// SPDX-License-Identifier: Apache-2.0
// A recording of unlimited duration in limited disk space: a directory of files, whose oldest file
// is deleted when a new one needs space.
//
// Each file is a complete recording that begins with a key, so it can be read alone. Names contain
// numbers instead of times, because clocks can be set back. Files with other names are never
// touched.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "recording/file_writer.h"

namespace forestall::recording {

// Names of the segments in a directory, oldest first.
[[nodiscard]] Result<std::vector<std::string>> segment_names(const std::string& directory);

// The number in a segment's name, such as "segment-0000000042.rec"; nothing: another name.
[[nodiscard]] std::optional<std::uint64_t> segment_number(std::string_view name);

// Thread rule: one thread.
class Segments {
 public:
  // Creates the directory, readable only by its owner, if it is missing (but not its parent).
  // Segments of earlier runs count towards `size_max`. Errors: EBUSY if another recording is being
  // written there, whose segments this one would delete; file system errors.
  [[nodiscard]] static Result<Segments> open(const std::string& directory, Bytes size_max);

  // Creates a file, numbered after all existing ones.
  [[nodiscard]] Result<FileWriter> next(std::string_view facts);
  // Deletes the oldest segments, but never the current one, until `size` more bytes fit into
  // `size_max`. A full disk is no reason to delete: see Destination::write().
  // `current_size` is the size of the current segment. A segment that cannot be deleted remains and
  // still counts.
  void make_room(std::uint64_t current_size, std::uint64_t size);
  // The number of the current segment.
  [[nodiscard]] std::uint64_t current() const { return last_number_; }
  // Marks segment `number` as complete, with `size` bytes.
  void close(std::uint64_t number, std::uint64_t size);

  [[nodiscard]] std::uint64_t removed() const { return removed_; }

 private:
  // Deletes the oldest segment that can be deleted, never the current one. False: there is none.
  bool remove_oldest();

  struct Segment {
    std::uint64_t number = 0;
    std::uint64_t size = 0;
  };

  Segments(UniqueFd directory, std::string path, Bytes size_max)
      : directory_(std::move(directory)), path_(std::move(path)), size_max_(size_max) {}

  [[nodiscard]] Result<FileWriter> make(std::string_view facts);
  [[nodiscard]] Result<void> open_again();

  UniqueFd directory_;
  std::string path_;
  Bytes size_max_;
  std::deque<Segment> closed_;  // oldest first
  std::uint64_t closed_size_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t removed_ = 0;
};

}  // namespace forestall::recording
