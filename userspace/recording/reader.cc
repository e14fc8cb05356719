// SPDX-License-Identifier: Apache-2.0
#include "recording/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace forestall::recording {
namespace {

constexpr std::size_t kWindow = std::size_t{64} << 10;
// Bounds the memory for a file that is damaged everywhere: beyond this number, the last entry
// grows.
constexpr std::size_t kDamagesMax = 1000;

}  // namespace

Result<bool> Reader::is_recording(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return errno_error("open", path);
  // Do not open a pipe: its writer would get SIGPIPE when this reader closes it.
  if (!S_ISREG(file.st_mode)) return false;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("open", path);
  std::string start(kFileMagic.size(), '\0');
  const ssize_t size = ::pread(fd.get(), start.data(), start.size(), 0);
  if (size < 0) return errno_error("read", path);
  return start == kFileMagic;
}

Result<Reader> Reader::open(const std::string& path) {
  // O_NONBLOCK: a pipe is refused below; opening it must not block.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno_error("open", path);
  return open(std::move(fd), path);
}

Result<Reader> Reader::open(UniqueFd fd, std::string name) {
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return errno_error("fstat", name);
  if (!S_ISREG(file.st_mode)) return error(name + ": a recording must be a regular file");
  Reader reader(std::move(fd), std::move(name));
  reader.size_ = static_cast<std::uint64_t>(file.st_size);
  TRY(reader.read_header());
  TRY(reader.find_index());
  return reader;
}

Result<bool> Reader::refresh() {
  if (is_complete()) return false;
  struct stat file {};
  if (::fstat(fd_.get(), &file) != 0) return errno_error("fstat", name_);
  const auto size = static_cast<std::uint64_t>(file.st_size);
  if (size < size_) return error(name_ + ": was truncated by another program");
  if (size == size_) return false;
  size_ = size;
  if (cut_) at_ = cut_->offset;
  cut_.reset();
  TRY(find_index());
  return true;
}

