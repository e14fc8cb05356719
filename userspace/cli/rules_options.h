// SPDX-License-Identifier: Apache-2.0
// Options of `forestall rules`, and those of `forestall check-config` for rules of other programs.
#pragma once

#include <cstdint>
#include <string>

namespace forestall::cli {

// Paths of files; empty: not given. Exactly one of the first three is given.
struct RulesOptions {
  std::string config;  // of Forestall
  std::string oomd_config;
  std::string senpai;  // options of the standalone senpai
  std::string observations;
  std::string drop_in_dir;  // with oomd_config
  std::string io_devices;   // "8:0=hdd,259:0=ssd"
  bool dry_run = false;
  // Evaluates on this host, once a second, in place of observations; all actions are dry.
  bool live = false;
  std::uint32_t count = 0;  // with live: how often; 0: without end
};

struct ImportOomdOptions {
  std::string file;
};

struct CheckConfigOptions {
  std::string oomd_config;
  std::string drop_in_dir;

  // Rules of oomd are checked, not Forestall's configuration.
  [[nodiscard]] bool of_oomd() const { return !oomd_config.empty(); }
};

}  // namespace forestall::cli
