// SPDX-License-Identifier: Apache-2.0
// Loads the configuration: Forestall's file, the kubelet's file, kubelet's flags, and the files
// they refer to.
//
// Flags take precedence over Forestall's file, and that over the kubelet's. A configuration with an
// error is not used at all, so a reload with a mistake keeps the old one in force. The text of an
// Error is meant to be printed: one FILE:LINE:COLUMN: message (or FLAG: message) per line, at most
// twenty per file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "forestall/v1/ruleset.pb.h"
#include "intake/eviction_settings.h"
#include "intake/kubelet_flags.h"
#include "model/config.h"
#include "model/ruleset.h"
#include "rulesets/managed_oom.h"
#include "text/diagnostic.h"

namespace forestall::intake {

struct LoadedConfig {
  Config config;
  std::vector<ThresholdOrigin> origins;  // one for each of the thresholds
  std::vector<rulesets::Ruleset> rulesets;
  std::vector<rulesets::Ruleset> reclaim;  // of the section `reclaim`; evaluated after the others
  std::vector<rulesets::PrekillHook> hooks;
  std::vector<v1::Ruleset> written_rulesets;  // as in the file
  // What of the rulesets an agent does not run, as FILE:LINE:COLUMN: message.
  std::vector<std::string> not_run_by_agent;
  std::vector<std::string> refused_without_systemd;  // the same, on a host without it
  std::vector<std::string> refused_on_v1;            // the same, of `reclaim` too, on cgroup v1
  bool hard_given = false;                           // whether evictionHard was given
  // Neither `untilOom` nor `compat` is given: the agent adds a backstop (intake/backstop.h).
  bool needs_backstop = false;
  // Allowed but probably unintended settings, as FILE:LINE:COLUMN: message.
  std::vector<std::string> warnings;
  // The files that were read, including referenced ones; a reload reads them again.
  std::vector<std::string> files;
  std::string pod_list;        // the path of podList; empty: none
  std::string kubelet_config;  // the path of the kubelet's file; empty: none
  KubeletMinor kubelet_minor;  // of compat.kubeletVersion
  // systemd-oomd's settings for the rulesets of managedOOM; nothing: it is off.
  std::optional<rulesets::OomdConf> managed_oom;
  bool managed_oom_by_dbus = false;  // also in systemd-oomd.service
  bool killed_signal = false;        // of managedOOM
};

// Sources of a configuration. All empty: the built-in configuration.
struct ConfigInputs {
  std::string config;          // path of Forestall's file; empty: none
  std::string kubelet_config;  // path of the kubelet's; empty: the one in Forestall's file
  GivenFlags flags;            // kubelet's
};

// Whose files are read. An agent kills by what it reads: it requires that only root and the agent's
// user can change a file (base/trusted_file.h).
enum class FileTrust { any, required };

// Reads a file of at most 1 MiB.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;
[[nodiscard]] Result<std::string> read_text_file(const std::string& path);
// The same, of a file that an agent kills by: see FileTrust::required.
[[nodiscard]] Result<std::string> read_trusted_text_file(const std::string& path);
// Reads a pod list of at most kPodsMax pods, of any size.
[[nodiscard]] Result<std::vector<std::shared_ptr<const Pod>>> read_pod_file(const std::string& path,
                                                                            FileTrust trust);

// The configuration without any file: kubelet's default thresholds, every pod a workload, nothing
// else.
[[nodiscard]] Config built_in_config();

[[nodiscard]] Result<LoadedConfig> load_config(const ConfigInputs& inputs,
                                               FileTrust trust = FileTrust::any);
// The same with all files from `read`.
[[nodiscard]] Result<LoadedConfig> load_config(const ConfigInputs& inputs, const ReadFile& read);

}  // namespace forestall::intake
