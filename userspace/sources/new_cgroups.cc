// SPDX-License-Identifier: Apache-2.0
#include "sources/new_cgroups.h"

#include <fnmatch.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <utility>

namespace forestall::sources {
namespace {

constexpr std::uint32_t kEvents = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW;

// For each part of each glob, the glob of the directories that it is matched in. Sorted, so from
// the root downwards: a directory that appears meanwhile is reported by the one above it. Many
// globs share their first parts.
std::set<std::pair<std::string, std::string>> places_of(std::span<const std::string> globs) {
  std::set<std::pair<std::string, std::string>> places;
  for (const std::string& glob : globs) {
    for (std::size_t slash = 0; slash < glob.size();) {
      const std::size_t end = std::min(glob.find('/', slash + 1), glob.size());
      places.emplace(slash == 0 ? "/" : glob.substr(0, slash),
                     glob.substr(slash + 1, end - slash - 1));
      slash = end;
    }
  }
  return places;
}

}  // namespace

void NewCgroups::watch(const kernel::CgroupTree& tree, std::span<const std::string> globs) {
  if (!inotify_) inotify_ = UniqueFd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  all_watched_ = inotify_.valid();
  if (!inotify_) return;
  (void)any();  // of the last listing
  came_.clear();
  lost_ = false;
  const auto before = std::exchange(parts_, {});
  for (const auto& [directories, part] : places_of(globs)) watch_all(tree, directories, part);
  // kernfs keeps the watch of a removed directory until it is removed itself.
  for (const auto& [watch, part] : before) {
    if (!parts_.contains(watch)) ::inotify_rm_watch(inotify_.get(), watch);
  }
}

void NewCgroups::watch_all(const kernel::CgroupTree& tree, const std::string& directories,
                           const std::string& part) {
  std::vector<std::string> found;
  // After an error, those that were found.
  if (!tree.match(directories, found)) all_watched_ = false;
  for (const std::string& each : found) watch_directory(tree, each, part);
}

void NewCgroups::watch_directory(const kernel::CgroupTree& tree, const std::string& directory,
                                 const std::string& part) {
  if (parts_.size() >= kWatchesMax) {
    all_watched_ = false;
    return;
  }
  const std::string place = tree.memory_mount() + directory;
  const int watch = ::inotify_add_watch(inotify_.get(), place.c_str(), kEvents);
  if (watch < 0) {
    // Nothing comes in a directory that was removed.
    all_watched_ = all_watched_ && (errno == ENOENT || errno == ENODEV);
    return;
  }
  const auto [first, last] = parts_.equal_range(watch);
  const bool known =
      std::any_of(first, last, [&](const auto& each) { return each.second.part == part; });
  if (!known) parts_.emplace(watch, Part{directory == "/" ? "" : directory, part});
}

void NewCgroups::note(int watch, const char* name) {
  if (lost_) return;
  const auto [first, last] = parts_.equal_range(watch);
  const auto part = std::find_if(first, last, [&](const auto& each) {
    return ::fnmatch(each.second.part.c_str(), name, 0) == 0;
  });
  if (part == last) return;
  std::string path = part->second.directory + "/" + name;
  if (std::ranges::find(came_, path) != came_.end()) return;
  lost_ = lost_ || came_.size() >= kNamedMax;
  if (!lost_) came_.push_back(std::move(path));
}

bool NewCgroups::any() {
  alignas(inotify_event) std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got <= 0) return lost_ || !came_.empty();  // EAGAIN: these were all
    for (ssize_t offset = 0; offset < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + offset);
      offset += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      lost_ = lost_ || (event->mask & IN_Q_OVERFLOW) != 0;
      if (event->len > 0) note(event->wd, event->name);
    }
  }
}

std::optional<std::span<const std::string>> NewCgroups::created() {
  (void)any();
  if (!all_watched_ || lost_) return std::nullopt;
  return came_;
}

}  // namespace forestall::sources
