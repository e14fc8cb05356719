// SPDX-License-Identifier: Apache-2.0
// Paths are of no use: below about 2,000 levels they exceed PATH_MAX. The walk opens one group at a
// time, relative to its parent, and returns through "..": a cgroup cannot move to another parent.
#include "kernel/cgroup_descent.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace forestall::kernel {
namespace {

// kernfs counts ".", the name in the parent and each subdirectory's "..".
bool may_have_children(const CgroupDir& group) {
  struct stat status {};
  return ::fstat(group.fd(), &status) != 0 || status.st_nlink != 2;
}

Result<CgroupDir> open_parent(const CgroupDir& group) {
  const UniqueFd above(::openat(group.fd(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!above) return errno_error("open the parent of cgroup", group.path());
  return CgroupDir::open(above.get(), "/");
}

// The youngest first, because the walk takes names from the end.
void sort_as_created(const CgroupDir& group, std::vector<std::string>& names) {
  std::vector<std::pair<std::uint64_t, std::string>> children;
  children.reserve(names.size());
  for (auto& name : names) {
    struct stat status {};
    if (::fstatat(group.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    children.emplace_back(status.st_ino, std::move(name));
  }
  std::ranges::sort(children, std::greater());
  names.clear();
  for (auto& child : children) names.push_back(std::move(child.second));
}

enum class Order : std::uint8_t { any, as_created };

class Descent {
 public:
  Descent(const ChooseDescent& visit, Order order) : visit_(visit), order_(order) {}

  Result<void> run(const CgroupDir& top) {
    path_ = top.path();
    const auto descend = visit_({top, path_, 0});
    if (!descend.ok() && is_removed(descend.error())) return descend.error();
    if (!should_descend(descend)) return failure_ ? Result<void>(*failure_) : Result<void>();
    if (path_ == "/") path_.clear();
    auto own = CgroupDir::open(top.fd(), "/");
    if (!own.ok()) return own.error();
    enter(std::move(*own));
    while (!levels_.empty()) {
      if (names_.size() > levels_.back().first_name) {
        step_down();
      } else if (!step_up()) {
        break;
      }
    }
    return failure_ ? Result<void>(*failure_) : Result<void>();
  }

 private:
  struct Level {
    CgroupId group;
    std::size_t first_name;  // of its children that are still to be visited
    std::size_t path_size;
  };

  void note(const Error& failure) {
    if (!is_removed(failure) && !failure_) failure_ = failure;
  }
  // After a failed visit, the descendants may still be visited.
  bool should_descend(const Result<bool>& descend) {
    if (!descend.ok()) note(descend.error());
    return !descend.ok() || *descend;
  }

  void enter(CgroupDir group) {
    if (!may_have_children(group)) return;
    auto children = group.children();
    if (!children.ok()) return note(children.error().in(path_));
    if (order_ == Order::as_created) sort_as_created(group, *children);
    if (children->empty()) return;
    levels_.push_back({group.id(), names_.size(), path_.size()});
    std::move(children->begin(), children->end(), std::back_inserter(names_));
    at_ = std::move(group);
  }

  void step_down() {
    const std::string name = "/" + names_.back();
    names_.pop_back();
    path_.resize(levels_.back().path_size);
    path_ += name;
    auto child = CgroupDir::open(at_->fd(), name);
    if (!child.ok()) return note(child.error().in(path_));
    if (should_descend(visit_({*child, path_, levels_.size()}))) enter(std::move(*child));
  }

  // False if the walk ends here.
  bool step_up() {
    levels_.pop_back();
    if (levels_.empty()) return false;
    path_.resize(levels_.back().path_size);
    auto parent = open_parent(*at_);
    if (parent.ok() && parent->id() == levels_.back().group) {
      at_ = std::move(*parent);
      return true;
    }
    note(parent.ok() ? Error{ESTALE, "cgroup " + path_ + " is no longer the parent of its child"}
                     : parent.error().in(path_));
    return false;
  }

  const ChooseDescent& visit_;
  const Order order_;
  std::optional<Error> failure_;
  std::optional<CgroupDir> at_;  // of the last level
  std::vector<Level> levels_;
  std::vector<std::string> names_;
  std::string path_;
};

}  // namespace

Result<void> visit_groups(const CgroupDir& top, const VisitGroup& visit) {
  const ChooseDescent all = [&](const VisitedGroup& visited) -> Result<bool> {
    TRY(visit(visited.group, visited.path));
    return true;
  };
  return Descent(all, Order::any).run(top);
}

Result<void> visit_groups_as_created(const CgroupDir& top, const ChooseDescent& visit) {
  return Descent(visit, Order::as_created).run(top);
}

}  // namespace forestall::kernel
