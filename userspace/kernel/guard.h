// SPDX-License-Identifier: Apache-2.0
// The guard's BPF object: loaded, given lists of approved victims, asked what it did.
//
// Nothing is pinned: the programs, and with them the guard, end with this process. A process that
// is only stopped keeps them; there the expiry of each list is what disarms them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "bpf/abi/guard.h"
#include "model/ids.h"

namespace forestall::kernel {

// What one subject's list is made of.
struct GuardList {
  CgroupId subject;     // inode 0: the node
  int subject_fd = -1;  // its directory in the memory hierarchy, not owned; unused for the node
  // Fires when the working set is at or above it: usage less the inactive file pages of the
  // subtree as the kernel knows them at that moment; of the node as abi_node_working_set() has it.
  Bytes line;
  Bytes inactive_file;  // of the subject now: stands in where the kernel's are too many to add up
  MonotonicTime expires;
  // Groups in order. More than ABI_GUARD_VICTIMS: the first of them.
  std::vector<abi_guard_victim> victims;
};

struct GuardUsage {
  Bytes usage;
  Bytes inactive_file;
  bool exact = false;  // inactive_file is the kernel's, not a stand-in
};

struct GuardOptions {
  // fexit/page_counter_try_charge as one more place to shoot from; true where the kernel takes it.
  bool charge_hook = true;
};

// Thread rule: one thread at a time. Nothing here waits; a thread of its own starts the clocks,
// since that takes a visit to every CPU.
class Guard {
 public:
  // ENOSYS: this kernel offers no BTF; EPERM: refused, or this is not the host's pid namespace,
  // whose pids the programs speak of.
  [[nodiscard]] static Result<std::unique_ptr<Guard>> load(const GuardOptions& options = {});
  ~Guard();

  // Whether it can shoot a process that is not the running one; else it can only wait until the
  // victim is.
  [[nodiscard]] bool reaches_others() const;
  // What it consists of on this kernel, for people.
  [[nodiscard]] const std::string& evidence() const;

  // The process as a victim: for one that leads its thread group, is neither pid 1 nor a kernel
  // thread nor this process, and whose memory cgroup is `workload` or below. ESRCH else. The caller
  // holds a pidfd on it, and asks that one afterwards whether the process still is.
  [[nodiscard]] Result<abi_guard_victim> identify(pid_t pid, CgroupId workload);

  // Puts these lists into force, each at once and whole; what had one and is not among them is
  // disarmed. A list without victims is none. A subject that has fired since drain() was last
  // called is left with what it has, spent; it is armed again by the call after the next drain().
  // Returns the indices of those that could not be armed (beyond ABI_GUARD_SLOTS, removed).
  [[nodiscard]] Result<std::vector<std::size_t>> arm(std::span<const GuardList> lists);
  void disarm();
  // Whether any list is in force, expired or not.
  [[nodiscard]] bool armed() const;

  // Polls readable when there is something to drain.
  [[nodiscard]] int fd() const;
  void drain(const std::function<void(const abi_guard_report&)>& visit);

  // A round of the programs at once, in this thread: what is due to be shot is. For tests and for
  // a caller that has time.
  [[nodiscard]] Result<void> look();
  // What the programs see of a subject that has a list; of the node always.
  [[nodiscard]] Result<GuardUsage> usage(CgroupId subject) const;
  // What the programs have done and left undone, as of now. Any thread's.
  [[nodiscard]] abi_guard_counts counts() const;
  // CPUs whose clock runs.
  [[nodiscard]] std::uint32_t clocks() const;

 private:
  class Loaded;
  explicit Guard(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
