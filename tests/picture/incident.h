// SPDX-License-Identifier: Apache-2.0
// A recording of a node that never was, with an incident on it: quiet minutes, a leak that meets a
// soft threshold and then a hard one, a kill whose memory comes back, and a kill by the kernel in a
// cgroup that nobody watched. Decided on by the policy, written by the agent's own recorder: what
// `forestall report` is shown in tests and screenshots.
#pragma once

#include <cstddef>
#include <string>

namespace forestall::test {

struct Incident {
  std::size_t workloads = 3;
  bool calm = false;  // it ends before anything happens
  bool dry_run = false;
  bool evil_names = false;  // workloads and processes are called what a page must not run
};

void write_incident(const std::string& path, const Incident& incident);

}  // namespace forestall::test
