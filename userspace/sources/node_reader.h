// SPDX-License-Identifier: Apache-2.0
// The node's memory as kubelet computes it (pkg/kubelet/stats, cadvisor, runc's fs/memory.go and
// fs2/memory.go): usage - inactive_file of the root group, totals from meminfo.
//
// On cgroup v1 usage is the root's usage_in_bytes and inactive_file its total_inactive_file. The
// root of v2 has no usage file, and kubelet takes anon + file and inactive_file of its memory.stat.
// Those are /proc/vmstat's nr_anon_pages, nr_file_pages and nr_inactive_file, summed up by rstat,
// whose flush is skipped below an update count that grows with the CPUs (mm/memcontrol.c
// memcg_vmstats_needs_flush, 6.1+): on a big machine it may be tens of MiB behind. So they are read
// from vmstat, which is always current, and is what the poll source and the BPF timer compare.
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
// From the text of /proc/vmstat; `page_size` in bytes. An error names the counters when one of them
// is missing.
[[nodiscard]] Result<NodeUsage> parse_node_usage(std::string_view vmstat, std::int64_t page_size);

class NodeReader {
 public:
  static Result<NodeReader> open(const kernel::CgroupTree& tree, const std::string& proc);

  // Fresh values; what could not be read stays unknown and gets a note.
  [[nodiscard]] NodeSample read(std::string& buffer, std::vector<SourceNote>& notes) const;

 private:
  // `stat` is the root's memory.stat with its `usage` file on v1, /proc/vmstat without one on v2.
  NodeReader(kernel::HeldFile meminfo, kernel::HeldFile stat,
             std::optional<kernel::HeldFile> usage) noexcept
      : meminfo_(std::move(meminfo)), stat_(std::move(stat)), usage_(std::move(usage)) {}
  kernel::HeldFile meminfo_;
  kernel::HeldFile stat_;
  std::optional<kernel::HeldFile> usage_;
};

}  // namespace forestall::sources
