// SPDX-License-Identifier: Apache-2.0
// `forestall qos --memory-qos`.
#pragma once

#include <string>

#include "cli/options.h"
#include "cli/pod_commands.h"

namespace forestall::cli {

struct MemoryQosOptions {
  bool enabled = false;
  std::string kubelet_config;
  std::string node_allocatable;  // quantity; "0": unknown
  std::string kubelet_version;   // empty: the newest that is supported
  std::string page_size;         // quantity; empty: this host's
};

// Pods and capacity are in `qos`. Returns the exit code (cli/exit_code.h).
int run_memory_qos(const Options& options, const QosOptions& qos,
                   const MemoryQosOptions& memory_qos);

}  // namespace forestall::cli
