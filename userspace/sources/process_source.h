// SPDX-License-Identifier: Apache-2.0
// Processes of a part of the node with the facts for scoring: from BPF if available, otherwise from
// /proc.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/ids.h"
#include "model/process.h"

namespace forestall::kernel {
class CgroupTree;
class TaskScan;
}  // namespace forestall::kernel

namespace forestall::sources {

class ProcessSource {
 public:
  virtual ~ProcessSource() = default;

  // Replaces `samples` with all processes of the node, or with a `subtree` those whose memory
  // cgroup is in it. Kernel threads are left out. Processes that start or exit meanwhile may or may
  // not be included; none is duplicated or incomplete. With enough capacity in the vector, the BPF
  // source allocates nothing.
  virtual Result<void> scan(std::optional<CgroupId> subtree,
                            std::vector<ProcessSample>& samples) = 0;

  // Writes the kernel's own order into `order` of the given samples, all of one cgroup. Used if
  // points are equal. False: the order is unknown, `order` stays unchanged.
  virtual Result<bool> order(std::vector<ProcessSample>& samples,
                             const std::vector<std::size_t>& which) = 0;

  // The same for processes of the whole node, whatever their cgroups. The kernel walks them by age
  // (for_each_process), independent of the order within a cgroup.
  virtual Result<bool> order_on_node(std::vector<ProcessSample>& /*samples*/,
                                     const std::vector<std::size_t>& /*which*/) {
    return false;  // only the fork times are known
  }

  // "bpf" or "proc".
  [[nodiscard]] virtual std::string_view name() const = 0;
};

// `tree` must outlive the source.
[[nodiscard]] Result<std::unique_ptr<ProcessSource>> proc_process_source(
    const kernel::CgroupTree& tree, const std::string& proc = "/proc");
[[nodiscard]] std::unique_ptr<ProcessSource> bpf_process_source(
    std::unique_ptr<kernel::TaskScan> scan);

}  // namespace forestall::sources
