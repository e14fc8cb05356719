// SPDX-License-Identifier: Apache-2.0
// Options of `forestall trace`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace forestall::trace {

// As given on the command line; empty: not given.
struct TraceOptions {
  std::vector<std::string> cgroups = {};
  std::vector<std::string> pods = {};
  std::vector<std::string> kinds = {};
  std::string shortest = {};
  std::string summary = {};
  std::string duration = {};
  std::string buffer = {};
  std::string color = "auto";
  std::string format = "text";
  std::size_t top = 10;
  std::uint64_t count = 0;
  bool begins = false;
  bool without_agent = false;
};

}  // namespace forestall::trace
