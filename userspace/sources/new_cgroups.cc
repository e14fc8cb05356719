// SPDX-License-Identifier: Apache-2.0
#include "sources/new_cgroups.h"

#include <fnmatch.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
  if (!inotify_) return;
  (void)any();  // of the last listing
  came_ = false;
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
  (void)tree.match(directories, found);  // after an error, those that were found
  for (const std::string& each : found) watch_directory(tree.memory_mount() + each, part);
}

void NewCgroups::watch_directory(const std::string& directory, const std::string& part) {
  if (parts_.size() >= kWatchesMax) return;
  const int watch = ::inotify_add_watch(inotify_.get(), directory.c_str(), kEvents);
  if (watch < 0) return;
  const auto [first, last] = parts_.equal_range(watch);
  const bool known =
      std::any_of(first, last, [&](const auto& each) { return each.second == part; });
  if (!known) parts_.emplace(watch, part);
}

bool NewCgroups::is_wanted(int directory, const char* name) const {
  const auto [first, last] = parts_.equal_range(directory);
  return std::any_of(
      first, last, [&](const auto& each) { return ::fnmatch(each.second.c_str(), name, 0) == 0; });
}

bool NewCgroups::any() {
  alignas(inotify_event) std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got <= 0) return came_;  // EAGAIN: these were all
    for (ssize_t offset = 0; offset < got && !came_;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + offset);
      offset += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      came_ = (event->mask & IN_Q_OVERFLOW) != 0 ||
              (event->len > 0 && is_wanted(event->wd, event->name));
    }
  }
}

}  // namespace forestall::sources
