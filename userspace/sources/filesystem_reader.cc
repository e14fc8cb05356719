// SPDX-License-Identifier: Apache-2.0
#include "sources/filesystem_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <limits>

#include "kernel/held_file.h"
#include "kernel/mount_table.h"

namespace forestall::sources {
namespace {

constexpr const char* kServed = "not read: it is a network or FUSE filesystem";

std::int64_t saturated(unsigned __int128 amount) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  return amount > kMax ? kMax : static_cast<std::int64_t>(amount);
}

// A filesystem without a fixed number of inodes (btrfs) has f_files 0: unknown, not none.
FilesystemSample to_sample(const struct statfs& got, MonotonicTime now) {
  const auto unit = static_cast<unsigned __int128>(got.f_frsize > 0 ? got.f_frsize : got.f_bsize);
  FilesystemSample sample;
  sample.available = Bytes{saturated(got.f_bavail * unit)};
  sample.capacity = Bytes{saturated(got.f_blocks * unit)};
  if (got.f_files > 0) {
    sample.inodes_free = saturated(got.f_ffree);
    sample.inodes = saturated(got.f_files);
  }
  sample.at = now;
  return sample;
}

// Whether the mount table shows that `path` must not be accessed. Without a table, f_type decides
// after the open.
bool is_served(const std::string& proc, const std::string& path) {
  const auto name = proc + "/self/mountinfo";
  const auto table = kernel::HeldFile::open(AT_FDCWD, name.c_str(), name);
  if (!table) return false;
  std::string buffer;
  const auto text = table->read(buffer);
  if (!text) return false;
  const auto type = kernel::mounted_type(*text, path);
  return type && !kernel::answers_locally(*type);
}

}  // namespace

FilesystemReader::FilesystemReader(FilesystemPlaces places, std::string proc)
    : places_(std::move(places)), proc_(std::move(proc)) {
  name_places();
}

void FilesystemReader::configure(const FilesystemPlaces& places) {
  if (places == places_) return;
  places_ = places;
  layout_.reset();
  name_places();
}

void FilesystemReader::discovered(std::string imagefs, std::string containerfs) {
  runtime_answered_ = true;
  runtime_imagefs_ = std::move(imagefs);
  runtime_containerfs_ = std::move(containerfs);
  name_places();
}

void FilesystemReader::name_places() {
  const auto name = [](FilesystemPlace& place, const std::string& path) {
    if (place.path == path) return;
    place = {};
    place.path = path;
  };
  name(nodefs_, places_.nodefs);
  nodefs_.expected = places_.nodefs != FilesystemPlaces{}.nodefs;
  name(imagefs_, places_.imagefs.empty() ? runtime_imagefs_ : places_.imagefs);
  // The runtime's containerfs is valid only together with its imagefs.
  const bool of_runtime = places_.containerfs.empty() && places_.imagefs.empty();
  name(containerfs_, of_runtime ? runtime_containerfs_ : places_.containerfs);
}

void FilesystemReader::open(FilesystemPlace& place, std::vector<SourceNote>& notes) {
  if (place.path.empty()) return;
  if (!place.directory && is_served(proc_, place.path)) {
    notes.push_back({place.path, kServed});
    return;
  }
  UniqueFd directory(::open(place.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat found {};
  struct statfs type {};
  if (!directory || ::fstat(directory.get(), &found) != 0) {
    const Error failure = errno_error("open", place.path);
    place.directory.reset();
    if (place.expected || failure.code != ENOENT) notes.push_back({place.path, failure.text()});
    return;
  }
  const bool same = found.st_dev == place.device && found.st_ino == place.inode;
  if (place.directory && same) return;
  place.directory.reset();
  if (::fstatfs(directory.get(), &type) == 0 && !kernel::answers_locally(type.f_type)) {
    notes.push_back({place.path, kServed});
    return;
  }
  place.directory = std::move(directory);
  place.device = found.st_dev;
  place.inode = found.st_ino;
}

void FilesystemReader::refresh(std::vector<SourceNote>& notes) {
  open(nodefs_, notes);
  open(imagefs_, notes);
  open(containerfs_, notes);
  if (!layout_) decide_layout(notes);
}

const FilesystemReader::FilesystemPlace* FilesystemReader::place_of(Filesystem filesystem) const {
  if (filesystem == Filesystem::nodefs) return &nodefs_;
  if (filesystem == Filesystem::containerfs && !containerfs_.path.empty()) return &containerfs_;
  if (!imagefs_.path.empty()) return &imagefs_;
  const bool runtime_pending = !places_.runtime.empty() && !runtime_answered_;
  return runtime_pending ? nullptr : &nodefs_;
}

bool FilesystemReader::has(Filesystem filesystem) const {
  const FilesystemPlace* place = place_of(filesystem);
  return place != nullptr && place->directory;
}

// As in pkg/kubelet/eviction/eviction_manager.go and helpers.go UpdateContainerFsThresholds:
// writable layers on another filesystem than images make a split layout; images on another
// filesystem than kubelet make an imagefs layout.
void FilesystemReader::decide_layout(std::vector<SourceNote>& notes) {
  const FilesystemPlace* images = place_of(Filesystem::imagefs);
  const FilesystemPlace* layers = place_of(Filesystem::containerfs);
  if (images == nullptr || layers == nullptr) return;
  if (!nodefs_.directory || !images->directory || !layers->directory) return;
  if (layers->device == images->device) {
    const bool apart = images->device != nodefs_.device;
    layout_ = apart ? FilesystemLayout::imagefs : FilesystemLayout::single;
    return;
  }
  layout_ = FilesystemLayout::split;
  if (layers->device != nodefs_.device) {
    notes.push_back({layers->path,
                     "writable layers are on neither kubelet's filesystem nor that of the images; "
                     "treated as the split layout, as kubelet does"});
  }
}

std::optional<FilesystemSample> FilesystemReader::read(Filesystem filesystem, MonotonicTime now,
                                                       std::vector<SourceNote>& notes) const {
  const FilesystemPlace* place = place_of(filesystem);
  if (place == nullptr || !place->directory) return std::nullopt;
  struct statfs got {};
  if (::fstatfs(place->directory.get(), &got) != 0) {
    notes.push_back({place->path, errno_error("fstatfs", place->path).text()});
    return std::nullopt;
  }
  return to_sample(got, now);
}

FilesystemSamples FilesystemReader::read(MonotonicTime now, std::vector<SourceNote>& notes) const {
  FilesystemSamples samples;
  samples.layout = layout_;
  samples.nodefs = read(Filesystem::nodefs, now, notes);
  // Filesystems that share a place get the same sample, exactly.
  const auto sample_of = [&](Filesystem filesystem) {
    const FilesystemPlace* place = place_of(filesystem);
    if (place == &nodefs_) return samples.nodefs;
    if (filesystem == Filesystem::containerfs && place == &imagefs_) return samples.imagefs;
    return read(filesystem, now, notes);
  };
  samples.imagefs = sample_of(Filesystem::imagefs);
  samples.containerfs = sample_of(Filesystem::containerfs);
  return samples;
}

}  // namespace forestall::sources
