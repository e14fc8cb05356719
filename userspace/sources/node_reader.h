// SPDX-License-Identifier: Apache-2.0
// The node's memory as kubelet computes it (pkg/kubelet/stats, cadvisor, runc's fs/memory.go and
// fs2/memory.go): usage - inactive_file of the root group, totals from meminfo.
//
// On cgroup v1 usage is the root's usage_in_bytes and inactive_file its total_inactive_file. The
// root of v2 has no usage file; kubelet takes anon + file and inactive_file from its memory.stat.
// Those are nr_anon_pages, nr_file_pages and nr_inactive_file of /proc/vmstat, summed by rstat.
// rstat skips its flush below an update count that grows with the number of CPUs (mm/memcontrol.c
// memcg_vmstats_needs_flush, memcg_should_flush_stats before 6.8), so on a big machine memory.stat
// may lag by tens of MiB. They are therefore read from vmstat, which is always current. The poll
// source and the BPF timer compare the same values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "model/observation.h"

namespace forestall::sources {

struct NodeUsage {
  Bytes usage;
  Bytes inactive_file;
};
// From the text of /proc/vmstat; `page_size` in bytes. If a counter is missing, the error names the
// counters.
[[nodiscard]] Result<NodeUsage> parse_node_usage(std::string_view vmstat, std::int64_t page_size);

class NodeReader {
 public:
  static Result<NodeReader> open(const kernel::CgroupTree& tree, const std::string& proc);

  // Fresh values. A value that cannot be read stays unset and gets a note.
  [[nodiscard]] NodeSample read(std::string& buffer, std::vector<SourceNote>& notes) const;

 private:
  // `stat`: on v1 the root's memory.stat together with `usage`; on v2 /proc/vmstat.
  NodeReader(kernel::HeldFile meminfo, kernel::HeldFile stat,
             std::optional<kernel::HeldFile> usage) noexcept
      : meminfo_(std::move(meminfo)), stat_(std::move(stat)), usage_(std::move(usage)) {}
  kernel::HeldFile meminfo_;
  kernel::HeldFile stat_;
  std::optional<kernel::HeldFile> usage_;
};

}  // namespace forestall::sources
