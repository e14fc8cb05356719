// SPDX-License-Identifier: Apache-2.0
#include "sources/watched_cgroups.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "bpf/abi/watch.h"

namespace forestall::sources {
namespace {

// The readers of both trees (held_tree.h), and those of all sources that can watch one cgroup.
constexpr std::size_t kDescriptorsEach = 20;

}  // namespace

std::string share_of(std::string_view glob, std::string_view path) {
  const auto open = glob.find_first_of("*?[\\");
  if (open == std::string_view::npos) return std::string(path);
  const auto component = glob.rfind('/', open);
  if (component == std::string_view::npos) return std::string(path);
  return std::string(path.substr(0, path.find('/', component + 1)));
}

std::vector<std::string> fair_choice(std::vector<MatchedCgroup> matched, std::size_t max) {
  std::ranges::sort(matched, {}, [](const MatchedCgroup& each) {
    return std::pair(std::string_view(each.share), each.inode);
  });
  // Position in its share, and age.
  std::vector<std::pair<std::pair<std::size_t, std::uint64_t>, std::size_t>> order;
  order.reserve(matched.size());
  for (std::size_t i = 0; i < matched.size(); ++i) {
    const bool first = i == 0 || matched[i].share != matched[i - 1].share;
    const std::size_t position = first ? 0 : order.back().first.first + 1;
    order.push_back({{position, matched[i].inode}, i});
  }
  std::ranges::sort(order);
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < std::min(max, order.size()); ++i) {
    chosen.push_back(std::move(matched[order[i].second].path));
  }
  std::ranges::sort(chosen);
  return chosen;
}

// The pods cgroup has a slot of its own.
static_assert(kWatchedCgroupsMax == ABI_WATCH_SLOTS - ABI_WATCH_CGROUPS - 1);

std::size_t watched_cgroups_max(std::optional<std::uint32_t> configured) {
  const std::size_t most = std::min(configured.value_or(kWatchedCgroupsMax), kWatchedCgroupsMax);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  // Workloads have half of the descriptors, kills the rest.
  const auto files = static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) / 4;
  return std::min(files / kDescriptorsEach, most);
}

void bound_watched(const kernel::CgroupTree& tree, const Config& config,
                   std::vector<std::vector<std::string>>& paths, std::vector<SourceNote>& notes) {
  std::map<std::string, std::string> shares;  // by path
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (const auto& path : paths[i]) {
      shares.try_emplace(path, share_of(config.thresholds[i].cgroup, path));
    }
  }
  const std::size_t max = watched_cgroups_max(config.watched_cgroups_max);
  if (shares.size() <= max) return;
  std::vector<MatchedCgroup> matched;
  for (auto& [path, share] : shares) {
    struct stat found {};
    const std::string relative = path == "/" ? "." : path.substr(1);
    if (::fstatat(tree.memory_fd(), relative.c_str(), &found, 0) != 0) continue;  // removed since
    matched.push_back({path, std::move(share), found.st_ino});
  }
  // A power of two, so that a tenant that creates cgroups does not fill the log.
  notes.push_back(
      {"watched cgroups",
       fmt::format("at least {} that match a threshold are not watched: at most {} are, within {}",
                   std::bit_floor(shares.size() - max), max,
                   max == config.watched_cgroups_max
                       ? "watchedCgroupsMax; narrow the thresholds or raise it"
                       : "the limit of open files; narrow the thresholds or raise LimitNOFILE")});
  const auto chosen = fair_choice(std::move(matched), max);
  for (auto& each : paths) {
    std::erase_if(each,
                  [&](const auto& path) { return !std::ranges::binary_search(chosen, path); });
  }
}

}  // namespace forestall::sources
