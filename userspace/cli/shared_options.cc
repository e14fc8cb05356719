// SPDX-License-Identifier: Apache-2.0
#include "cli/shared_options.h"

#include <string>
#include <vector>

#include "cli/option_forms.h"
#include "intake/kubelet_flags.h"
#include "model/feature.h"

namespace forestall::cli {
namespace {

// All features, for shell completions.
std::string feature_words() {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < kFeatureCount; ++i) words.emplace_back(to_string(feature_at(i)));
  return CLI::detail::join(words, "|");
}

}  // namespace

CLI::Option* add_output(CLI::App& command, Options& options, const char* names) {
  return add_choice(
      command, names, {"text", "json"},
      [&options](std::size_t i) {
        options.output = i == 0 ? OutputFormat::text : OutputFormat::json;
      },
      "Output format (default: text)");
}

void add_agent_address(CLI::App& command, Options& options) {
  add_value(command, "--run-dir", options.run_directory, "DIRECTORY",
            "Run directory of the agent, with its socket forestall.sock (default: /run/forestall)");
  add_value(command, "--socket", options.socket, "PATH",
            "Socket of the agent's gRPC API (apiSocket), if it is not in the run directory");
}

void add_host(CLI::App& command, Options& options) {
  constexpr const char* kGroup = "Host";
  add_value(command, "--disable-feature", options.disabled, "NAME",
            "Do not use a kernel feature, by its name in `doctor`; may be repeated")
      ->type_name(feature_words())
      ->group(kGroup);
  add_value(command, "--cgroup-mount", options.cgroup_mount, "PATH",
            "Mount point of the host's cgroup filesystem (default: /sys/fs/cgroup)")
      ->group(kGroup);
}

void add_config(CLI::App& command, Options& options) {
  constexpr const char* kGroup = "Configuration";
  add_value(command, "-c,--config", options.config, "FILE",
            "Configuration file (default: /etc/forestall/config.yaml if it exists, else built in)")
      ->group(kGroup);
  add_value(command, "--kubelet-config", options.kubelet_config, "FILE",
            "KubeletConfiguration file; its eviction settings apply where the configuration file "
            "has none")
      ->group(kGroup);
}

void add_kubelet_flags(CLI::App& command, Options& options) {
  for (const intake::KubeletFlag& flag : intake::kubelet_flags()) {
    const auto keep = [&options, &flag](const std::string& value) {
      options.kubelet_flags[flag.name].push_back(value);
    };
    // On every parse: a repeated flag adds to its earlier values.
    CLI::Option* option =
        command.add_option_function<std::string>("--" + std::string(flag.name), keep, flag.help);
    option->trigger_on_parse()->option_text(flag.form)->group("Kubelet flags (override the files)");
    if (flag.valueless) option->expected(0, 1)->default_str("true");
  }
}

}  // namespace forestall::cli
