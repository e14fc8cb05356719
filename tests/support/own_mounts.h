// SPDX-License-Identifier: Apache-2.0
// A mount namespace of the test process: what is mounted in it is on no other process's tree, and
// ends with the process. Works in a plain chroot too, whose root is no mount point.
#pragma once

namespace forestall::test {

// Once for a process; later calls do nothing. Later threads inherit it; existing threads do not see
// the mounts. Needs CAP_SYS_ADMIN and CAP_SYS_CHROOT. Throws std::runtime_error.
void enter_own_mounts();

}  // namespace forestall::test
