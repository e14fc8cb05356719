// SPDX-License-Identifier: Apache-2.0
// A PSI trigger: a descriptor on a pressure file that polls EPOLLPRI when tasks stalled for longer
// than a threshold within a window (Documentation/accounting/psi.rst).
//
// Polling consumes the event: the poll call that reports it clears it (kernel/sched/psi.c
// psi_trigger_poll), so behind a nested epoll the outer call eats what the inner one would tell.
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

// Opens `file` below `directory_fd` (AT_FDCWD for an absolute path) and sets a "some" trigger in
// the shortest window the kernel takes of 500 ms, 1 s, and multiples of 2 s up to 10 s: without
// CAP_SYS_RESOURCE only the last kind is allowed (6.5 and newer), or none (EPERM). EOPNOTSUPP: PSI
// is off. ENODEV or ENOENT: no such cgroup or file. REQUIRES: 0 < threshold <= 500 ms.
[[nodiscard]] Result<PsiTrigger> open_psi_trigger(int directory_fd, const char* file,
                                                  std::string_view name, Duration threshold);

}  // namespace forestall::kernel
