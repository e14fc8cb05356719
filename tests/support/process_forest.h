// SPDX-License-Identifier: Apache-2.0
// A random tree of cgroups full of random idle processes, for comparing a scorer and a predictor of
// the OOM killer with the kernel. One seed determines everything.
//
// The processes fork and never exec, because an emulated machine starts hundreds of them in a
// second. Each takes its memory inside its cgroup and then waits for a signal, so that its figures
// do not change. Memory that reclaim could take while a test drives the machine out of memory (page
// cache, shared memory with swap) is locked.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {

// Random numbers that are the same with every standard library.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  // 0 … bound - 1. REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

// A second process with the same memory.
enum class Sharer : std::uint8_t {
  none,
  clone,  // CLONE_VM, a sibling: scored like the first one
  vfork,  // a vfork child that never execs: the kernel skips it
};

struct ForestProcess {
  std::string path;                            // of its cgroup
  std::int64_t anon = 0, shmem = 0, file = 0;  // number of touched pages of 4 KiB
  std::int32_t oom_score_adj = 0;
  int threads = 0;           // besides the leader
  bool leader_gone = false;  // the leader has exited, a thread still runs
  bool other_user = false;   // uid 65534
  Sharer sharer = Sharer::none;
  pid_t pid = 0;
  pid_t sharer_pid = 0;
  // All its threads. With leader_gone, the kernel's log names the process by its first live thread.
  std::vector<pid_t> tasks;
};

struct ForestShape {
  std::uint64_t seed = 1;
  int processes = 40;
  std::int64_t most_pages = 256;  // of one kind in one process
  // A process without CAP_SYS_RESOURCE cannot lower its own.
  std::int32_t lowest_adj = -1000;
  // This many more processes with equal memory and adjustment, larger than most others. They take
  // their memory in the first home and are then moved in random order, so only the root is sure to
  // be charged for them.
  int equals = 0;
  // v2: one cgroup in this many has memory.oom.group.
  std::uint64_t whole_one_in = 4;
  bool corners = true;  // threads, exited leaders, shared memory, vfork, other users
};

// Thread rule: one thread. Makes this process a subreaper, for children of killed processes.
class ProcessForest {
 public:
  // Returns when all processes are idle. Throws if one does not start.
  explicit ProcessForest(const ForestShape& shape);
  ProcessForest(const ProcessForest&) = delete;
  ProcessForest& operator=(const ProcessForest&) = delete;
  // Kills and reaps all that are left.
  ~ProcessForest();

  [[nodiscard]] ScratchCgroup& groups() { return groups_; }
  [[nodiscard]] const std::string& root() const { return groups_.path(); }
  // All cgroups, the root first; and those that may hold processes.
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }
  [[nodiscard]] const std::vector<std::string>& homes() const { return homes_; }
  // v2: those with memory.oom.group.
  [[nodiscard]] const std::vector<std::string>& wholes() const { return wholes_; }

  // All processes, dead ones included.
  [[nodiscard]] const std::vector<ForestProcess>& processes() const { return processes_; }
  // All that are not reaped, sharers included.
  [[nodiscard]] std::vector<pid_t> alive() const { return alive_; }
  // Waits for the end of one of them and reaps it; returns its wait status, or nothing if it does
  // not end.
  std::optional<int> wait_end(pid_t pid);
  // Reaps all that have ended.
  std::vector<pid_t> ended();
  // One line for each process, for failure messages.
  [[nodiscard]] std::string text() const;

 private:
  void grow_tree(const ForestShape& shape, Dice& dice);
  void grow_groups(const std::string& at, int level, Dice& dice);
  [[nodiscard]] ForestProcess plan(const ForestShape& shape, Dice& dice) const;
  void start(ForestProcess& process, bool pinned);
  void await(ForestProcess& process);
  void shuffle_into_place(std::vector<std::size_t> which, Dice& dice);

  ScratchCgroup groups_;
  std::vector<std::string> paths_, homes_, wholes_;
  std::vector<ForestProcess> processes_;
  std::vector<pid_t> alive_;
  UniqueFd file_;  // mapped for file pages
  UniqueFd ready_read_, ready_write_;
};

// Sets a file of /proc/sys or /sys while this object exists.
class KernelSetting {
 public:
  // Throws if the file cannot be set.
  KernelSetting(std::string path, const std::string& value);
  KernelSetting(const KernelSetting&) = delete;
  KernelSetting& operator=(const KernelSetting&) = delete;
  ~KernelSetting();

 private:
  std::string path_, before_;
};

}  // namespace forestall::test
