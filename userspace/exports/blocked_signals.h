// SPDX-License-Identifier: Apache-2.0
// Every signal blocked, for a thread made meanwhile to inherit: those the loop takes through its
// descriptor must not be delivered to a thread that serves clients.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace forestall::exports {

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

}  // namespace forestall::exports
