// SPDX-License-Identifier: Apache-2.0
// Every process of a part of the node, scored facts only: from BPF where it may be used, else from
// /proc. One interface, so that nobody above knows which it was.
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

  // Replaces `samples` by all processes of the node, or with a `subtree` by those whose memory
  // cgroup is that one or lies below it. Kernel threads are left out. Processes that come or go
  // meanwhile may be in it or not; none is in it twice, and none half. With a vector of enough
  // capacity nothing is allocated (BPF).
  virtual Result<void> scan(std::optional<CgroupId> subtree,
                            std::vector<ProcessSample>& samples) = 0;

  // Puts the kernel's own order into `order` of those samples, all of one cgroup, whose indices are
  // given: asked for when points are equal. False: it cannot be told, `order` stays as it was.
  virtual Result<bool> order(std::vector<ProcessSample>& samples,
                             const std::vector<std::size_t>& which) = 0;

  // The same for processes of the whole node, whatever their cgroups: that walk goes by age
  // (for_each_process) and knows nothing of the order within a cgroup.
  virtual Result<bool> order_on_node(std::vector<ProcessSample>& /*samples*/,
                                     const std::vector<std::size_t>& /*which*/) {
    return false;  // when they were forked is as much as is known
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
