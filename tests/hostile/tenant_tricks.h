// SPDX-License-Identifier: Apache-2.0
// Tricks that a tenant plays inside its group. Each returns when it is in place; what continues
// runs in processes of its own. A step that the kernel refuses is left out, as a tenant would.
#pragma once

#include <functional>
#include <string>

#include "hostile/tenant.h"

namespace forestall::test {

class TrickPlayer {
 public:
  TrickPlayer(const TenantPlace& place, int lives, Dice& dice)
      : place_(place), lives_(lives), dice_(dice) {}
  void play(Trick trick) const;

 private:
  void dig_deep() const;
  void spread_wide(std::int64_t groups) const;
  void use_odd_names() const;
  void forge_xattrs() const;
  void spread_threads() const;
  void chain_forks() const;
  void storm_forks() const;
  void storm_execs() const;
  void stop_processes() const;
  void freeze_processes() const;
  void leave_zombies() const;
  void churn_groups() const;
  void rename_group() const;
  void flood_file(int flags) const;
  void take_huge_page() const;

  // Forks a process that runs `body` and then waits for the end of the round.
  pid_t start(const std::function<void()>& body) const;
  // Whether the round has ended, for processes that never wait.
  [[nodiscard]] bool over() const;
  [[nodiscard]] std::string group(const std::string& name) const;  // made below the home

  const TenantPlace& place_;
  int lives_;
  Dice& dice_;
};

}  // namespace forestall::test
