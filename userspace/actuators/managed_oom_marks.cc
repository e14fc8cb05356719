// SPDX-License-Identifier: Apache-2.0
#include "actuators/managed_oom_marks.h"

#include <fcntl.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>
#include <limits>
#include <string>

#include "base/parse.h"
#include "kernel/cgroup_processes.h"

namespace forestall::actuators {

Result<void> add_to_attribute(int directory, const char* name, std::uint64_t number) {
  std::array<char, 32> text{};
  std::uint64_t before = 0;
  const ssize_t size = ::fgetxattr(directory, name, text.data(), text.size());
  if (size < 0 && errno != ENODATA) return errno_error("fgetxattr", name);
  if (size >= 0) {
    const auto parsed = parse_u64(std::string_view(text.data(), static_cast<std::size_t>(size)));
    if (!parsed) return Error{EINVAL, std::string(name) + " has no number"};
    before = *parsed;
  }
  if (before > std::numeric_limits<std::uint64_t>::max() - number) {
    return Error{EOVERFLOW, std::string(name) + " would be too large"};
  }
  const std::string sum = std::to_string(before + number);
  if (::fsetxattr(directory, name, sum.data(), sum.size(), 0) != 0) {
    return errno_error("fsetxattr", name);
  }
  return {};
}

Result<void> mark_managed_oom(const kernel::CgroupTree& tree, const Workload& victim) {
  const kernel::CgroupDir cgroup = TRY(tree.open(victim.path));
  if (cgroup.id() != victim.cgroup) return Error{ENOENT, victim.path + " is another cgroup now"};
  // The cgroup's own descriptor is O_PATH, which has no attributes.
  const UniqueFd directory = TRY(cgroup.open_file(".", O_RDONLY | O_DIRECTORY));
  TRY(add_to_attribute(directory.get(), "user.oomd_ooms", 1));
  const auto processes = TRY(kernel::list_processes(cgroup));
  return add_to_attribute(directory.get(), "user.oomd_kill", processes.pids.size());
}

}  // namespace forestall::actuators
