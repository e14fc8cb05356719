// SPDX-License-Identifier: Apache-2.0
// The processes of the hostile tenant: an unprivileged user in a delegated cgroup.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/unique_fd.h"
#include "hostile/tricks.h"
#include "support/child.h"

namespace forestall::test {

inline constexpr uid_t kTenantUser = 65534;

struct TenantPlace {
  std::string home;   // directory of its group in the memory hierarchy
  std::string tmpfs;  // a directory in a tmpfs that it may write
  std::string file;   // a file on a disk that it may write
  Bytes file_size = {0};
  key_t segment = 0;  // of the System V segment that it leaves behind
};

// Thread rule: one thread.
class Tenant {
 public:
  // Forks its first process, which waits for begin(). Its parent adopts and reaps what it leaves.
  Tenant(const RoundPlan& plan, const TenantPlace& place);

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Starts the tricks. Returns false if the process died before it had started them all.
  [[nodiscard]] bool begin();
  // Starts the offence with this much memory. Returns at once.
  void offend(Bytes amount) const;

 private:
  struct Pipe {
    Pipe();
    UniqueFd read_end, write_end;
  };
  pid_t pid_ = -1;
  Pipe pids_, ready_, commands_, lives_;
  Child parent_;
  UniqueFd pidfd_;
};

}  // namespace forestall::test
