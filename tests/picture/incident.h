// SPDX-License-Identifier: Apache-2.0
// A recording of a made-up node with an incident: quiet minutes, a leak that reaches a soft and
// then a hard threshold, a kill whose memory is freed, and a kill by the kernel in an unwatched
// cgroup. The policy decides, the agent's recorder writes. Tests and screenshots of `forestall
// report` use it.
#pragma once

#include <cstddef>
#include <string>

namespace forestall::test {

struct Incident {
  std::size_t workloads = 3;
  bool calm = false;  // it ends before the incident
  bool dry_run = false;
  // names of workloads and processes contain code that a page must not run
  bool evil_names = false;
};

void write_incident(const std::string& path, const Incident& incident);

}  // namespace forestall::test
