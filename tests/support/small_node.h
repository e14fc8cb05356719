// SPDX-License-Identifier: Apache-2.0
// The cgroup v2 tree and the procfs of a small node, as files: what an observer reads.
#pragma once

#include <initializer_list>
#include <string>

#include "support/temp_tree.h"

namespace forestall::test {

class SmallNode : public TempTree {
 public:
  // With these cgroups besides the root, without processes and memory files.
  SmallNode(std::initializer_list<std::string> groups = {})
      : TempTree{{"cgroup/cgroup.controllers", "memory\n"},
                 {"cgroup/cgroup.procs", ""},
                 {"proc/meminfo",
                  "MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapTotal: 0 kB\n"
                  "SwapFree: 0 kB\n"},
                 {"proc/vmstat", "nr_anon_pages 300\nnr_file_pages 200\nnr_inactive_file 50\n"},
                 {"proc/loadavg", "0.00 0.01 0.05 2/3518 4711\n"},
                 {"proc/sys/kernel/pid_max", "4194304\n"},
                 {"proc/sys/kernel/threads-max", "31000\n"}} {
    for (const std::string& each : groups) write("cgroup" + each + "/cgroup.procs", "");
  }

  // Makes a cgroup without processes, or sets its memory in bytes.
  void set_group(const std::string& path, int usage, int inactive_file = 0) const {
    write("cgroup" + path + "/cgroup.procs", "");
    write("cgroup" + path + "/memory.current", std::to_string(usage) + "\n");
    write("cgroup" + path + "/memory.stat",
          "inactive_file " + std::to_string(inactive_file) + "\n");
  }
};

}  // namespace forestall::test
