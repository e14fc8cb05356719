// SPDX-License-Identifier: Apache-2.0
#include "model/rule_observation.h"

#include <algorithm>

namespace forestall::rulesets {
namespace {

auto at_or_after(const std::vector<Cgroup>& cgroups, std::string_view path) {
  return std::lower_bound(
      cgroups.begin(), cgroups.end(), path,
      [](const Cgroup& each, std::string_view wanted) { return each.path < wanted; });
}

}  // namespace

const std::optional<PressureFile>& pressure_file(const Cgroup& cgroup, PressureResource resource) {
  switch (resource) {
    case PressureResource::memory: break;
    case PressureResource::io: return cgroup.io_pressure;
    case PressureResource::cpu: return cgroup.cpu_pressure;
  }
  return cgroup.memory_pressure;
}

const std::string* Cgroup::xattr(std::string_view name) const {
  for (const auto& [key, value] : xattrs) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::optional<std::int64_t> Host::total_swap() const {
  return swaps_total ? swaps_total : swap_total;
}

std::optional<std::int64_t> Host::used_swap() const {
  if (swaps_used) return swaps_used;
  if (swap_total && swap_free) return *swap_total - *swap_free;
  return std::nullopt;
}

const Cgroup* RuleObservation::find(std::string_view path) const {
  const auto found = at_or_after(cgroups, path);
  return found != cgroups.end() && found->path == path ? &*found : nullptr;
}

bool RuleObservation::is_deferred(const std::string& ruleset) const {
  return std::ranges::binary_search(deferred, ruleset);
}

std::vector<const Cgroup*> RuleObservation::children(const Cgroup& parent) const {
  const std::string prefix = is_root(parent) ? "/" : parent.path + "/";
  std::vector<const Cgroup*> found;
  for (auto each = at_or_after(cgroups, prefix); each != cgroups.end(); ++each) {
    if (!each->path.starts_with(prefix)) break;
    const bool is_child = each->path.size() > prefix.size() &&
                          each->path.find('/', prefix.size()) == std::string::npos;
    if (is_child) found.push_back(&*each);
  }
  return found;
}

const Cgroup* RuleObservation::parent(const Cgroup& cgroup) const {
  if (is_root(cgroup)) return nullptr;
  const std::size_t slash = cgroup.path.rfind('/');
  return find(slash == 0 ? "/" : std::string_view(cgroup.path).substr(0, slash));
}

std::optional<std::int64_t> RuleObservation::usage(const Cgroup& cgroup) const {
  if (is_root(cgroup) && host.mem_total && host.mem_free) return *host.mem_total - *host.mem_free;
  return cgroup.current;
}

}  // namespace forestall::rulesets
