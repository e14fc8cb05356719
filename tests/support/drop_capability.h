// SPDX-License-Identifier: Apache-2.0
// Takes a capability from the calling process, for the body of a Child.
#pragma once

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace forestall::test {

// Removes it from all sets, so that programs that the process executes do not have it either.
// False: the kernel refused.
inline bool drop_capability(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, capability, 0, 0);
  if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return false;
  if (syscall(SYS_capget, &header, sets.data()) != 0) return false;
  auto& set = sets.at(static_cast<std::size_t>(CAP_TO_INDEX(capability)));
  const std::uint32_t kept = ~static_cast<std::uint32_t>(CAP_TO_MASK(capability));
  set.effective &= kept;
  set.permitted &= kept;
  set.inheritable &= kept;
  return syscall(SYS_capset, &header, sets.data()) == 0;
}

}  // namespace forestall::test
