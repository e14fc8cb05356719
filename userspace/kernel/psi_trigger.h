// SPDX-License-Identifier: Apache-2.0
// A PSI trigger: a descriptor of a pressure file that polls EPOLLPRI if tasks stalled for longer
// than a threshold within a window (Documentation/accounting/psi.rst).
//
// The poll call that reports the event clears it (kernel/sched/psi.c psi_trigger_poll). So in a
// nested epoll the outer call consumes the event before the inner one gets it.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::kernel {

struct PsiTrigger {
  UniqueFd fd;  // also reads as the pressure file
  Duration window{0};
};

// Opens `file` relative to `directory_fd` (AT_FDCWD for an absolute path) and sets a "some"
// trigger. Its window is the shortest that the kernel accepts of 500 ms, 1 s and multiples of 2 s
// up to 10 s. Without CAP_SYS_RESOURCE the kernel accepts only multiples of 2 s (since 6.5) or none
// (EPERM). EOPNOTSUPP: PSI is off. ENODEV or ENOENT: no such cgroup or file. REQUIRES: 0 <
// threshold <= 500 ms.
[[nodiscard]] Result<PsiTrigger> open_psi_trigger(int directory_fd, const char* file,
                                                  std::string_view name, Duration threshold);

}  // namespace forestall::kernel
