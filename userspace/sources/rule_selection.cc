// SPDX-License-Identifier: Apache-2.0
#include "sources/rule_selection.h"

#include <algorithm>

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

// What one descent leaves of its share is for those after it.
void RuleSelection::select(const std::vector<rulesets::RuleNeed>& needs) {
  for (const rulesets::RuleNeed& need : needs) {
    for (const rulesets::CgroupPattern& pattern : need.cgroups) expand("/", pattern, 0, need);
  }
  for (std::size_t i = 0; i < descents_.size(); ++i) {
    const std::size_t left = kCgroupsMax - std::min(selected_.size(), kCgroupsMax);
    descend(descents_[i], selected_.size() + left / (descents_.size() - i));
  }
  for (const Descent& each : descents_) settle(each);
  add_protections();
  add_ancestors();
}

void RuleSelection::expand(const std::string& path, const rulesets::CgroupPattern& pattern,
                           std::size_t next, const rulesets::RuleNeed& need) {
  if (next == pattern.components.size()) {
    if (add(path, need.items) && need.descend) descents_.push_back({path, need.items});
    return;
  }
  const std::string& component = pattern.components[next];
  if (!is_glob(component)) {
    const std::string child = child_path(path, component);
    if (lister_.exists(child)) expand(child, pattern, next + 1, need);
    return;
  }
  for (const std::string& child : children_of(path)) {
    if (!rulesets::component_matches(component, last_component(child))) continue;
    expand(child, pattern, next + 1, need);
  }
}

// Many descendants of one cgroup must not make its siblings parts of a candidate: only the smallest
// cgroup that has them is a candidate as a whole. Large ones come last, because they may use up
// what is left.
void RuleSelection::descend(const Descent& descent, std::size_t limit) {
  std::vector<std::string> large;
  if (!add_subtree(descent.top, descent.items, limit)) large.push_back(descent.top);
  for (std::size_t i = 0; i < large.size(); ++i) {
    const std::string path = large[i];
    if (i >= kLargeMax || !may_list(path)) continue;
    const std::vector<std::string>& children = children_of(path);
    const bool fits = children.size() <= kDescendantsMax && fit(children, limit);
    if (!fits && path != "/") continue;
    // All of them before a part of one: they are candidates beside each other.
    for (const std::string& child : children) static_cast<void>(add(child, descent.items));
    for (const std::string& child : children) {
      if (!add_subtree(child, descent.items, limit)) large.push_back(child);
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

bool RuleSelection::add_subtree(const std::string& top, Items items, std::size_t limit) {
  std::vector<std::string> found;
  if (!subtree(top, found) || !fit(found, limit)) return false;
  for (const std::string& path : found) static_cast<void>(add(path, items));
  return true;
}

bool RuleSelection::fit(const std::vector<std::string>& paths, std::size_t limit) const {
  const auto fresh = std::ranges::count_if(
      paths, [&](const std::string& path) { return !selected_.contains(path); });
  return selected_.size() + static_cast<std::size_t>(fresh) <= limit;
}

bool RuleSelection::subtree(const std::string& top, std::vector<std::string>& found) {
  found = {top};
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!may_list(found[i])) return false;
    for (const std::string& child : children_of(found[i])) found.push_back(child);
    if (found.size() > kDescendantsMax + 1) return false;
  }
  return true;
}

bool RuleSelection::may_list(const std::string& path) const {
  return children_.size() < kListedMax || children_.contains(path);
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
