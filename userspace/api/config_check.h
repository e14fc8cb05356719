// SPDX-License-Identifier: Apache-2.0
// From what an operator wrote to what is in force: every rule about values that the schema cannot
// express. Pure: files were read before (config_file.h).
#pragma once

#include <vector>

#include "api/diagnostic.h"
#include "api/yaml_message.h"
#include "forestall/v1/config.pb.h"
#include "forestall/v1/manifest.pb.h"
#include "model/config.h"

namespace forestall::api {

// What was found in one file. Errors keep the configuration from being used; a warning is about
// something that is allowed but hardly meant.
struct Findings {
  std::vector<Diagnostic> errors;
  std::vector<Diagnostic> warnings;
};

// The rules of the manifest, in the order of the file.
struct CheckedManifest {
  std::vector<PodRule> pods;
  std::vector<WorkloadRule> cgroups;
};

// Where no key is given the default of model/config.h holds, and kubelet's for evictionHard.
// Only when no error was added is the result of use.
[[nodiscard]] Config check_config(const v1::Config& file, const Places& places, Findings& findings);

[[nodiscard]] CheckedManifest check_manifest(const v1::Manifest& file, const Places& places,
                                             Findings& findings);

// Adds the manifest's rules after those of the configuration. Warns, about the manifest, of what
// can never take effect.
void merge_manifest(const CheckedManifest& manifest, const Places& places, Config& config,
                    Findings& findings);

// Warns of what only the whole configuration shows: that nothing is watched, that nothing may be
// killed, that a watched cgroup can hold no workload. `file` is what `config` was made from.
void check_whole(const v1::Config& file, const Config& config, const Places& places,
                 Findings& findings);

}  // namespace forestall::api
