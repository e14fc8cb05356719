// SPDX-License-Identifier: Apache-2.0
// The configuration: Forestall's file, the kubelet's it may go by, kubelet's flags, and the files
// they name, read, checked and put together.
//
// A flag counts before Forestall's file, and that before the kubelet's. All or nothing: a
// configuration with any error is not used, so that a reload with a mistake leaves the old one in
// force. The text of an Error is what to print: one FILE:LINE:COLUMN: message (or FLAG: message)
// per line, at most twenty for a file.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/eviction_settings.h"
#include "api/kubelet_flags.h"
#include "base/result.h"
#include "model/config.h"

namespace forestall::api {

struct LoadedConfig {
  Config config;
  std::vector<ThresholdOrigin> origins;  // one for each of the thresholds
  bool hard_given = false;               // whether evictionHard was written at all
  // Allowed but hardly meant; FILE:LINE:COLUMN: message.
  std::vector<std::string> warnings;
  // The files that were read, those that are named by others included: what a reload reads again.
  std::vector<std::string> files;
};

// Where a configuration comes from. All of it empty: it is built in.
struct ConfigInputs {
  std::string config;          // path of Forestall's file; empty: none
  std::string kubelet_config;  // path of the kubelet's; empty: the one Forestall's file names
  GivenFlags flags;            // kubelet's
};

// Text of a file of at most 1 MiB.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;
[[nodiscard]] Result<std::string> read_text_file(const std::string& path);

// What is in force without any file: kubelet's default thresholds, every pod a workload, nothing
// else.
[[nodiscard]] Config built_in_config();

[[nodiscard]] Result<LoadedConfig> load_config(const ConfigInputs& inputs,
                                               const ReadFile& read = read_text_file);

// Of Forestall's file alone, with what it names.
[[nodiscard]] Result<LoadedConfig> load_config(const std::string& path);

// The same for a text at hand. `file` stands in messages and is what relative paths start from;
// what it names is read through `read`.
[[nodiscard]] Result<LoadedConfig> parse_config(std::string_view text, const std::string& file,
                                                const ReadFile& read = read_text_file);

}  // namespace forestall::api
