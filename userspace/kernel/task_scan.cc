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
#include "kernel/bpf_host.h"
#include "kernel/bpf_log.h"

namespace forestall::kernel {
namespace {

// A walk that is torn by a fork or an exit is tried again; where each of these is torn, the order
// changes faster than anybody could use it.
constexpr int kWalkTries = 16;

// It takes some ten milliseconds; this is for emulated machines that do ten other things besides.
constexpr Duration kCalibrationPatience = std::chrono::seconds(10);

struct SkeletonDeleter {
  void operator()(forestall_tasks* skeleton) const { forestall_tasks__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<forestall_tasks, SkeletonDeleter>;

struct LinkDeleter {
  void operator()(bpf_link* link) const { bpf_link__destroy(link); }
};
using Link = std::unique_ptr<bpf_link, LinkDeleter>;

long page_bytes() {
  return ::sysconf(_SC_PAGESIZE);
}

Result<Skeleton> load_skeleton() {
  const BpfLog log;
  Skeleton skeleton(forestall_tasks__open());
  if (!skeleton) return errno_error("open", "BPF object of tasks");
  skeleton->rodata->page_shift = page_shift();
  skeleton->rodata->one_node =
      possible_numbers("/sys/devices/system/node/possible") == std::vector<std::uint32_t>{0} ? 1
                                                                                             : 0;
  auto& mask = skeleton->rodata->address_mask;
  __u64 random = 0;
  // Nothing is at stake without it but that memory_id would tell more than it should.
  static_cast<void>(::getrandom(&random, sizeof(random), GRND_NONBLOCK));
  std::memcpy(const_cast<__u64*>(&mask), &random, sizeof(random));
  const int failure = forestall_tasks__load(skeleton.get());
  if (failure == 0) return skeleton;
  return Error{-failure, "load BPF object of tasks: " + summarize_bpf_log(log.text())};
}

// An iterator to attach `program` to all tasks, or to the one thread `tid`.
Result<Link> attach(const bpf_program* program, std::optional<pid_t> tid) {
  const BpfLog quiet;
  bpf_iter_link_info what{};
  LIBBPF_OPTS(bpf_iter_attach_opts, options);
  if (tid) {
    what.task.tid = static_cast<__u32>(*tid);
    options.link_info = &what;
    options.link_info_len = sizeof(what);
  }
  Link link(bpf_program__attach_iter(program, &options));
  if (!link) return errno_error("attach", std::string("iter/task ") + bpf_program__name(program));
  return link;
}

}  // namespace

class TaskScan::Loaded {
 public:
  explicit Loaded(Skeleton object)
      : skeleton(std::move(object)),
        // What the kernel itself collects before it hands anything over (PAGE_SIZE << 3 in
        // kernel/bpf/bpf_iter.c), so that each read() returns whole records.
        buffer(static_cast<std::size_t>(page_bytes()) * 8 / sizeof(abi_task)) {}

  Result<void> start();
  void ask(const TaskQuery& query);
  // Runs the program of `link` to its end. `visit` sees what it wrote.
  template <typename Visit>
  Result<void> run(const Link& link, const Visit& visit);
  Result<void> walk();

  Skeleton skeleton;
  std::vector<abi_task> buffer;
  Link scan;
  Link walker;
  Calibration calibration;

