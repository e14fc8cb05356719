// SPDX-License-Identifier: Apache-2.0
// A mutex with priority inheritance. The loop runs SCHED_FIFO and the reaper threads SCHED_OTHER.
// With an ordinary mutex, a reaper that is preempted in its short critical section would block the
// loop for a scheduling round of a loaded machine.
#pragma once

#include <pthread.h>

namespace forestall::base {

class PriorityMutex {
 public:
  PriorityMutex() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    // Fails on a kernel without PI futexes; an ordinary mutex is still correct.
    if (pthread_mutex_init(&mutex_, &attributes) != 0) pthread_mutex_init(&mutex_, nullptr);
    pthread_mutexattr_destroy(&attributes);
  }
  PriorityMutex(const PriorityMutex&) = delete;
  PriorityMutex& operator=(const PriorityMutex&) = delete;
  ~PriorityMutex() { pthread_mutex_destroy(&mutex_); }

  // Names required by std::lock_guard.
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace forestall::base
