// SPDX-License-Identifier: Apache-2.0
// From what an operator wrote to what is in force: every rule about values that the schema cannot
// express. Pure: files were read before (config_file.h).
#pragma once

#include <string>
#include <vector>

#include "api/diagnostic.h"
#include "api/eviction_settings.h"
#include "api/kubelet_settings.h"
#include "api/yaml_message.h"
#include "forestall/v1/config.pb.h"
#include "forestall/v1/manifest.pb.h"
#include "model/config.h"

namespace forestall::api {

// A configuration file as it was read; without any file, all of it empty.
struct ReadConfig {
  std::string file;
  v1::Config message;
  Places places;
};

struct CheckedConfig {
  Config config;
  std::vector<ThresholdOrigin> origins;  // one for each of the thresholds
};

// The rules of the manifest, in the order of the file.
struct CheckedManifest {
  std::vector<PodRule> pods;
  std::vector<WorkloadRule> cgroups;
};

// What the file says of the settings it shares with the kubelet.
[[nodiscard]] KubeletSettings shared_settings(const ReadConfig& own);

// `settings` is what counts of all fronts. Where nothing is given the default of model/config.h
// holds, and kubelet's for evictionHard. Only when no error was added is the result of use.
[[nodiscard]] CheckedConfig check_config(const ReadConfig& own, const KubeletSettings& settings,
                                         Findings& findings);

[[nodiscard]] CheckedManifest check_manifest(const v1::Manifest& message, const std::string& file,
                                             const Places& places, Findings& findings);

// Adds the manifest's rules after those of the configuration. Warns, about the manifest, of what
// can never take effect.
void merge_manifest(const CheckedManifest& manifest, const std::string& file, const Places& places,
                    Config& config, Findings& findings);

// Warns of what only the whole configuration shows: that nothing is watched, that nothing may be
// killed, that a watched cgroup can hold no workload. `config` was made from `own` and `settings`.
void check_whole(const ReadConfig& own, const KubeletSettings& settings, const Config& config,
                 Findings& findings);

}  // namespace forestall::api
