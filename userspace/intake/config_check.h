// SPDX-License-Identifier: Apache-2.0
// Converts the operator's configuration to the configuration in force, with all rules about values
// that the schema cannot express. No I/O: the caller has read the files (config_file.h).
#pragma once

#include <string>
#include <vector>

#include "forestall/v1/config.pb.h"
#include "forestall/v1/manifest.pb.h"
#include "intake/eviction_settings.h"
#include "intake/kubelet_settings.h"
#include "intake/managed_oom_section.h"
#include "messages/yaml_message.h"
#include "model/config.h"
#include "model/ruleset.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// A parsed configuration file; empty if there is no file.
struct ReadConfig {
  std::string file;
  v1::Config message;
  messages::FieldPositions places;
};

struct CheckedConfig {
  Config config;
  std::vector<ThresholdOrigin> origins;  // one for each of the thresholds
  std::vector<rulesets::Ruleset> rulesets;
  std::vector<rulesets::Ruleset> reclaim;  // what the section `reclaim` amounts to
  std::vector<rulesets::PrekillHook> hooks;
  KubeletMinor kubelet_minor;  // of compat.kubeletVersion
  ManagedOomSection managed_oom;
};

// The rules of the manifest, in the order of the file.
struct CheckedManifest {
  std::vector<PodRule> pods;
  std::vector<WorkloadRule> cgroups;
};

// The settings in the file that are shared with kubelet.
[[nodiscard]] KubeletSettings shared_settings(const ReadConfig& own);

// `settings` is merged from all sources. Settings that are not given use the defaults of
// model/config.h, and kubelet's for evictionHard. The result is valid only if no error was added.
[[nodiscard]] CheckedConfig check_config(const ReadConfig& own, const KubeletSettings& settings,
                                         text::Findings& findings);

[[nodiscard]] CheckedManifest check_manifest(const v1::Manifest& message, const std::string& file,
                                             const messages::FieldPositions& places,
                                             text::Findings& findings);

// Appends the manifest's rules to those of the configuration. Warns about rules of the manifest
// that can never take effect.
void merge_manifest(const CheckedManifest& manifest, const std::string& file,
                    const messages::FieldPositions& places, Config& config,
                    text::Findings& findings);

// Adds warnings that concern the whole configuration: nothing is watched, nothing may be killed, or
// a watched cgroup cannot contain a workload. `config` was made from `own` and `settings`.
void check_whole(const ReadConfig& own, const KubeletSettings& settings, const Config& config,
                 text::Findings& findings);

}  // namespace forestall::intake
