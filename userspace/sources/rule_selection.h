// SPDX-License-Identifier: Apache-2.0
// Which cgroups are read for rulesets, and which of them are candidates as a whole. Opens no file:
// directories come from a lister.
//
// What a tenant can do to it is make many cgroups. Of a cgroup with more than kDescendantsMax
// descendants, each child is selected by itself. One with more children than that is a candidate as
// a whole, and so is one that does not fit its share of kCgroupsMax: each cgroup whose descendants
// are candidates has an equal one. Other cgroups beyond the limit are left out, and the selection
// is marked as incomplete.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "rulesets/needs.h"

namespace forestall::sources {

// The cgroups that exist. Paths begin with a slash; the root is "/".
class CgroupLister {
 public:
  CgroupLister() = default;
  CgroupLister(const CgroupLister&) = delete;
  CgroupLister& operator=(const CgroupLister&) = delete;
  virtual ~CgroupLister() = default;

  virtual bool exists(const std::string& path) = 0;
  // Names. None of a cgroup that is gone or cannot be read.
  virtual std::vector<std::string> children(const std::string& path) = 0;
};

struct SelectedCgroup {
  rulesets::Items items;
  // Its descendants are candidates, but not all of them are selected: it is killed with them.
  bool whole = false;
};

class RuleSelection {
 public:
  static constexpr std::size_t kCgroupsMax = 8192;
  static constexpr std::size_t kDescendantsMax = 512;
  // Of one cgroup whose descendants are candidates: so many below it may have more than that.
  static constexpr std::size_t kLargeMax = 64;
  // Directories that are listed, besides those that patterns name and those of tops.
  static constexpr std::size_t kListedMax = 2 * kCgroupsMax;

  // `lister` outlives the selection.
  RuleSelection(CgroupLister& lister, kernel::CgroupVersion version)
      : lister_(lister), version_(version) {}

  // Once.
  void select(const std::vector<rulesets::RuleNeed>& needs);

  // By path, with all ancestors.
  [[nodiscard]] const std::map<std::string, SelectedCgroup>& selected() const { return selected_; }
  [[nodiscard]] bool incomplete() const { return incomplete_; }

 private:
  // Its descendants are candidates.
  struct Descent {
    std::string top;
    rulesets::Items items;
    double share = 0;  // of the limits
  };
  // After a descent.
  struct Limits {
    std::size_t selected = 0;
    std::size_t listed = 0;
  };

  void expand(const std::string& path, const rulesets::CgroupPattern& pattern, std::size_t next,
              const rulesets::RuleNeed& need, double share);
  void descend_all();
  void descend(const Descent& descent, const Limits& limits);
  void settle(const Descent& descent);
  void add_protections();
  void add_ancestors();

  // False: kCgroupsMax is reached.
  bool add(const std::string& path, rulesets::Items items);
  // False: it does not fit, or has too many descendants.
  bool add_subtree(const std::string& top, rulesets::Items items, const Limits& limits);
  [[nodiscard]] bool fit(const std::vector<std::string>& paths, const Limits& limits) const;
  // All of it, from the top. False: it has more descendants than are selected.
  bool subtree(const std::string& top, const Limits& limits, std::vector<std::string>& found);
  [[nodiscard]] bool may_list(const std::string& path, const Limits& limits) const;
  // Paths.
  const std::vector<std::string>& children_of(const std::string& path);

  CgroupLister& lister_;
  const kernel::CgroupVersion version_;
  bool incomplete_ = false;
  std::map<std::string, SelectedCgroup> selected_;
  std::vector<Descent> descents_;  // in the order of the needs
  std::map<std::string, std::vector<std::string>> children_;
};

// Of the child `name` of the cgroup `parent`.
[[nodiscard]] std::string child_path(const std::string& parent, const std::string& name);

}  // namespace forestall::sources
