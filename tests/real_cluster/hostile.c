// SPDX-License-Identifier: Apache-2.0
// hostile: waits. hostile KIND ARGUMENT [KIND ARGUMENT]...: makes each attempt in its container,
// and prints for each "ok" or the name of the error. Of attempts that succeed only kill changes
// anything that outlives them.
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

// Of a Unix socket. "@" begins the name of an abstract one.
static int connect_to(const char* path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t size = strlen(path);
  if (size >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  return connect(fd, (const struct sockaddr*)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
}

// The first object of a kind that the kernel has: the agent's, if it is readable here.
static int next_bpf(const char* kind) {
  union bpf_attr attributes = {.start_id = 0};
  const int command = strcmp(kind, "map") == 0 ? BPF_MAP_GET_NEXT_ID : BPF_PROG_GET_NEXT_ID;
  return (int)syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

static int attempt(const char* kind, const char* argument) {
  if (strcmp(kind, "connect") == 0) return connect_to(argument);
  if (strcmp(kind, "write") == 0) return open(argument, O_WRONLY | O_CLOEXEC);
  if (strcmp(kind, "kill") == 0) return kill((pid_t)atol(argument), SIGKILL);
  if (strcmp(kind, "trace") == 0) return (int)ptrace(PTRACE_SEIZE, (pid_t)atol(argument), 0, 0);
  if (strcmp(kind, "mount") == 0) return mount("none", argument, "tmpfs", 0, NULL);
  if (strcmp(kind, "bpf") == 0) return next_bpf(argument);
  errno = ENOTSUP;
  return -1;
}

int main(int count, char** values) {
  for (int i = 1; i + 1 < count; i += 2) {
    errno = 0;
    const char* const name = attempt(values[i], values[i + 1]) < 0 ? strerrorname_np(errno) : "ok";
    puts(name ? name : "unknown");
  }
  if (count > 1) return 0;
  for (;;) pause();
}