 private:
  void learn_cpus();
  Result<abi_task> read_one(pid_t pid);
};

// Where it does not work, no sums are known, and each record says so.
void TaskScan::Loaded::learn_cpus() {
  const std::vector<std::uint32_t> cpus = possible_numbers("/sys/devices/system/cpu/possible");
  std::ranges::copy(cpus, skeleton->bss->cpu_offsets);
  skeleton->bss->cpu_count = static_cast<__u32>(cpus.size());
  LIBBPF_OPTS(bpf_test_run_opts, options);
  const int failed = bpf_prog_test_run_opts(bpf_program__fd(skeleton->progs.learn_cpus), &options);
  const auto offsets = std::span(skeleton->bss->cpu_offsets).first(cpus.size());
  if (failed != 0 || options.retval != 0 || std::ranges::find(offsets, 0U) != offsets.end()) {
    skeleton->bss->cpu_count = 0;
  }
}

Result<void> TaskScan::Loaded::start() {
  learn_cpus();
  scan = TRY(attach(skeleton->progs.scan, std::nullopt));
  walker = TRY(attach(skeleton->progs.walk, std::nullopt));
  calibration = calibrate_rss([this](pid_t pid) { return read_one(pid); }, kCalibrationPatience);
  skeleton->bss->score_by_sum = calibration.counting == RssCounting::summed ? 1 : 0;
  return {};
}

void TaskScan::Loaded::ask(const TaskQuery& query) {
  skeleton->bss->wanted_cgroup = query.subtree ? query.subtree->inode : 0;
  skeleton->bss->pages_per_adj = query.total_pages / 1000;
  const bool sums = query.both_ways || calibration.counting == RssCounting::summed;
  skeleton->bss->sums_wanted = sums && skeleton->bss->cpu_count != 0 ? 1 : 0;
  // A cgroup does not move, but the one that is wanted changes.
  skeleton->bss->last_cgroup = 0;
  skeleton->bss->last_is_wanted = 0;
}

template <typename Visit>
Result<void> TaskScan::Loaded::run(const Link& link, const Visit& visit) {
  const UniqueFd records(bpf_iter_create(bpf_link__fd(link.get())));
  if (!records) return errno_error("bpf_iter_create", "tasks");
  for (;;) {
    const ssize_t got = ::read(records.get(), buffer.data(), buffer.size() * sizeof(abi_task));
    // EAGAIN: it passed over a million tasks in a row that wrote nothing, and goes on from there.
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return errno_error("read", "BPF iterator of tasks");
    if (got == 0) return {};
    const auto bytes = static_cast<std::size_t>(got);
    if (bytes % sizeof(abi_task) != 0) return error("BPF iterator of tasks: half a record");
    for (const abi_task& task : std::span(buffer).first(bytes / sizeof(abi_task))) visit(task);
  }
}

Result<abi_task> TaskScan::Loaded::read_one(pid_t pid) {
  ask({std::nullopt, 0, true});
  const Link link = TRY(attach(skeleton->progs.scan, pid));
  std::optional<abi_task> found;
  TRY(run(link, [&](const abi_task& task) { found = task; }));
  if (!found) return Error{ESRCH, "BPF iterator of task " + std::to_string(pid)};
  return *found;
}

Result<void> TaskScan::Loaded::walk() {
  for (int i = 0; i < kWalkTries; ++i) {
    skeleton->bss->walked_count = 0;
    skeleton->bss->walk_state = ABI_WALK_NOBODY;
    TRY(run(walker, [](const abi_task&) {}));
    switch (skeleton->bss->walk_state) {
      case ABI_WALK_NOBODY:
      case ABI_WALK_DONE: return {};
      case ABI_WALK_TORN: continue;
      default: return Error{EOVERFLOW, "the kernel's order of processes"};
    }
  }
  return Error{EAGAIN, "the kernel's order of processes"};
}

TaskScan::TaskScan(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
TaskScan::~TaskScan() = default;

Result<std::unique_ptr<TaskScan>> TaskScan::load() {
  TRY(require_initial_pid_namespace());
  auto loaded = std::make_unique<Loaded>(TRY(load_skeleton()));
  TRY(loaded->start());
  return std::unique_ptr<TaskScan>(new TaskScan(std::move(loaded)));
}

Result<void> TaskScan::visit(const TaskQuery& query,
                             const std::function<void(const abi_task&)>& visit) {
  loaded_->ask(query);
  return loaded_->run(loaded_->scan, visit);
}

Result<std::vector<pid_t>> TaskScan::walk_order(CgroupId cgroup) {
  loaded_->ask({cgroup});
  TRY(loaded_->walk());
  const auto& found = *loaded_->skeleton->bss;
  return std::vector<pid_t>(found.walked, found.walked + found.walked_count);
}

const Calibration& TaskScan::calibration() const {
  return loaded_->calibration;
}

}  // namespace forestall::kernel
