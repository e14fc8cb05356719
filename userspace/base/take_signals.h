// SPDX-License-Identifier: Apache-2.0
// Signals that a program reads in order, in place of handlers.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <initializer_list>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall {

// Blocks these signals in the calling thread, and in the threads that it starts from then on.
// Returns a signalfd of them, which does not block. Errors: of signalfd(2).
inline Result<UniqueFd> take_signals(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : signals) sigaddset(&set, each);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return errno_error("signalfd", "");
  return fd;
}

}  // namespace forestall
