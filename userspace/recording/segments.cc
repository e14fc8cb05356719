// SPDX-License-Identifier: Apache-2.0
#include "recording/segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "base/parse.h"

namespace forestall::recording {
namespace {

constexpr std::string_view kPrefix = "segment-";
constexpr std::string_view kSuffix = ".rec";
constexpr std::size_t kDigits = 10;

std::string segment_name(std::uint64_t number) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "segment-%010llu.rec",
                static_cast<unsigned long long>(number));
  return text.data();
}

struct DirectoryDeleter {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

Result<std::vector<std::uint64_t>> numbers_in(const std::string& path) {
  const std::unique_ptr<DIR, DirectoryDeleter> directory(::opendir(path.c_str()));
  if (directory == nullptr) return errno_error("opendir", path);
  std::vector<std::uint64_t> numbers;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (const auto number = segment_number(entry->d_name)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

std::optional<std::uint64_t> segment_number(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  if (name.size() < kPrefix.size() + kDigits + kSuffix.size()) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  // Leading zeros only pad to kDigits.
  if (name.size() > kDigits && name.front() == '0') return std::nullopt;
  return parse_u64(name);
}

Result<std::vector<std::string>> segment_names(const std::string& directory) {
  std::vector<std::string> names;
  for (const std::uint64_t number : TRY(numbers_in(directory))) {
    names.push_back(segment_name(number));
  }
  return names;
}

Result<Segments> Segments::open(const std::string& directory, Bytes size_max) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return errno_error("mkdir", directory);
  }
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error("open", directory);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK
               ? Error{EBUSY, directory + ": another recording is being written there"}
               : errno_error("flock", directory);
  }
  Segments segments(std::move(fd), directory, size_max);
  for (const std::uint64_t number : TRY(numbers_in(directory))) {
    segments.last_number_ = number;
    struct stat file {};
    const std::string name = segment_name(number);
    if (::fstatat(segments.directory_.get(), name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(file.st_mode)) {
      continue;
    }
    segments.closed_.push_back({number, static_cast<std::uint64_t>(file.st_size)});
    segments.closed_size_ += static_cast<std::uint64_t>(file.st_size);
  }
  return segments;
}

Result<FileWriter> Segments::make(std::string_view facts) {
  return FileWriter::create(directory_.get(), segment_name(last_number_ + 1), facts,
                            /*overwrite=*/false);
}

// Another program created a file with that name, or the directory was removed and recreated.
// Retrying with the same number would fail again.
Result<void> Segments::open_again() {
  const std::uint64_t current = last_number_;
  directory_.reset();  // also releases the lock
  Segments found = TRY(open(path_, size_max_));
  found.removed_ = removed_;
  std::erase_if(found.closed_, [&](const Segment& each) {
    if (each.number != current) return false;
    found.closed_size_ -= each.size;
    return true;
  });
  *this = std::move(found);
  return {};
}

Result<FileWriter> Segments::next(std::string_view facts) {
  if (!directory_) TRY(open_again());
  make_room(0, kFileHeaderSize + facts.size());
  auto made = make(facts);
  if (!made && (made.error().code == EEXIST || made.error().code == ENOENT)) {
    TRY(open_again());
    made = make(facts);
  }
  if (!made) return made.error().in(path_);
  ++last_number_;
  // Makes the name durable. Without it, a crash would lose at most this segment.
  ::fsync(directory_.get());
  return made;
}

void Segments::make_room(std::uint64_t current_size, std::uint64_t size) {
  const auto limit = static_cast<std::uint64_t>(size_max_.count);
  while (closed_size_ + current_size + size > limit && remove_oldest()) {
  }
}

bool Segments::remove_oldest() {
  for (auto each = closed_.begin(); each != closed_.end(); ++each) {
    const bool gone = ::unlinkat(directory_.get(), segment_name(each->number).c_str(), 0) == 0;
    if (!gone && errno != ENOENT) continue;
    ++removed_;
    closed_size_ -= each->size;
    closed_.erase(each);
    return true;
  }
  return false;
}

void Segments::close(std::uint64_t number, std::uint64_t size) {
  closed_.push_back({number, size});
  closed_size_ += size;
}

}  // namespace forestall::recording
