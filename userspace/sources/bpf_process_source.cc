// SPDX-License-Identifier: Apache-2.0
// Reads all processes with one BPF walk in the kernel.
#include "kernel/task_scan.h"
#include "sources/process_source.h"
#include "sources/task_sample.h"
#include "sources/walk_order.h"

namespace forestall::sources {
namespace {

class BpfProcessSource final : public ProcessSource {
 public:
  explicit BpfProcessSource(std::unique_ptr<kernel::TaskScan> scan) : scan_(std::move(scan)) {}

  Result<void> scan(std::optional<CgroupId> subtree, std::vector<ProcessSample>& samples) override {
    samples.clear();
    const auto counting = scan_->calibration().counting;
    // Points depend on the domain, so the caller computes them from the samples.
    kernel::TaskQuery query;
    query.subtree = subtree;
    return scan_->visit(query, [&samples, counting](const abi_task& task) {
      samples.push_back(to_sample(task, counting));
    });
  }

  Result<bool> order(std::vector<ProcessSample>& samples,
                     const std::vector<std::size_t>& which) override {
    if (which.empty()) return false;
    return order_by_walk(samples[which.front()].cgroup, samples, which);
  }

  Result<bool> order_on_node(std::vector<ProcessSample>& samples,
                             const std::vector<std::size_t>& which) override {
    return order_by_walk({}, samples, which);
  }

  [[nodiscard]] std::string_view name() const override { return "bpf"; }

 private:
  Result<bool> order_by_walk(CgroupId cgroup, std::vector<ProcessSample>& samples,
                             const std::vector<std::size_t>& which) {
    const auto walk = scan_->walk_order(cgroup);
    if (walk) return take_walk_order(*walk, samples, which);
    // The cgroup changes too fast, or is too large.
    if (walk.error().code == EAGAIN || walk.error().code == EOVERFLOW) return false;
    return walk.error();
  }

  std::unique_ptr<kernel::TaskScan> scan_;
};

}  // namespace

std::unique_ptr<ProcessSource> bpf_process_source(std::unique_ptr<kernel::TaskScan> scan) {
  return std::make_unique<BpfProcessSource>(std::move(scan));
}

}  // namespace forestall::sources
