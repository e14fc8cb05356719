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
  std::string rank;             // "swap", "pgscan"; empty: nothing is ranked
  std::string candidates;       // with `rank`
  std::string systemd_version;  // empty: 257

  [[nodiscard]] bool given() const { return !managed_oom.empty() || !rank.empty(); }
  // The first of the options that have no effect without one of these two; nullptr: none is given.
  [[nodiscard]] const char* without_effect() const {
    if (given()) return nullptr;
    if (!oomd_conf.empty()) return "--oomd-conf";
    if (!owners.empty()) return "--owners";
    return systemd_version.empty() ? nullptr : "--systemd-version";
  }
};

}  // namespace forestall::cli