// Returns less than `size` only at the end of the file.
Result<std::string_view> Reader::read_at(std::uint64_t offset, std::size_t size,
                                         std::string& buffer) const {
  if (buffer.size() < size) buffer.resize(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(fd_.get(), buffer.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("read", name_);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return std::string_view(buffer).substr(0, done);
}

Result<void> Reader::read_header() {
  const std::string_view bytes = TRY(read_at(0, kFileHeaderSize, header_bytes_));
  if (bytes.size() < kFileHeaderSize) {
    const bool begins =
        !bytes.empty() && kFileMagic.starts_with(bytes.substr(0, kFileMagic.size()));
    return error(name_ +
                 (begins ? ": the file ends within its header" : ": not a Forestall recording"));
  }
  const auto start = decode_file_start(bytes);
  if (!start) return start.error().in(name_);
  std::string facts;
  const std::string_view read = TRY(read_at(kFileHeaderSize, start->facts_size, facts));
  if (read.size() < start->facts_size) return error(name_ + ": the file ends within its header");
  if (!is_intact(bytes, read, start->crc)) return error(name_ + ": its header is damaged");
  header_ = {start->major, start->minor, std::string(read)};
  first_ = at_ = kFileHeaderSize + start->facts_size;
  return {};
}

// A trailer is valid only if it points to an index.
Result<void> Reader::find_index() {
  if (size_ < first_ + kChunkHeaderSize + kTrailerSize) return {};
  const std::uint64_t at = size_ - kTrailerSize;
  const std::string_view bytes = TRY(read_at(at, kTrailerSize, window_));
  const auto offset = bytes.size() == kTrailerSize ? decode_trailer(bytes) : std::nullopt;
  if (!offset || *offset < first_ || *offset > at - kChunkHeaderSize) return {};
  const auto header = TRY(header_at(*offset));
  if (!header || !header->has(kChunkIndex)) return {};
  if (*offset + kChunkHeaderSize + header->stored_size != at) return {};
  index_offset_ = offset;
  return {};
}

// Nothing: no valid header, or the file ends within it.
Result<std::optional<ChunkHeader>> Reader::header_at(std::uint64_t offset) {
  const std::string_view bytes = TRY(read_at(offset, kChunkHeaderSize, header_bytes_));
  if (bytes.size() < kChunkHeaderSize) return std::optional<ChunkHeader>();
  return decode_chunk_header(bytes);
}

Result<std::optional<Chunk>> Reader::next() {
  while (at_ < end()) {
    const auto header = TRY(header_at(at_));
    if (!header) {
      TRY(pass_damage());
      continue;
    }
    if (header->stored_size > end() - std::min(end(), at_ + kChunkHeaderSize)) {
      end_within(at_);
      break;
    }
    auto chunk = TRY(take_chunk(*header));
    if (chunk) return chunk;
  }
  return std::optional<Chunk>();
}

// Nothing: the chunk was skipped.
Result<std::optional<Chunk>> Reader::take_chunk(const ChunkHeader& header) {
  const std::uint64_t offset = std::exchange(at_, at_ + kChunkHeaderSize + header.stored_size);
  // A gap in the chunk numbers means that chunks were lost.
  const bool hole = sequence_ && header.sequence != *sequence_ + 1;
  sequence_ = header.sequence;
  const std::string_view payload =
      TRY(read_at(offset + kChunkHeaderSize, header.stored_size, payload_));
  if (payload.size() < header.stored_size) {  // the file was truncated meanwhile
    end_within(offset);
    at_ = end();
    return std::optional<Chunk>();
  }
  if (!is_intact(header, header_bytes_, payload)) {
    note_damage(offset, kChunkHeaderSize + header.stored_size, "wrong checksum");
    return std::optional<Chunk>();
  }
  if (header.is_foreign()) {
    ++foreign_chunks_;
    lost_ = true;
    return std::optional<Chunk>();
  }
  if (header.has(kChunkIndex))
    return std::optional<Chunk>();  // from a file that was continued after its index
  const auto raw = decoder_.unpack(header, payload);
  if (!raw) {
    note_damage(offset, kChunkHeaderSize + header.stored_size, raw.error().message);
    return std::optional<Chunk>();
  }
  Chunk chunk{{offset, header.first_ns, header.last_ns, header.count, header.flags},
              header,
              *raw,
              std::exchange(lost_, false) || hole || header.lost_entries > 0};
  return std::optional(chunk);
}

// Skips bytes that are not a chunk, up to the next chunk or the end of the file.
Result<void> Reader::pass_damage() {
  const std::uint64_t from = at_;
  const std::uint64_t found = TRY(find_magic(from + 1));
  at_ = found;
  if (found < end()) {
    note_damage(from, found - from, "not a chunk");
    return {};
  }
  const std::uint64_t left = end() - from;
  const std::string_view rest = TRY(read_at(
      from, static_cast<std::size_t>(std::min<std::uint64_t>(left, kChunkMagic.size())), window_));
  // Whether the last bytes could be the start of a chunk or of the trailer.
  const bool begun = (kChunkMagic.starts_with(rest) && left < kChunkHeaderSize) ||
                     (kTrailerMagic.starts_with(rest) && left < kTrailerSize);
  if (begun && !is_complete()) {
    end_within(from);
  } else {
    note_damage(from, end() - from, "not a chunk");
  }
  return {};
}

// Offset of the next valid header from `from` on; end() if there is none. A magic alone may be part
// of a payload.
Result<std::uint64_t> Reader::find_magic(std::uint64_t from) {
  while (from < end()) {
    const std::string_view window = TRY(read_at(from, kWindow, window_));
    const std::size_t size = window.size();
    // Collects all magics first, because header_at() may reuse the window; a file may be full of
    // magics.
    std::vector<std::size_t> magics;
    for (std::size_t at = window.find(kChunkMagic); at != std::string_view::npos;
         at = window.find(kChunkMagic, at + 1)) {
      magics.push_back(at);
    }
    for (const std::size_t at : magics) {
      if (TRY(header_at(from + at))) return from + at;
    }
    if (size < kWindow) break;
    // A magic may cross the end of the window.
    from += size - kChunkMagic.size() + 1;
  }
  return end();
}

void Reader::end_within(std::uint64_t offset) {
  cut_ = DamagedRange{offset, end() - offset, "the file is truncated here"};
  at_ = end();
}

void Reader::note_damage(std::uint64_t offset, std::uint64_t bytes, std::string problem) {
  lost_ = true;
  if (damages_.size() == kDamagesMax) {
    damages_.back().bytes = offset + bytes - damages_.back().offset;
    return;
  }
  damages_.push_back({offset, bytes, std::move(problem)});
}

// Nothing: the index is not valid.
Result<std::optional<std::vector<ChunkPlace>>> Reader::read_index() {
  using Index = std::optional<std::vector<ChunkPlace>>;
  const auto header = TRY(header_at(*index_offset_));
  if (!header) return Index();
  const std::string_view payload =
      TRY(read_at(*index_offset_ + kChunkHeaderSize, header->stored_size, payload_));
  if (payload.size() < header->stored_size || !is_intact(*header, header_bytes_, payload)) {
    return Index();
  }
  const auto raw = decoder_.unpack(*header, payload);
  if (!raw) return Index();
  auto index = decode_index(*raw);
  if (index && !index->empty() &&
      (index->front().offset < first_ || index->back().offset >= *index_offset_)) {
    return Index();
  }
  return index;
}

Result<std::vector<ChunkPlace>> Reader::places() {
  if (is_complete()) {
    auto index = TRY(read_index());
    if (index) return std::move(*index);
  }
  std::vector<ChunkPlace> places;
  std::uint64_t at = first_;
  while (at < end()) {
    const auto header = TRY(header_at(at));
    if (!header) {
      at = TRY(find_magic(at + 1));
      continue;
    }
    const std::uint64_t next = at + kChunkHeaderSize + header->stored_size;
    if (next > end()) break;
    if (!header->has(kChunkIndex) && !header->is_foreign()) {
      places.push_back({at, header->first_ns, header->last_ns, header->count, header->flags});
    }
    at = next;
  }
  return places;
}

Result<void> Reader::seek(std::int64_t ns) {
  const auto index = TRY(places());
  at_ = first_;
  for (const ChunkPlace& place : index) {
    if (place.first_ns > ns) break;
    if (place.is_key()) at_ = place.offset;
  }
  sequence_.reset();
  lost_ = false;
  cut_.reset();
  return {};
}

}  // namespace forestall::recording
