// SPDX-License-Identifier: Apache-2.0
#include "kernel/task_scan.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/random.h>
#include <unistd.h>

#include <forestall_tasks.skel.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "kernel/attach_types.h"
#include "kernel/bpf_host.h"
#include "kernel/bpf_log.h"
#include "kernel/bpf_run.h"
#include "kernel/relocation_types.h"

namespace forestall::kernel {
namespace {

// Tries of a walk that a fork or an exit tears. If all are torn, the order changes too fast to be
// of use.
constexpr int kWalkTries = 16;

// Calibration takes some ten milliseconds; the bound is for slow, busy emulated machines.
constexpr Duration kCalibrationPatience = std::chrono::seconds(10);

using TasksSkeleton = std::unique_ptr<forestall_tasks, BpfDeleter<&forestall_tasks::destroy>>;

long page_bytes() {
  return ::sysconf(_SC_PAGESIZE);
}

Result<TasksSkeleton> load_skeleton(const KernelTypes& types) {
  const BpfLog log;
  const AttachTypes attach_types(types);
  const RelocationTypes relocation_types(types, forestall_tasks__elf_bytes);
  LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = relocation_types.path());
  TasksSkeleton skeleton(forestall_tasks__open_opts(&options));
  if (!skeleton) return errno_error("open", "BPF object of tasks");
  skeleton->rodata->page_shift = page_shift();
  skeleton->rodata->one_node =
      possible_numbers("/sys/devices/system/node/possible") == std::vector<std::uint32_t>{0} ? 1
                                                                                             : 0;
  auto& mask = skeleton->rodata->address_mask;
  __u64 random = 0;
  // Without it memory_id reveals kernel addresses, and nothing else fails.
  if (::getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0) random = 0;
  std::memcpy(const_cast<__u64*>(&mask), &random, sizeof(random));
  const int failure = forestall_tasks__load(skeleton.get());
  if (failure == 0) return skeleton;
  return Error{-failure, "load BPF object of tasks: " + summarize_bpf_log(log.text())};
}

}  // namespace

class TaskScan::Loaded {
 public:
  explicit Loaded(TasksSkeleton object)
      : skeleton(std::move(object)),
        // The size of the kernel's own buffer (PAGE_SIZE << 3 in kernel/bpf/bpf_iter.c), so each
        // read() returns whole records.
        buffer(static_cast<std::size_t>(page_bytes()) * 8 / sizeof(abi_task)) {}

  Result<void> start();
  void set_query(const TaskQuery& query);
  // Runs the program of `link` to its end; `visit` gets each record.
  template <typename Visit>
  Result<void> run(const BpfLink& link, const Visit& visit);
  Result<void> walk();

  TasksSkeleton skeleton;
  std::vector<abi_task> buffer;
  BpfLink scan;
  BpfLink walker;
  Calibration calibration;

 private:
  void learn_cpus();
  Result<abi_task> read_one(pid_t pid);
};

// On failure no sums are made, and each record has ABI_TASK_NO_SUM.
void TaskScan::Loaded::learn_cpus() {
  const std::vector<std::uint32_t> cpus = possible_numbers("/sys/devices/system/cpu/possible");
  std::ranges::copy(cpus, skeleton->bss->cpu_offsets);
  skeleton->bss->cpu_count = static_cast<__u32>(cpus.size());
  const auto learnt = run_program(skeleton->progs.learn_cpus);
  const auto offsets = std::span(skeleton->bss->cpu_offsets).first(cpus.size());
  if (!learnt || *learnt != 0 || std::ranges::find(offsets, 0U) != offsets.end()) {
    skeleton->bss->cpu_count = 0;
  }
}

Result<void> TaskScan::Loaded::start() {
  learn_cpus();
  scan = TRY(attach_iterator(skeleton->progs.scan, nullptr));
  walker = TRY(attach_iterator(skeleton->progs.walk, nullptr));
  calibration = calibrate_rss([this](pid_t pid) { return read_one(pid); }, kCalibrationPatience);
  skeleton->bss->score_by_sum = calibration.counting == RssCounting::summed ? 1 : 0;
  return {};
}

