// SPDX-License-Identifier: Apache-2.0
// For any /proc/PID/cgroup, the path found in it is absolute and on one line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kernel/cgroup_tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using forestall::kernel::CgroupVersion;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto version : {CgroupVersion::v1, CgroupVersion::v2}) {
    const auto path = forestall::kernel::parse_cgroup_path(text, version);
    if (!path) continue;
    if (!path->starts_with('/') || path->find('\n') != std::string::npos) std::abort();
    if (text.find(*path) == std::string_view::npos) std::abort();
  }
  return 0;
}
