// SPDX-License-Identifier: Apache-2.0
#include "cli/config_options.h"

#include <CLI/CLI.hpp>

namespace forestall::cli {

void add_config_options(CLI::App& command, Options& options) {
  command.add_option("-c,--config", options.config,
                     "Configuration file (default: /etc/forestall/config.yaml if there is one, "
                     "else built in)");
  command.add_option("--kubelet-config", options.kubelet_config,
                     "The kubelet's own configuration file (KubeletConfiguration), whose eviction "
                     "settings hold where the configuration has none");
  for (const api::KubeletFlag& flag : api::kubelet_flags()) {
    const std::string name = "--" + std::string(flag.name);
    const auto keep = [&options, &flag](const std::string& value) {
      options.kubelet_flags[flag.name].push_back(value);
    };
    // On every parse: a repeated flag adds to what the ones before it said.
    CLI::Option* option = command.add_option_function<std::string>(name, keep, flag.help);
    option->trigger_on_parse()->option_text(flag.form)->group("Kubelet's flags");
    if (flag.valueless) option->expected(0, 1)->default_str("true");
  }
}

void add_plan_options(CLI::App& command, PlanOptions& options) {
  command.add_option("--memory-capacity", options.memory,
                     "The node's memory, e.g. 32Gi (without any capacity: this host's)");
  command.add_option("--cpu", options.cpu, "The node's CPUs");
  command.add_option("--storage", options.storage, "Size of the node's nodefs, e.g. 100Gi");
  command.add_option("--pids", options.pids, "How many process IDs the node has");
  command.add_option("--pods", options.pods, "How many pods the node takes (maxPods)");
  command.add_option("--hugepages", options.huge_pages,
                     "Memory preallocated for huge pages (default: none)");
  command.add_option("--reserve", options.reserve,
                     "Part of the memory that is the system's: a percentage or an amount");
  command.add_option("--evict-at", options.evict_at,
                     "Memory in use at which eviction begins: a percentage or an amount");
}

}  // namespace forestall::cli
