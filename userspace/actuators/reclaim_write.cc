// SPDX-License-Identifier: Apache-2.0
#include "actuators/reclaim_write.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/unique_fd.h"
#include "kernel/amount_setting.h"

namespace forestall::actuators {

Result<ReclaimWrite> write_reclaim(const kernel::CgroupDir& cgroup, Bytes amount) {
  const UniqueFd file = TRY(cgroup.open_file("memory.reclaim", O_WRONLY | O_NONBLOCK));
  const auto before = kernel::read_usage(cgroup);
  const std::string text = std::to_string(amount.count);
  if (::write(file.get(), text.data(), text.size()) >= 0) return ReclaimWrite{amount, false};
  if (errno != EAGAIN) return errno_error("write", cgroup.path() + "/memory.reclaim");
  const auto after = kernel::read_usage(cgroup);
  if (!before || !after) return ReclaimWrite{{}, true};
  return ReclaimWrite{std::clamp(*before - *after, Bytes{0}, amount), true};
}

}  // namespace forestall::actuators
