// SPDX-License-Identifier: Apache-2.0
// hog MIB PAUSE_MS [wait [FIRST_MIB]]: fills memory MiB by MiB, with a pause after each, and keeps
// it. With "wait" it fills FIRST_MIB without a pause, and the rest after a SIGUSR1. Without
// arguments it fills nothing.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fill(long begin, long end, int milliseconds) {
  for (long i = begin; i < end; ++i) {
    char* const block = malloc(1 << 20);
    if (block == NULL) return 0;
    memset(block, (int)i | 1, 1 << 20);
    if (milliseconds > 0) poll(NULL, 0, milliseconds);
  }
  return 1;
}

int main(int count, char** values) {
  const long mebibytes = count > 1 ? atol(values[1]) : 0;
  const int milliseconds = count > 2 ? atoi(values[2]) : 0;
  const long first = count > 4 ? atol(values[4]) : 0;
  if (count > 3) {
    sigset_t begin;
    sigemptyset(&begin);
    sigaddset(&begin, SIGUSR1);
    sigprocmask(SIG_BLOCK, &begin, NULL);
    int received = 0;
    if (!fill(0, first, 0) || sigwait(&begin, &received) != 0) return 1;
  }
  if (!fill(first, mebibytes, milliseconds)) return 1;
  for (;;) pause();
}
