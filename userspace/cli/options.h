// SPDX-License-Identifier: Apache-2.0
// Options that several subcommands share, as parsed from the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/config_file.h"
#include "base/result.h"
#include "model/config.h"

namespace forestall::cli {

enum class OutputFormat : std::uint8_t { text, json };

struct Options {
  std::string config;             // empty: /etc/forestall/config.yaml if it exists, else built in
  std::string kubelet_config;     // the kubelet's own file; empty: the one `config` names
  api::GivenFlags kubelet_flags;  // of kubelet's names
  OutputFormat output = OutputFormat::text;
  std::vector<std::string> disabled;  // feature names
  std::string cgroup_mount = "/sys/fs/cgroup";
  std::string run_directory = "/run/forestall";
  std::string socket = {};  // where the agent serves gRPC; empty: in its run directory
  bool dry_run = false;
  bool verbose = false;
};

// The configuration the options ask for, command line over files. Errors are worded
// FILE:LINE:COLUMN where they come from a file.
[[nodiscard]] Result<api::LoadedConfig> loaded_config(const Options& options);

// The same without where it came from. Warnings about it are appended.
[[nodiscard]] Result<Config> effective_config(const Options& options,
                                              std::vector<std::string>& warnings);

// The features the command line turns off; an unknown name is an error that lists all of them.
[[nodiscard]] Result<FeatureSet> disabled_features(const Options& options);

// Where a running agent serves gRPC unless its configuration has another place.
[[nodiscard]] std::string api_socket(const Options& options);

// Where a running agent answers `forestall status` if it serves no gRPC.
[[nodiscard]] std::string status_socket(const Options& options);

// Where effective_config() reads from: paths, or "built in".
[[nodiscard]] std::string config_origin(const Options& options);

}  // namespace forestall::cli
