// SPDX-License-Identifier: Apache-2.0
// Options of `forestall plan`.
#pragma once

#include <string>

namespace forestall::cli {

// As given on the command line; empty: not given.
struct PlanOptions {
  std::string memory;  // capacities
  std::string cpu;
  std::string storage;
  std::string pids;
  std::string pods;
  std::string huge_pages;
  std::string reserve;  // "10%" or an amount
  std::string evict_at;
};

}  // namespace forestall::cli
