// SPDX-License-Identifier: Apache-2.0
// hog MIB PAUSE_MS [wait [FIRST_MIB]]: fills memory MiB by MiB, with a pause after each, and keeps
// it. With "wait" it begins at a SIGUSR1. There is no pause before it has FIRST_MIB. Without
// arguments it fills nothing.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** values) {
  const long mebibytes = count > 1 ? atol(values[1]) : 0;
  const int milliseconds = count > 2 ? atoi(values[2]) : 0;
  if (count > 3) {
    sigset_t begin;
    sigemptyset(&begin);
    sigaddset(&begin, SIGUSR1);
    sigprocmask(SIG_BLOCK, &begin, NULL);
    int received = 0;
    if (sigwait(&begin, &received) != 0) return 1;
  }
  const long first = count > 4 ? atol(values[4]) : 0;
  for (long i = 0; i < mebibytes; ++i) {
    char* const block = malloc(1 << 20);
    if (block == NULL) return 1;
    memset(block, (int)i | 1, 1 << 20);
    if (milliseconds > 0 && i >= first) poll(NULL, 0, milliseconds);
  }
  for (;;) pause();
}
