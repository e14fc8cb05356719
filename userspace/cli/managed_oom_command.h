// SPDX-License-Identifier: Apache-2.0
// Options of `forestall check-config` and `forestall rules` for systemd's ManagedOOM properties.
#pragma once

#include <string>

namespace forestall::cli {

// Paths of files; empty: not given.
struct ManagedOomOptions {
  std::string managed_oom;
  std::string oomd_conf;
  std::string owners;
  std::string rank;        // "swap", "pgscan"; empty: nothing is ranked
  std::string candidates;  // with `rank`
  std::string systemd_version = "257";

  [[nodiscard]] bool given() const { return !managed_oom.empty() || !rank.empty(); }
};

}  // namespace forestall::cli