void TaskScan::Loaded::set_query(const TaskQuery& query) {
  skeleton->bss->wanted_cgroup = query.subtree ? query.subtree->inode : 0;
  skeleton->bss->pages_per_adj = query.total_pages / 1000;
  const bool sums = query.both_ways || calibration.counting == RssCounting::summed;
  skeleton->bss->sums_wanted = sums && skeleton->bss->cpu_count != 0 ? 1 : 0;
  // The cached result is for the previous wanted cgroup.
  skeleton->bss->last_cgroup = 0;
  skeleton->bss->last_is_wanted = 0;
}

template <typename Visit>
Result<void> TaskScan::Loaded::run(const BpfLink& link, const Visit& visit) {
  const UniqueFd records(bpf_iter_create(bpf_link__fd(link.get())));
  if (!records) return errno_error("bpf_iter_create", "tasks");
  for (;;) {
    const ssize_t got = ::read(records.get(), buffer.data(), buffer.size() * sizeof(abi_task));
    // EAGAIN: the kernel skipped a million tasks without output; the next read() continues.
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return errno_error("read", "BPF iterator of tasks");
    if (got == 0) return {};
    const auto bytes = static_cast<std::size_t>(got);
    if (bytes % sizeof(abi_task) != 0) return error("BPF iterator of tasks: half a record");
    for (const abi_task& task : std::span(buffer).first(bytes / sizeof(abi_task))) visit(task);
  }
}

Result<abi_task> TaskScan::Loaded::read_one(pid_t pid) {
  set_query({std::nullopt, 0, true});
  bpf_iter_link_info one{};
  one.task.tid = static_cast<__u32>(pid);
  const BpfLink link = TRY(attach_iterator(skeleton->progs.scan, &one));
  std::optional<abi_task> found;
  TRY(run(link, [&](const abi_task& task) { found = task; }));
  if (!found) return Error{ESRCH, "BPF iterator of task " + std::to_string(pid)};
  return *found;
}

Result<void> TaskScan::Loaded::walk() {
  for (int i = 0; i < kWalkTries; ++i) {
    skeleton->bss->walked_count = 0;
    skeleton->bss->walk_state = ABI_WALK_EMPTY;
    TRY(run(walker, [](const abi_task&) {}));
    switch (skeleton->bss->walk_state) {
      case ABI_WALK_EMPTY:
      case ABI_WALK_DONE: return {};
      case ABI_WALK_TORN: continue;
      default: return Error{EOVERFLOW, "the kernel's order of processes"};
    }
  }
  return Error{EAGAIN, "the kernel's order of processes"};
}

TaskScan::TaskScan(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
TaskScan::~TaskScan() = default;

Result<std::unique_ptr<TaskScan>> TaskScan::load(const KernelTypes& types) {
  TRY(require_initial_pid_namespace());
  auto loaded = std::make_unique<Loaded>(TRY(load_skeleton(types)));
  TRY(loaded->start());
  return std::unique_ptr<TaskScan>(new TaskScan(std::move(loaded)));
}

Result<void> TaskScan::visit(const TaskQuery& query,
                             const std::function<void(const abi_task&)>& visit) {
  loaded_->set_query(query);
  return loaded_->run(loaded_->scan, visit);
}

Result<std::vector<pid_t>> TaskScan::walk_order(CgroupId cgroup) {
  loaded_->set_query({cgroup});
  TRY(loaded_->walk());
  const auto& found = *loaded_->skeleton->bss;
  return std::vector<pid_t>(found.walked, found.walked + found.walked_count);
}

const Calibration& TaskScan::calibration() const {
  return loaded_->calibration;
}

}  // namespace forestall::kernel
