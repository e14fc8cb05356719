// SPDX-License-Identifier: Apache-2.0
// What `forestall doctor` reports on the source of managedOOM and on systemd-oomd.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernel/cgroup_tree.h"

namespace forestall::cli {

struct SystemdOomdFacts {
  // Its unit is installed and not masked.
  bool can_start = false;
  // Name of the first process of systemd-oomd.service; empty: there is none.
  std::string process;

  friend bool operator==(const SystemdOomdFacts&, const SystemdOomdFacts&) = default;
};

// Directories with units, the first counts. `units`: systemd's own, unless a test passes others.
[[nodiscard]] SystemdOomdFacts read_systemd_oomd(const kernel::CgroupTree& tree,
                                                 const std::vector<std::string>& units = {
                                                     "/etc/systemd/system", "/run/systemd/system",
                                                     "/usr/local/lib/systemd/system",
                                                     "/usr/lib/systemd/system",
                                                     "/lib/systemd/system"});

// Without managedOOM; nothing: systemd-oomd cannot start, or the agent runs as its unit.
[[nodiscard]] std::optional<std::string> systemd_oomd_advice(const SystemdOomdFacts& facts);
// `by_dbus`: managedOOM.source is dbus.
[[nodiscard]] std::string managed_oom_source_advice(const SystemdOomdFacts& facts, bool by_dbus);

}  // namespace forestall::cli
