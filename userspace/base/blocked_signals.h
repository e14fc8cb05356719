// SPDX-License-Identifier: Apache-2.0
// Blocks every signal while a thread is created, so that the thread inherits the mask: signals that
// the loop reads from its signalfd must not be delivered to threads that serve clients.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace forestall::base {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace forestall::base
