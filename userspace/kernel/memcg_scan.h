// SPDX-License-Identifier: Apache-2.0
// The memory of every cgroup of a subtree in one pass in the kernel (bpf/memcgs.bpf.c), instead of
// two files and a list of processes for each. A separate BPF object.
//
// usage is the page counter that memory.current shows. inactive_file comes from the sizes of the
// LRU lists, which are exact. memory.stat is computed from the same changes, later: after a read it
// is usually behind by at most 128 pages for each CPU (MEMCG_CHARGE_BATCH of
// include/linux/memcontrol.h), and now and then until the kernel's flush every two seconds. So
// where the two differ, the pass is the newer one, and nothing is gained by a read of the file.
//
// Ids are those of open directories (st_ino), which the kernel does not use again. A removed cgroup
// that still holds memory is in the pass, and marked.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "bpf/abi/memcg.h"
#include "kernel/cgroup_tree.h"
#include "kernel/failure_pause.h"
#include "kernel/kernel_types.h"
#include "model/ids.h"

namespace forestall::kernel {

struct MemcgQuery {
  // Anonymous and shared memory: a cache miss for each CPU and cgroup.
  bool counters = false;
};

// With all descendants.
struct MemcgUsage {
  CgroupId cgroup;
  Bytes usage;
  // Unknown if the pages of a cgroup in it could not be read.
  std::optional<Bytes> inactive_file;
  std::optional<Bytes> active_file;
  // Unknown if not requested, or if the kernel's order of counters was not found.
  std::optional<Bytes> anon;
  std::optional<Bytes> shmem;
  std::optional<std::uint64_t> processes;  // thread groups; nullopt: they changed, or are too many
  bool removed = false;
};

// A process of a cgroup, as the kernel's lists have it.
struct ListedProcess {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // as in /proc/PID/stat
  bool apart = false;  // a thread is in another memory cgroup (only on cgroup v1), or may be
};

// Adds up the records of a pass, which are in pre-order. EPROTO: their levels are not those of a
// tree. `parents` is for the work, and reused.
[[nodiscard]] Result<void> sum_subtrees(std::span<const abi_memcg> records, bool anon, bool shmem,
                                        std::vector<std::uint32_t>& parents,
                                        std::vector<MemcgUsage>& sums);

// Thread rule: one thread at a time.
class MemcgScan {
 public:
  // Loads the programs. EPERM: refused. Other errors (ENOENT, …): this kernel lacks something that
  // they need.
  static Result<std::unique_ptr<MemcgScan>> load(const KernelTypes& types = KernelTypes());
  ~MemcgScan();

  // Later passes begin at this cgroup, a directory of the memory hierarchy; without it, at the
  // root. ENOENT: it has no memory controller.
  Result<void> begin_at(int cgroup_fd);

  // Reads all. Holds only RCU and waits for no lock of the kernel's. Allocates nothing, in the
  // kernel neither, if there are no more cgroups than before and renew() was called often enough.
  // ENOENT: the cgroup where it begins was removed. EOVERFLOW: more than ABI_MEMCGS_MAX. On failure
  // nothing is found.
  Result<void> scan(const MemcgQuery& query = {});
  // Processes of the cgroup and its descendants, sorted by pid, by another pass: it waits for no
  // lock either, while the files of the cgroup wait for those that any tenant takes. A process
  // whose leader has exited counts while one of its threads lives. What find() returns stays.
  // ENOENT: there is no such cgroup. EAGAIN: they changed meanwhile, or are more than a pass can
  // read. EOVERFLOW: more than ABI_LISTED_MAX. EBUSY: not tried, as others failed shortly before,
  // or renew() has not been called for long. `version`: of the memory hierarchy.
  Result<std::vector<ListedProcess>> processes_in(CgroupId cgroup, CgroupVersion version);
  // What the kernel calls the cgroup of the last processes_in() now, on cgroup v1, where it can be
  // renamed. Nullopt: not known, because the list failed or it is too deep, or it cannot be.
  [[nodiscard]] std::optional<std::string> listed_path() const;
  // What serves ABI_MEMCG_RUNS passes is opened again, if it has served three quarters of them. For
  // times when nothing is urgent.
  void renew();

  // Of the last pass. In pre-order: parents before children.
  [[nodiscard]] std::span<const MemcgUsage> all() const { return sums_; }
  // Null: it was not in the pass.
  [[nodiscard]] const MemcgUsage* find(CgroupId cgroup) const;

  // What a pass reads, for people.
  [[nodiscard]] std::string evidence() const;

 private:
  class Loaded;
  explicit MemcgScan(std::unique_ptr<Loaded> loaded);
  Result<void> run(const MemcgQuery& query);
  // One pass with the arguments that are set.
  Result<void> pass_once();

  std::unique_ptr<Loaded> loaded_;
  std::vector<std::uint32_t> parents_;
  std::vector<MemcgUsage> sums_;
  // Of passes over processes, such as those of a tree with more cgroups than a pass can visit.
  FailurePause list_pause_{3, 100};
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_id_;  // sorted; index into sums_
};

}  // namespace forestall::kernel
