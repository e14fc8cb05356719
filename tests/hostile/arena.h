// SPDX-License-Identifier: Apache-2.0
// The place of the hostile rounds: a small limited cgroup with an agent that watches it, innocent
// processes in and outside of it, and a delegated group for the tenant.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hostile/tenant.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/scratch_filesystem.h"

namespace forestall::test {

// Something that must not happen.
struct Problem {
  std::string kind;  // "protected-died", …: see Arena::play()
  std::string detail;
};

struct RoundResult {
  std::vector<Problem> problems;
  bool agent_killed = false;   // a record of the agent's kill of the tenant
  bool kernel_killed = false;  // the kernel's OOM killer was first
  bool not_short = false;      // the offence did not reach the threshold: no kill was due
  bool explained = false;      // the offender lives, and a record gives the reason
  int empty_kills = 0;         // records of kills that signalled no process
};

// How the agent of an arena runs.
enum class AgentMode : std::uint8_t { full, files, guard };

// Thread rule: one thread.
class Arena {
 public:
  // Throws if the agent does not start.
  explicit Arena(AgentMode mode);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Plays one round and leaves the arena empty. Kinds of problems:
  //   protected-died    the protected process
  //   neighbour-died    a process of a workload within its request
  //   outside-died      a process in no workload
  //   newcomer-died     a process in the group that replaced the victim's
  //   agent-died        the agent ended
  //   wrong-victim      a record of a kill that names another workload than the tenant's
  //   unreadable        a record that is not valid JSON
  //   unrecorded-death  the tenant is dead, and no record names its kill
  //   offender-alive    the tenant lives, and no record gives a reason
  // After a problem the arena must not be used again.
  [[nodiscard]] RoundResult play(const RoundPlan& plan);
  [[nodiscard]] std::string agent_log() { return agent_->process().log(); }

 private:
  struct Bystander {
    std::string kind;  // of the problem if it dies
    std::string name;
    Child process;
  };
  struct Round {
    const RoundPlan& plan;
    std::string home;  // path in the hierarchy
    std::uint64_t cgroup_id = 0;
    std::uint64_t oom_kills = 0;  // before the round
    bool dead = false;            // no process of the tenant is left
    RoundResult result;
    std::vector<std::string> kills;  // one line for each record, for failure messages
    std::int64_t began_us = 0;       // CLOCK_MONOTONIC
  };

  [[nodiscard]] std::string config(AgentMode mode) const;
  void add_bystander(const std::string& kind, const std::string& name, const std::string& path);
  void add_protected_with_thread(const std::string& path);
  void make_home(Round& round);
  [[nodiscard]] TenantPlace place_of(const Round& round) const;
  void move_stray_thread(const std::string& path) const;
  [[nodiscard]] Bytes available() const;
  [[nodiscard]] bool populated() const;
  // Waits for the end of the tenant, or for the kernel's kill, or until no kill is due.
  void await_end(Round& round, const Tenant& tenant);
  void await_record(Round& round);
  static void add_problem(Round& round, const std::string& kind, const std::string& detail);
  void note_record(Round& round, const v1::Record& record) const;
  void read_records(Round& round, bool wait);
  void replace_home(Round& round);
  void check_innocents(Round& round, Duration watched);
  void end_tenant();
  void remove_what_is_left();

  ScratchCgroup scratch_;
  std::string tenants_;  // path of the delegated group
  ScratchFilesystem disk_, tmpfs_;
  std::vector<Bystander> innocents_;
  pid_t stray_tid_ = -1;
  std::set<std::uint64_t> homes_;  // cgroup ids of all rounds
  std::unique_ptr<AgentRun> agent_;
};

}  // namespace forestall::test
