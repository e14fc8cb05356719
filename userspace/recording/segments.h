// SPDX-License-Identifier: Apache-2.0
// A recording without end on a disk that has one: a directory of files, of which the oldest goes
// when a new one needs its place.
//
// Each is a recording by itself that begins with a key, so any of them can be read alone. They are
// numbered, not named for the time: clocks are set back. Only files of these names are ever
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

// Names of a directory's segments, oldest first.
[[nodiscard]] Result<std::vector<std::string>> segment_names(const std::string& directory);

// Whether `name` is one of them: "segment-0000000042.rec".
[[nodiscard]] std::optional<std::uint64_t> segment_number(std::string_view name);

// Thread rule: one thread.
class Segments {
 public:
  // The directory is made if it is missing (its parent is not), for its owner alone. What earlier
  // runs left counts towards `size_max`. Errors: EBUSY while another recording is made there, which
  // would lose its segments to this one; those of the file system.
  [[nodiscard]] static Result<Segments> open(const std::string& directory, Bytes size_max);

  // A new file, numbered after all that were there.
  [[nodiscard]] Result<FileWriter> next(std::string_view facts);
  // Removes oldest segments, never the current one, until `size` more bytes than the current one
  // has fit. Segments that cannot be removed stay and are counted on.
  void make_room(std::uint64_t current_size, std::uint64_t size);
  // Whether to try again what failed: the disk is full, for which the oldest segment went. Others
  // may leave less room than is allowed here, and the latest counts most.
  [[nodiscard]] bool make_room_after(const Error& failure);
  // The number of the current one.
  [[nodiscard]] std::uint64_t current() const { return last_number_; }
  // The one with that number is complete, with so many bytes.
  void close(std::uint64_t number, std::uint64_t size);

  [[nodiscard]] std::uint64_t removed() const { return removed_; }

 private:
  // The oldest that can be removed, never the current one. False: there is none.
  bool remove_oldest();

  struct Segment {
    std::uint64_t number = 0;
    std::uint64_t size = 0;
  };

  Segments(UniqueFd directory, std::string path, Bytes size_max)
      : directory_(std::move(directory)), path_(std::move(path)), size_max_(size_max) {}

  [[nodiscard]] Result<FileWriter> make(std::string_view facts);
  [[nodiscard]] Result<void> look_again();

  UniqueFd directory_;
  std::string path_;
  Bytes size_max_;
  std::deque<Segment> closed_;  // oldest first
  std::uint64_t closed_size_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t removed_ = 0;
};

}  // namespace forestall::recording
