// SPDX-License-Identifier: Apache-2.0
#include "sources/rule_selection.h"

#include <algorithm>
#include <iterator>

#include "rulesets/cgroup_pattern.h"

namespace forestall::sources {
namespace {

using rulesets::Item;
using rulesets::Items;

bool is_glob(const std::string& component) {
  return component.find_first_of("*?[{\\") != std::string::npos;
}

std::string last_component(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// From the nearest one up to the child of the root, until `visit` returns false.
template <typename Visit>
void each_ancestor(const std::string& path, Visit visit) {
  std::size_t slash = path.rfind('/');
  for (; slash != 0 && slash != std::string::npos; slash = path.rfind('/', slash - 1)) {
    if (!visit(path.substr(0, slash))) return;
  }
}

}  // namespace

std::string child_path(const std::string& parent, const std::string& name) {
  return (parent == "/" ? "" : parent) + "/" + name;
}

void RuleSelection::select(const std::vector<rulesets::RuleNeed>& needs) {
  double patterns = 0;
  for (const rulesets::RuleNeed& need : needs) patterns += static_cast<double>(need.cgroups.size());
  for (const rulesets::RuleNeed& need : needs) {
    for (const rulesets::CgroupPattern& pattern : need.cgroups) {
      expand("/", pattern, 0, need, 1 / patterns);
    }
  }
  descend_all();
  for (const Descent& each : descents_) settle(each);
  add_protections();
  add_ancestors();
}

void RuleSelection::expand(const std::string& path, const rulesets::CgroupPattern& pattern,
                           std::size_t next, const rulesets::RuleNeed& need, double share) {
  if (next == pattern.components.size()) {
    if (add(path, need.items) && need.descend) descents_.push_back({path, need.items, share});
    return;
  }
  const std::string& component = pattern.components[next];
  std::vector<std::string> matches;
  if (!is_glob(component)) {
    const std::string child = child_path(path, component);
    if (lister_.exists(child)) matches.push_back(child);
  } else {
    std::ranges::copy_if(children_of(path), std::back_inserter(matches), [&](const auto& child) {
      return rulesets::component_matches(component, last_component(child));
    });
  }
  for (const std::string& match : matches) {
    expand(match, pattern, next + 1, need, share / static_cast<double>(matches.size()));
  }
}

// What one descent leaves of its share is for those after it.
void RuleSelection::descend_all() {
  double shares = 0;
  for (const Descent& each : descents_) shares += each.share;
  for (const Descent& each : descents_) {
    const double part = shares > 0 ? std::min(each.share / shares, 1.0) : 0;
    const auto with_part = [&](std::size_t used, std::size_t limit) {
      const std::size_t left = limit - std::min(used, limit);
      return used + static_cast<std::size_t>(part * static_cast<double>(left));
    };
    descend(each,
            {with_part(selected_.size(), kCgroupsMax), with_part(children_.size(), kListedMax)});
    shares -= each.share;
  }
}

// Many descendants of one cgroup must not make its siblings parts of a candidate: only the smallest
// cgroup that has them is a candidate as a whole. Large ones come last, because they may use up
// what is left. The children of the top are always listed, so that it is not the smallest.
void RuleSelection::descend(const Descent& descent, const Limits& limits) {
  std::vector<std::string> large;
  if (!add_subtree(descent.top, descent.items, limits)) large.push_back(descent.top);
  for (std::size_t i = 0; i < large.size(); ++i) {
    const std::string path = large[i];
    if (i != 0 && (i >= kLargeMax || !may_list(path, limits))) continue;
    const std::vector<std::string>& children = children_of(path);
    const bool fits = children.size() <= kDescendantsMax && fit(children, limits);
    if (!fits && path != "/") continue;
    // All of them before a part of one: they are candidates beside each other.
    for (const std::string& child : children) static_cast<void>(add(child, descent.items));
    for (const std::string& child : children) {
      if (!add_subtree(child, descent.items, limits)) large.push_back(child);
    }
  }
}

// After all descents: what was beyond the share of one may have been selected for another.
void RuleSelection::settle(const Descent& descent) {
  std::vector<std::string> paths{descent.top};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string path = paths[i];
    const auto listed = children_.find(path);
    const auto is_selected = [&](const std::string& each) { return selected_.contains(each); };
    const bool in_parts =
        listed != children_.end() && std::ranges::all_of(listed->second, is_selected);
    if (!in_parts && path != "/") selected_[path].whole = true;
    if (listed == children_.end() || selected_[path].whole) continue;
    for (const std::string& child : listed->second) {
      if (!is_selected(child)) continue;
      selected_[child].items |= descent.items;
      paths.push_back(child);
    }
  }
}

// Protection is shared among siblings: memory.min and memory.low of all of them count, up to the
// top.
void RuleSelection::add_protections() {
  if (version_ == kernel::CgroupVersion::v1) return;
  std::vector<std::string> parents;
  for (const auto& [path, selected] : selected_) {
    if (!selected.items.has(Item::protection)) continue;
    each_ancestor(path, [&](std::string parent) {
      parents.push_back(std::move(parent));
      return true;
    });
  }
  std::ranges::sort(parents);
  parents.erase(std::unique(parents.begin(), parents.end()), parents.end());
  const Items items = Items(Item::protection) | Item::usage;
  for (const std::string& parent : parents) {
    static_cast<void>(add(parent, items));
    for (const std::string& child : children_of(parent)) static_cast<void>(add(child, items));
  }
}

void RuleSelection::add_ancestors() {
  std::vector<std::string> paths;
  for (const auto& [path, selected] : selected_) paths.push_back(path);
  for (const std::string& path : paths) {
    selected_["/"];
    each_ancestor(path,
                  [&](const std::string& parent) { return selected_.try_emplace(parent).second; });
  }
}

bool RuleSelection::add(const std::string& path, Items items) {
  const auto known = selected_.find(path);
  if (known == selected_.end() && selected_.size() >= kCgroupsMax) {
    incomplete_ = true;
    return false;
  }
  selected_[path].items |= items;
  return true;
}

bool RuleSelection::add_subtree(const std::string& top, Items items, const Limits& limits) {
  std::vector<std::string> found;
  if (!subtree(top, limits, found) || !fit(found, limits)) return false;
  for (const std::string& path : found) static_cast<void>(add(path, items));
  return true;
}

bool RuleSelection::fit(const std::vector<std::string>& paths, const Limits& limits) const {
  const auto fresh = std::ranges::count_if(
      paths, [&](const std::string& path) { return !selected_.contains(path); });
  return selected_.size() + static_cast<std::size_t>(fresh) <= limits.selected;
}

bool RuleSelection::subtree(const std::string& top, const Limits& limits,
                            std::vector<std::string>& found) {
  found = {top};
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!may_list(found[i], limits)) return false;
    for (const std::string& child : children_of(found[i])) found.push_back(child);
    if (found.size() > kDescendantsMax + 1) return false;
  }
  return true;
}

bool RuleSelection::may_list(const std::string& path, const Limits& limits) const {
  return children_.size() < limits.listed || children_.contains(path);
}

const std::vector<std::string>& RuleSelection::children_of(const std::string& path) {
  const auto [known, is_new] = children_.try_emplace(path);
  if (is_new) {
    for (const std::string& name : lister_.children(path)) {
      known->second.push_back(child_path(path, name));
    }
  }
  return known->second;
}

}  // namespace forestall::sources
