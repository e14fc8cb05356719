// SPDX-License-Identifier: Apache-2.0
// The only program of the test's images, linked statically. As a sandbox it waits; as a container,
// "/pause /file 1048576", it first writes that many bytes, so that its writable layer holds
// something. Both end with SIGTERM, for which process 1 needs a handler.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[4096];

static int write_file(const char* path, long size) {
  const int file = open(path, O_CREAT | O_WRONLY, 0600);
  if (file < 0) return -1;
  memset(block, 'x', sizeof(block));
  for (long written = 0; written < size; written += (long)sizeof(block)) {
    if (write(file, block, sizeof(block)) != (ssize_t)sizeof(block)) return -1;
  }
  return close(file);
}

int main(int argc, char** argv) {
  sigset_t ends;
  int which = 0;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  if (argc == 3 && write_file(argv[1], atol(argv[2])) != 0) return 1;
  return sigwait(&ends, &which);
}
