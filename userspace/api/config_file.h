// SPDX-License-Identifier: Apache-2.0
// The configuration file and the manifest it names, read and checked.
//
// All or nothing: a configuration with any error is not used, so that a reload with a mistake
// leaves the old one in force. The text of an Error is what to print: one FILE:LINE:COLUMN:
// message per line, at most twenty.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"

namespace forestall::api {

struct LoadedConfig {
  Config config;
  // Allowed but hardly meant; FILE:LINE:COLUMN: message.
  std::vector<std::string> warnings;
  // The files that were read, the manifest included: what a reload reads again.
  std::vector<std::string> files;
};

// Text of a file of at most 1 MiB.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;
[[nodiscard]] Result<std::string> read_text_file(const std::string& path);

// What is in force without any file: kubelet's default memory threshold on the node and on the
// pods cgroup, every pod a workload, nothing else.
[[nodiscard]] Config built_in_config();

// Reads the file and, if it names one, the manifest.
[[nodiscard]] Result<LoadedConfig> load_config(const std::string& path);

// The same for a text at hand. `file` stands in messages and is what a relative path of the
// manifest starts from; the manifest is read through `read`.
[[nodiscard]] Result<LoadedConfig> parse_config(std::string_view text, const std::string& file,
                                                const ReadFile& read = read_text_file);

}  // namespace forestall::api
