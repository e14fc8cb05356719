// SPDX-License-Identifier: Apache-2.0
// The pinned processes of one victim: signals them, watches for their exit, and has the memory of
// those that die freed by the reapers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actuators/ongoing_kill.h"
#include "actuators/reaper_pool.h"
#include "kernel/process_ref.h"

namespace forestall::actuators {

// Thread rule: the loop's thread only.
class VictimProcesses {
 public:
  // `kill` outlives it.
  explicit VictimProcesses(OngoingKill& kill) : kill_(kill) {}
  VictimProcesses(const VictimProcesses&) = delete;
  VictimProcesses& operator=(const VictimProcesses&) = delete;
  ~VictimProcesses() { clear(); }

  // Each returns the index of the first process that was added.
  std::size_t add(std::vector<kernel::ProcessRef> found);
  std::size_t add_signalled(std::vector<kernel::ProcessRef> reached);
  // Processes that were signalled already, by a descriptor that the victim does not own. If a copy
  // of it fails (no descriptors left), the process dies but is not reaped, and its exit shows only
  // in the cgroup.
  std::size_t add_signalled(std::span<const kernel::ProcessRef* const> reached);
  // Releases all of them.
  void clear();

  // From this index on. False if there was no process to signal, or all signals failed.
  [[nodiscard]] bool signal(std::size_t from, int signal);
  // Queues the dying processes for the reapers, the largest first.
  void reap(std::size_t from);
  // Submits again what a reaper gave up on, or what found the queue full.
  void reap_rest();
  void on_reaped(std::size_t index, const ReapReport& report);
  // Their exits are events of the ladder's epoll.
  void watch(std::size_t from);
  void on_exit(std::size_t index);
  // Finds the exits that raise no event.
  void find_exits();

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  // Not known to have exited.
  [[nodiscard]] std::uint32_t alive() const { return alive_; }
  // How many of these pids (sorted) are of processes that it never had.
  [[nodiscard]] std::uint32_t count_unknown(const std::vector<pid_t>& pids) const;
  // A process may have exited while a reaper thread still frees its memory.
  [[nodiscard]] bool is_reaping() const;
  // Pids not known to have exited, sorted. A process that exited may have been reaped and its pid
  // reused by a later fork, which must be opened anew.
  [[nodiscard]] std::vector<pid_t> known() const;

 private:
  enum class Reaping : std::uint8_t { wanted, queued, ended };
  struct Entry {
    std::optional<kernel::ProcessRef> process;  // nullopt once it exited
    pid_t pid = 0;
    bool signalled = false;
    Reaping reaping = Reaping::wanted;
  };

  void add_one(kernel::ProcessRef process, bool signalled);
  void unwatch(Entry& entry);
  bool submit(std::size_t index);

  OngoingKill& kill_;
  std::vector<Entry> entries_;
  std::uint32_t alive_ = 0;     // of entries_
  std::uint32_t unreaped_ = 0;  // not queued for a reaper yet: the queue was full
  bool all_watched_ = true;     // every process of entries_ is in the epoll
};

}  // namespace forestall::actuators
