// SPDX-License-Identifier: Apache-2.0
#include "sources/own_place.h"

#include <fcntl.h>

#include <optional>

#include "base/parse.h"
#include "kernel/held_file.h"

namespace forestall::sources {
namespace {

std::optional<std::string> claimed_path(const std::string& cgroup_file,
                                        kernel::CgroupVersion version) {
  const auto file = kernel::HeldFile::open(AT_FDCWD, cgroup_file.c_str(), cgroup_file);
  if (!file) return std::nullopt;
  std::string buffer;
  const auto text = file->read(buffer);
  if (!text) return std::nullopt;
  return kernel::parse_cgroup_path(*text, version).optional();
}

// Parses the text itself: CgroupDir::processes() refuses lists with processes of other namespaces.
bool lists_process(const kernel::CgroupDir& cgroup, pid_t pid) {
  const auto text = cgroup.read("cgroup.procs");
  if (!text) return false;
  std::string_view rest = *text;
  for (auto word = next_word(rest); !word.empty(); word = next_word(rest)) {
    if (parse_i64(word) == pid) return true;
  }
  return false;
}

bool lists_process(const kernel::CgroupTree& tree, const std::string& path, pid_t pid) {
  const auto cgroup = tree.open(path);
  return cgroup && lists_process(*cgroup, pid);
}

std::optional<std::string> search(const kernel::CgroupTree& tree, const std::string& path,
                                  pid_t pid) {
  const auto cgroup = tree.open(path);
  if (!cgroup) return std::nullopt;
  if (lists_process(*cgroup, pid)) return path;
  const auto children = cgroup->children();
  if (!children) return std::nullopt;
  for (const auto& name : *children) {
    if (auto found = search(tree, path == "/" ? path + name : path + "/" + name, pid)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> OwnPlace::paths(const kernel::CgroupTree& tree) {
  std::vector<std::string> found;
  const auto add = [&](const std::string& path) {
    if (!path.empty() && path != "/") found.push_back(path);
  };
  const auto claimed = claimed_path(cgroup_file_, tree.version());
  if (claimed) add(*claimed);
  bool listed = claimed && lists_process(tree, *claimed, pid_);
  if (!listed) {
    if (searched_.empty() || !lists_process(tree, searched_, pid_)) {
      searched_ = search(tree, "/", pid_).value_or("");
    }
    listed = !searched_.empty();
    add(searched_);
  }
  // Without a free descriptor the process is in no list that can be read.
  if (!listed) found.insert(found.end(), last_.begin(), last_.end());
  if (listed) last_ = found;
  return found;
}

}  // namespace forestall::sources
