// SPDX-License-Identifier: Apache-2.0
// Options of `forestall qos --memory-qos`.
#pragma once

#include <string>

namespace forestall::cli {

struct MemoryQosOptions {
  bool enabled = false;
  std::string kubelet_config;
  std::string node_allocatable;  // quantity; "0": unknown
  std::string kubelet_version;   // empty: the newest that is supported
  std::string page_size;         // quantity; empty: this host's
};

}  // namespace forestall::cli
