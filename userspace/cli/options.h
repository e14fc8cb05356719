// SPDX-License-Identifier: Apache-2.0
// Options that several subcommands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "exports/log.h"
#include "intake/backstop.h"
#include "intake/config_file.h"
#include "model/config.h"

namespace forestall::cli {

enum class OutputFormat : std::uint8_t { text, json };

struct Options {
  std::string config;          // empty: /etc/forestall/config.yaml if it exists, else built in
  std::string kubelet_config;  // the kubelet's own file; empty: the one `config` names
  intake::GivenFlags kubelet_flags;  // flags with kubelet's names
  OutputFormat output = OutputFormat::text;
  std::vector<std::string> disabled;  // feature names
  std::string cgroup_mount = "/sys/fs/cgroup";
  std::string run_directory = "/run/forestall";
  std::string keep_guard = {};        // "systemd", or a directory on a bpffs; empty: nowhere
  std::string socket = {};            // of the agent's gRPC API; empty: in its run directory
  std::string oomd_config = {};       // of the agent: oomd.json; empty: none
  std::string oomd_drop_in_dir = {};  // of the agent, with oomd_config; empty: none
  bool dry_run = false;
  bool verbose = false;
  bool managed = false;                               // of status: managedOOM only
  std::optional<exports::LogFormat> log_format = {};  // of the agent; nullopt: by the stream
};

// The configuration for the options; the command line overrides files. Errors in files start with
// FILE:LINE:COLUMN. An agent requires `trust` in the files.
[[nodiscard]] Result<intake::LoadedConfig> loaded_config(
    const Options& options, intake::FileTrust trust = intake::FileTrust::any);

// Adds the backstop on memory.untilOom, unless it is switched off or this host does not show where
// it lies. The latter is a warning.
void add_backstop_of_host(intake::LoadedConfig& loaded);

// The configuration of an agent on this host: loaded_config() with the backstop.
[[nodiscard]] Result<intake::LoadedConfig> host_config(
    const Options& options, intake::FileTrust trust = intake::FileTrust::any);

// What the backstop of this host depends on.
[[nodiscard]] Result<intake::BackstopFacts> backstop_facts();

// loaded_config() without origins. Its warnings are appended.
[[nodiscard]] Result<Config> effective_config(const Options& options,
                                              std::vector<std::string>& warnings);

// The features disabled on the command line. An unknown name is an error that lists all features.
[[nodiscard]] Result<FeatureSet> disabled_features(const Options& options);

// The agent's gRPC socket, unless the configuration sets another one.
[[nodiscard]] std::string api_socket(const Options& options);

// The paths that effective_config() reads, or "built in".
[[nodiscard]] std::string config_origin(const Options& options);

}  // namespace forestall::cli
