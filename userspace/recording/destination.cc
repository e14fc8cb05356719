// SPDX-License-Identifier: Apache-2.0
#include "recording/destination.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace forestall::recording {
namespace {

// Number of segments in a ring: deleting one loses an eighth of the history.
constexpr std::uint64_t kSegments = 8;

// Makes the file's name durable along with its contents. A failure is not fatal: the recording
// continues.
void sync_directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) ::fsync(fd.get());
}

}  // namespace

Result<Destination> Destination::open(const Target& target, std::string facts) {
  if (!target.size_max) {
    FileWriter file = TRY(FileWriter::create(AT_FDCWD, target.path, facts, target.overwrite));
    sync_directory_of(target.path);
    Destination made(std::move(file), std::move(facts));
    made.file_max_ = target.file_max;
    return made;
  }
  if (*target.size_max < kSizeMin) {
    return Error{EINVAL, "recording in " + target.path + ": a size of " +
                             std::to_string(target.size_max->count) +
                             " bytes is less than the minimum of " +
                             std::to_string(kSizeMin.count)};
  }
  Segments segments = TRY(Segments::open(target.path, *target.size_max));
  FileWriter file = TRY(segments.next(facts));
  Destination made(std::move(file), std::move(facts));
  made.segments_.emplace(std::move(segments));
  made.segment_size_ = static_cast<std::uint64_t>(target.size_max->count) / kSegments;
  return made;
}

Result<void> Destination::write(ChunkBuilder& chunk) {
  // An upper bound: the raw size, plus index and trailer.
  const std::uint64_t size = chunk.raw_size() + 2 * kChunkHeaderSize;
  if (segments_) {
    segments_->make_room(file_.size(), size);
  } else if (file_.size() + size > static_cast<std::uint64_t>(file_max_.count)) {
    return Error{EFBIG, "the recording has reached its limit of " +
                            std::to_string(file_max_.count) + " bytes"};
  }
  return file_.write(chunk);
}

bool Destination::is_full() const {
  return segments_ && file_.size() >= segment_size_;
}

Result<void> Destination::begin_next() {
  segments_->make_room(file_.size(), kFileHeaderSize + facts_.size());
  const std::uint64_t ended = segments_->current();
  FileWriter next = TRY(segments_->next(facts_));
  // Without an index, readers scan the segment.
  (void)file_.finish();
  segments_->close(ended, file_.size());
  closed_bytes_ += file_.size();
  closed_chunks_ += file_.chunks();
  ++files_;
  file_ = std::move(next);
  return {};
}

Result<void> Destination::finish() {
  return file_.finish();
}

}  // namespace forestall::recording
