// SPDX-License-Identifier: Apache-2.0
// Waits for what another process writes, without polling: a test that spins takes the CPU from the
// process that it waits for, half of an emulated machine.
#pragma once

#include <functional>
#include <string>

#include "support/child.h"

namespace forestall::test {

// Waits until `there` is true; evaluates it whenever a file of the directory changes, and at least
// twice a second. Returns whether it is true when the process of `pidfd` (-1: none) has ended or
// the time is over.
[[nodiscard]] bool wait_for_files(const std::string& directory, int pidfd,
                                  const std::function<bool()>& there,
                                  Duration patience = kPatience);

}  // namespace forestall::test
