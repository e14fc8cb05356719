// SPDX-License-Identifier: Apache-2.0
// Options of `forestall events`.
#pragma once

#include <cstdint>
#include <string>

namespace forestall::cli {

struct EventsOptions {
  std::string path;         // a recording or a directory of segments; empty: the agent's
  std::string since;        // empty: from the start
  std::string until;        // empty: to the end
  std::string kinds;        // comma-separated; empty: all
  std::uint64_t limit = 0;  // only the last events; 0: all, or with `follow` a few
  bool follow = false;      // continue with what is recorded from now on
};

}  // namespace forestall::cli
